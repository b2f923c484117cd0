/* SPDX-License-Identifier: MIT */
/*
 * proxy_client.h - a C test's hold on a dlock-faultproxy of its own.
 *
 *     struct dlt_proxy proxy;
 *     dlt_proxy_start(&proxy, "127.0.0.1:6379", "resp", NULL);
 *     ... connect to proxy.address ...
 *     dlt_proxy_tell(&proxy, "hold c2s +1 match=PEXPIRE");
 *
 * One thread at a time per struct. The proxy ends with the process that started it.
 */
#ifndef DLT_PROXY_CLIENT_H
#define DLT_PROXY_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dlt_proxy {
    pid_t pid;         /* 0: attached to one that another process started */
    int fd;            /* of the control channel */
    unsigned port;     /* where it listens on 127.0.0.1; 0: on a path */
    char address[128]; /* "127.0.0.1:PORT", or the path */
    char answer[1024]; /* to the last line: "ok ...", or why not */
};

/* Zero: the default. */
struct dlt_proxy_options {
    const char *program; /* the path of dlock-faultproxy; NULL: that of the build tree */
    const char *address; /* to listen on; NULL: a free port of 127.0.0.1 */
    const char *control; /* a path where other processes attach; NULL: none */
    /* How long it goes on trying while the server refuses connections: a client that connects too
     * early has to wait for its server then, and is not cut off at once. */
    unsigned patience_ms;
};

/*
 * Starts a proxy in front of server ("127.0.0.1:PORT" or a path). framing: as in
 * frame.h. options may be NULL. False: answer says why. End it with dlt_proxy_stop.
 */
bool dlt_proxy_start(struct dlt_proxy *proxy, const char *server, const char *framing,
                     const struct dlt_proxy_options *options);

/* Takes up the control channel of a running proxy at the path of its --control. */
bool dlt_proxy_attach(struct dlt_proxy *proxy, const char *control);

/* Sends a line (README.md) and waits for the answer: true, it is in force; false, see answer. */
__attribute__((format(printf, 2, 3))) bool dlt_proxy_tell(struct dlt_proxy *proxy,
                                                          const char *format, ...);

/* A counter's value, of connection `link` or (0) of all; -1: no such counter, or no proxy. */
int64_t dlt_proxy_count(struct dlt_proxy *proxy, uint64_t link, const char *counter);

/* Waits for the proxy to end; an attached one goes on. False: it ended badly. Harmless twice. */
bool dlt_proxy_stop(struct dlt_proxy *proxy);

#endif
