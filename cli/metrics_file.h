/* SPDX-License-Identifier: MIT */
/*
 * metrics_file.h - `--metrics FILE`: what a client has counted, as OpenMetrics text for the
 * textfile collector of Prometheus' node exporter (dlock/metrics.h).
 *
 * Each writing makes a new file beside FILE, and renames it: a reader never gets half of it. All
 * series have the label `file`, FILE's name without its folder and without ".prom", so that the
 * files of one folder have no series twice.
 */
#ifndef CLI_METRICS_FILE_H
#define CLI_METRICS_FILE_H

#include "acquire.h"
#include "cli.h"

#include <stdio.h>

#define METRICS_FILE_LABEL 128 /* bytes of a label: as many as the library takes */

struct metrics_file {
    const char *path; /* NULL: none */
    char label[METRICS_FILE_LABEL + 1];
    int error; /* the errno of the last writing that failed; 0: none */
};

/* Writes the series of a command to out; label: `file="NAME"`, for all of them. */
typedef void metrics_file_fn(void *arg, FILE *out, const char *label);

/* 0 or an errno: no file can be made there. path stays the caller's. */
int metrics_file_init(struct metrics_file *file, const char *path);

/* Writes the client's series, and those of more, which may be NULL. client: NULL: has none. Does
 * nothing without a path. */
void metrics_file_write(struct metrics_file *file, struct dlock_client *client,
                        metrics_file_fn *more, void *arg);

/* The header of a family, and a whole one with one sample. unit: "" or the end of the name. */
void metrics_file_family(FILE *out, const char *name, const char *type, const char *unit,
                         const char *help);
void metrics_file_gauge(FILE *out, const char *label, const char *name, const char *unit,
                        const char *help, double value);

/* Prints one line if the last writing failed. */
void metrics_file_report(const struct metrics_file *file, const struct cli *cli);

/*
 * Writes `--metrics FILE` while a command waits for its lock and holds it: a
 * thread of its own, because a file system may stand still, and a lease does not wait.
 */
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
