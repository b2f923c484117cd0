/* SPDX-License-Identifier: MIT */
/*
 * pool.h - many processes at once, each with a time limit, its output kept.
 *
 * A job runs this program again with its arguments, in a process group of its own; when it ends or
 * its time is over, the whole group is killed. A job whose measurements are void (kit.h) runs
 * again.
 */
#ifndef DLT_POOL_H
#define DLT_POOL_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define DLT_JOB_ARGS 12
#define DLT_JOB_RUNS 5 /* of a job that ends with DLT_EXIT_VOID */

enum dlt_job_state { DLT_JOB_NEW, DLT_JOB_RUNNING, DLT_JOB_DONE };

struct dlt_job {
    const char *args[DLT_JOB_ARGS]; /* NULL-terminated, args[0] is the program's name */
    const char *uri;                /* goes into the environment as DLT_URI */
    const char *ttl_most;           /* as DLT_TTL_MOST; NULL: does not */
    int64_t limit_ms;
    int alone; /* nothing runs beside it */
    /* After it ran: */
    enum dlt_job_state state;
    int runs;        /* more than one: before, it ended with DLT_EXIT_VOID */
    int exit_status; /* 0 to 255; -1: killed by a signal or by us */
    int timed_out;
    int signal;
    int64_t took_ms;
    int output; /* a descriptor, rewound; -1: none. Close it */
    /* Of the pool. */
    pid_t pid;
    int pidfd;
    int64_t start_ns;
};

/* From now on SIGINT, SIGTERM and SIGHUP end the pool, and with it what it runs, and a reader of
 * our output that goes away does not end us: there are directories to remove. */
void dlt_pool_catch_signals(void);

/* The signal that ended it; 0: none came. */
int dlt_pool_signal(void);

/* Runs them all, at most `width` at once, in order; calls done(arg) after each end. Returns before
 * all are done when a signal came. */
void dlt_pool_run(const char *program, struct dlt_job *jobs, size_t count, unsigned width,
                  void (*done)(void *arg), void *arg);

#endif
