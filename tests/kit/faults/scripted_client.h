/* SPDX-License-Identifier: MIT */
/*
 * scripted_client.h - a server for a C test, made of a script.
 *
 *     dlt_scripted_start(&server, "conn\n"
 *                                 "command GET k\n"
 *                                 "send \"$-1\\r\\n\"\n");
 *     ... connect to server.address ...
 *     dlt_scripted_finish(&server, 1000)      false: server.report says where it went otherwise
 */
#ifndef DLT_SCRIPTED_CLIENT_H
#define DLT_SCRIPTED_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

struct dlt_scripted {
    pid_t pid;
    int fd;
    unsigned port;
    char address[64];
    char report[4096]; /* "mismatch line 3, connection 1: ..." lines, or why it did not start */
};

/* Plays the script (README.md) to who connects. False: report says why not. */
bool dlt_scripted_start(struct dlt_scripted *server, const char *script);

/* Waits for the last part to be over, but not longer; ends the server. True: all of it was played,
 * and nothing else happened. Harmless twice, then false. */
bool dlt_scripted_finish(struct dlt_scripted *server, int timeout_ms);

#endif
