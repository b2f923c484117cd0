/* SPDX-License-Identifier: MIT */
/*
 * work.h - what can be measured: something with a lock and an unlock.
 *
 * A process opens it once and each of its threads takes a worker from it, so that dlock, a bare
 * connection to a store and a mutex are driven by the same loops.
 */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#define BENCH_WHY_SIZE 256

/* Where and on what; the same in all processes. */
struct bench_place {
    const char *uri; /* of the store; for a bare database in a file, its path */
    int one_name;    /* non-zero: all workers take the same name, else each its own */
    int run;         /* in all names, so that no run finds what an earlier one left */
};

/* Functions that can fail fill why, of BENCH_WHY_SIZE, with one line. */
struct bench_work {
    /* NULL, or: makes what the processes find, before they start. 0, or failed. */
    int (*prepare)(const struct bench_place *place, char *why);
    /* NULL: failed. */
    void *(*open)(const struct bench_place *place, char *why);
    void (*close)(void *process);
    /* index counts the workers of all processes. NULL: failed. */
    void *(*join)(void *process, const struct bench_place *place, int index, char *why);
    void (*leave)(void *worker);
    /* 0, or failed. lock waits. rdlock is shared; NULL: there is no such thing. */
    int (*lock)(void *worker, char *why);
    int (*rdlock)(void *worker, char *why);
    int (*unlock)(void *worker, char *why);
    /* NULL, or: non-zero if what was locked is still held. */
    int (*holds)(const void *worker);
    int weight; /* pairs that one lock with its unlock stands for; 0: one */
};

/* Any store, through dlock.h. */
extern const struct bench_work bench_work_dlock;

/* The statements that a lock in a SQLite table takes, and nothing around them. */
extern const struct bench_work bench_work_sqlite;

/* Threads of one process, in the order of coming, by a condition variable: what a lock without a
 * store can do. */
extern const struct bench_work bench_work_fifo;

/* SET NX PX and a script that deletes what is ours, over one blocking hiredis connection a worker;
 * the same, for one pair of a connection, the script sent along; with a look for the answer for up
 * to 50 us before sleeping; and 64 of them at once. */
extern const struct bench_work bench_work_redis;
extern const struct bench_work bench_work_redis_fence;
extern const struct bench_work bench_work_redis_once;
extern const struct bench_work bench_work_redis_spin;
extern const struct bench_work bench_work_redis_pipe;

/* A queue in Redis whose head is given the lock, and told so, by the script that unlocks. */
extern const struct bench_work bench_work_grant;

/* SET NX PX and the script on all nodes of the URI at once; waits for all answers. */
extern const struct bench_work bench_work_nodes;

/* Prepared statements over one libmariadb connection a worker: a conditional UPDATE and one back;
 * GET_LOCK; a transaction with FOR UPDATE, and a fence committed by a second connection. The text
 * one connects and sends its two UPDATEs, for comparing what opening costs. */
extern const struct bench_work bench_work_maria_update;
extern const struct bench_work bench_work_maria_text;
extern const struct bench_work bench_work_maria_getlock;
extern const struct bench_work bench_work_maria_session;

/* Prepared statements over one libpq connection a worker: a conditional UPDATE and one back; the
 * same in two functions of plpgsql; an advisory lock; the same with a fence that has risen. The
 * text one connects and calls the two functions by statements that are not prepared, for comparing
 * what opening costs. grant: a queue whose head is given the lock by the function that unlocks, and
 * is told by a NOTIFY of its own. */
extern const struct bench_work bench_work_postgresql_update;
extern const struct bench_work bench_work_postgresql_function;
extern const struct bench_work bench_work_postgresql_text;
extern const struct bench_work bench_work_postgresql_advisory;
extern const struct bench_work bench_work_postgresql_fence;
extern const struct bench_work bench_work_postgresql_grant;

#endif
