/* SPDX-License-Identifier: MIT */
/* peer_kit.h - sqlite_peer processes (peer.c) from a test: started by exec, told by pipes. */
#ifndef DLT_PEER_KIT_H
#define DLT_PEER_KIT_H

#include <dlock/types.h>
#include <stdio.h>
#include <sys/types.h>

struct dlt_peer {
    pid_t pid;
    FILE *to, *from;
};

struct dlt_answer {
    enum dlock_status status;
    unsigned long long fence;
    long long lease_ms, holder_ms;
    int queued;
    char message[256];
};

/* wrapper: NULL, or a command that runs another: "unshare -T". Aborts the test on failure. */
void dlt_peer_start(struct dlt_peer *peer, const char *wrapper);
/* SIGKILL, if it still runs, and waits. */
void dlt_peer_kill(struct dlt_peer *peer);

/* Says a line and does not wait for the answer. */
__attribute__((format(printf, 2, 3))) void dlt_peer_say(struct dlt_peer *peer, const char *format,
                                                        ...);
struct dlt_answer dlt_peer_hear(struct dlt_peer *peer);
/* Both. */
__attribute__((format(printf, 2, 3))) struct dlt_answer dlt_peer_ask(struct dlt_peer *peer,
                                                                     const char *format, ...);

/* Zero: it did not say anything within timeout_ms. */
int dlt_peer_answers(struct dlt_peer *peer, int timeout_ms);

#endif
