/* SPDX-License-Identifier: MIT */
/*
 * child.h - another party with a client of its own, which does as it is told (role.h): a process,
 * or a thread of this one.
 *
 * The process runs this program again with --role holder. One line goes in, one line comes back.
 * It dies with the case.
 */
#ifndef DLT_CHILD_H
#define DLT_CHILD_H

#include "kit.h"

#include <sys/types.h>

struct dlt_child {
    pid_t pid; /* 0: a thread */
    pthread_t thread;
    const struct dlt_run *run;
    const char *defaults;
    FILE *in, *out; /* the thread's */
    FILE *to, *from;
    char reply[512]; /* the last one, without its newline */
};

/* A process. defaults: NULL or options of the child's client, which is open when this returns. */
void dlt_child_start(struct dlt_child *child, const struct dlt_run *run, const char *defaults);

/* A process; but a thread where the store lives in one, so that a case runs there as well. defaults
 * is borrowed. */
void dlt_party_start(struct dlt_child *child, const struct dlt_run *run, const char *defaults);

/* Sends a command (role.h) and does not wait. */
__attribute__((format(printf, 2, 3))) void dlt_child_tell(struct dlt_child *child,
                                                          const char *format, ...);

/* Waits for the answer, which is in child->reply then, too. */
const char *dlt_child_hear(struct dlt_child *child);

/* The answer has to be `want`. Both in one; the answer's first word has to be `want`. */
__attribute__((format(printf, 3, 4))) void dlt_child_want(struct dlt_child *child, const char *want,
                                                          const char *format, ...);

/* The end of what "wait 0 ..." began: its status has to be `want`. */
struct dlt_waited {
    uint64_t fence;  /* of OK */
    int64_t done_ns; /* when the call returned */
};
struct dlt_waited dlt_child_waited(struct dlt_child *child, const char *want);

/* To a process. After SIGSTOP all of its threads stand still when this returns. */
void dlt_child_signal(const struct dlt_child *child, int signal);

/* SIGKILL, and gone when this returns. */
void dlt_child_kill(struct dlt_child *child);

/* Ends it in good order: its client is closed; a process has to exit with 0. */
void dlt_child_stop(struct dlt_child *child);

#endif
