/* SPDX-License-Identifier: MIT */
/*
 * work.h - what can be measured: something with a lock and an unlock.
 *
 * A process opens it once and each of its threads takes a worker from it, so that dlock, a bare
 * database and a mutex are driven by the same loop.
 */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#define BENCH_WHY_SIZE 256

/* Where and on what; the same in all processes. */
struct bench_place {
    const char *uri; /* of the store; for a bare database, the path of its file */
    int one_name;    /* non-zero: all workers take the same name, else each its own */
};

/* Functions that can fail fill why, of BENCH_WHY_SIZE, with one line. */
struct bench_work {
    /* NULL: failed. */
    void *(*open)(const struct bench_place *place, char *why);
    void (*close)(void *process);
    /* index counts the workers of all processes. NULL: failed. */
    void *(*join)(void *process, const struct bench_place *place, int index, char *why);
    void (*leave)(void *worker);
    /* 0, or failed. lock waits. */
    int (*lock)(void *worker, char *why);
    int (*unlock)(void *worker, char *why);
};

/* Any store, through dlock.h. */
extern const struct bench_work bench_work_dlock;

/* The statements that a lock in a SQLite table takes, and nothing around them. */
extern const struct bench_work bench_work_sqlite;

/* Threads of one process, in the order of coming, by a condition variable: what a lock without a
 * store can do. */
extern const struct bench_work bench_work_fifo;

#endif
