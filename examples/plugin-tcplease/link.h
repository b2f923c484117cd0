/* SPDX-License-Identifier: MIT */
/*
 * link.h - one connection to a server that answers a line with a line.
 *
 * link_ask says what the rest of the plugin hangs on: was the request certainly not executed, or is
 * that not known? It never waits past its deadline, and a link that failed is not used again.
 */
#ifndef TCPLEASE_LINK_H
#define TCPLEASE_LINK_H

#include <dlock/plugin.h>

#define LINK_LINE_MAX 1200

struct link {
    const struct dlock_host *host;
    char endpoint[64]; /* "127.0.0.1:7777", for messages */
    int fd;            /* -1: none */
    bool broken;       /* an answer may still be on its way, or the peer is gone */
};

/* address: "127.0.0.1:7777", "[::1]:7777" or "localhost:7777". A name would need getaddrinfo, which
 * knows no deadline, and so a thread. UNAVAILABLE or INVALID. */
enum dlock_status link_open(struct link *link, const struct dlock_host *host, const char *address,
                            int64_t deadline_ns, struct dlock_error *err);

void link_close(struct link *link);

/*
 * Sends the line, which ends with a newline, and reads the answer without its newline.
 *
 * OK: that is the answer. UNAVAILABLE: not a byte of the request has left. UNKNOWN: some of it has,
 * and there is no answer by the deadline, or no whole one.
 */
enum dlock_status link_ask(struct link *link, const char *line, char answer[LINK_LINE_MAX],
                           int64_t deadline_ns, struct dlock_error *err);

#endif
