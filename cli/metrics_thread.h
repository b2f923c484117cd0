/* SPDX-License-Identifier: MIT */
/*
 * metrics_thread.h - writes `--metrics FILE` while a command waits for its lock and holds it: a
 * thread of its own, because a file system may stand still, and a lease does not wait.
 */
#ifndef CLI_METRICS_THREAD_H
#define CLI_METRICS_THREAD_H

#include "acquire.h"
#include "metrics_file.h"

struct metrics_thread {
    struct metrics_file *file;
    struct acquire *acquire;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards stop */
    pthread_cond_t stopped;
    bool stop;
    bool running;
};

/* Begins to write, once acquire has its client, and about every ten seconds. Does nothing without a
 * path. Without a thread the file is written by stop alone. */
void metrics_thread_start(struct metrics_thread *thread, struct metrics_file *file,
                          struct acquire *acquire);

/* Ends the thread, and writes the file for the last time. Before acquire_fini. more: as
 * metrics_file_write. */
void metrics_thread_stop(struct metrics_thread *thread, metrics_file_fn *more, void *arg);

#endif
