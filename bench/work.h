/* SPDX-License-Identifier: MIT */
/*
 * work.h - a lock that can be measured: functions to open it, to lock and to unlock.
 *
 * A process opens it once, and each of its threads begins a worker. So the same loops measure
 * dlock, a bare connection to a store and a mutex.
 */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#define BENCH_WHY_SIZE 256

/* The words of a program; the last one is NULL. */
#define BENCH_COMMAND_WORDS 12

struct bench_command {
    const char *words[BENCH_COMMAND_WORDS];
    char program[512], uri[600], name[48];
};

/* The store and the names; the same in all processes. */
struct bench_config {
    const char *uri; /* of the store; for a bare database in a file, its path */
    int one_name;    /* non-zero: all workers take the same name, else each its own */
    int run;         /* a part of all names, so that each run has new names */
};

/* A function that fails writes one line to why, which has BENCH_WHY_SIZE bytes. */
struct bench_work {
    /* NULL, or called once before the processes start. 0, or failed. */
    int (*prepare)(const struct bench_config *config, char *why);
    /* NULL: failed. */
    void *(*open)(const struct bench_config *config, char *why);
    void (*close)(void *process);
    /* index counts the workers of all processes. NULL: failed. */
    void *(*begin)(void *process, const struct bench_config *config, int index, char *why);
    void (*end)(void *worker);
    /* 0, or failed. lock waits. rdlock takes a shared lock; NULL: there is none. */
    int (*lock)(void *worker, char *why);
    int (*rdlock)(void *worker, char *why);
    int (*unlock)(void *worker, char *why);
    /* NULL, or non-zero: the lock is still held. */
    int (*holds)(const void *worker);
    /* NULL, or one thread of a process serves all its workers, each with one operation under way,
     * and lock and unlock are not used. start begins one: 0, or failed. next waits until one has
     * ended: the index of its worker, or -1: failed. */
    int (*start)(void *worker, int unlock, char *why);
    int (*next)(void *process, char *why);
    /* For BENCH_RUNNING: fills the words of a program that takes a lock, runs `true` under it and
     * gives it back. */
    void (*command)(const struct bench_config *config, struct bench_command *command);
    int weight; /* pairs for which one lock and unlock count; 0: one */
};

/* Any store, through dlock.h; its command is `dlock run`. */
extern const struct bench_work bench_work_dlock;

/* The same by dlock_op_start. */
extern const struct bench_work bench_work_async;

/* The bare statements of a lock in a SQLite table. */
extern const struct bench_work bench_work_sqlite;

/* Threads of one process in FIFO order, by condition variables: the limit of a lock without a
 * store. */
extern const struct bench_work bench_work_fifo;

/* SET NX PX and a script that deletes our key, over one blocking hiredis connection a worker.
 * fence: with a counter. once: one pair a connection, with the script in the request. spin: polls
 * for the answer for up to 50 us before it sleeps; fence_spin: with a counter, too. pipe: 64 pairs
 * at once. */
extern const struct bench_work bench_work_redis;
extern const struct bench_work bench_work_redis_fence;
extern const struct bench_work bench_work_redis_once;
extern const struct bench_work bench_work_redis_spin;
extern const struct bench_work bench_work_redis_fence_spin;
extern const struct bench_work bench_work_redis_pipe;

/* A queue in Redis: the script that unlocks gives the lock to the head and sends it a message.
 * fence: the message has a counter, and an entry of the queue ends by itself. */
extern const struct bench_work bench_work_grant;
extern const struct bench_work bench_work_grant_fence;

/* SET NX PX and the script on all nodes of the URI at once; it waits for all answers. */
extern const struct bench_work bench_work_nodes;

/* Programs: `true` by itself, and `true` under a bare lock, by the least program that does it. */
extern const struct bench_work bench_work_true;
extern const struct bench_work bench_work_run_redis;
extern const struct bench_work bench_work_run_maria;
extern const struct bench_work bench_work_run_sqlite;

/* Prepared statements over one libmariadb connection a worker. update: a conditional UPDATE, and
 * one back. getlock: GET_LOCK. queue: the two UPDATEs under GET_LOCK. session: a transaction with
 * FOR UPDATE, and a fence that a second connection commits. text: connects and sends the two
 * UPDATEs as text, to compare the cost of opening. */
extern const struct bench_work bench_work_maria_update;
extern const struct bench_work bench_work_maria_text;
extern const struct bench_work bench_work_maria_getlock;
extern const struct bench_work bench_work_maria_queue;
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

/* Calls of gRPC over one connection of nghttp2 a worker, with a lease that is kept: it is kept
 * alive while a Txn puts the key if the name has none, and a Txn deletes it. queue: the key is put
 * in any case, and the one before it is watched. */
extern const struct bench_work bench_work_etcd;
extern const struct bench_work bench_work_etcd_queue;

/* Requests of libzookeeper_st over a session a worker: an ephemeral sequential node and the list of
 * all nodes of the name in one flight, and a delete. A worker whose node is not the first one
 * watches the one before it, and asks for the list again. */
extern const struct bench_work bench_work_zookeeper;

#endif
