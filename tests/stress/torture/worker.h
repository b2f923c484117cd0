/* SPDX-License-Identifier: MIT */
/*
 * worker.h - a client process of a run: threads that take, hold and give back a few names in all
 * the ways there are, and write down what they did and were told.
 */
#ifndef TORTURE_WORKER_H
#define TORTURE_WORKER_H

#include "chance.h"
#include "shared.h"

#include "../history/log.h"
#include <dlock/dlock.h>
#include <sys/types.h>

#define NS_PER_MS INT64_C(1000000)

struct worker_order {
    const char *uri, *directory;
    uint64_t seed;
    int64_t ttl_ms, think_us;
    unsigned number, generation; /* which client, and how often it was started before */
    unsigned threads, names;
    unsigned limit;  /* of each name: a semaphore; 0: a lock */
    bool keeps;      /* a part of the releases keeps the name, or the permit */
    bool programs;   /* they start programs, with which their leases end */
    bool session;    /* leases live in sessions: see actor.c */
    bool long_holds; /* what the next master lacks is held for longer than a failover takes */
};

struct worker {
    const struct worker_order *order;
    struct shared *shared;
    struct dlt_log *log;
    struct dlock_client *client;
    uint64_t caps;
    struct actor *actors; /* order->threads of them */
    int64_t op_timeout_ms;
    bool polls_events; /* notices by event descriptor, not losses by callback; most calls are
                          operations then */
};

/* No new turns: the run is over, or this client is to leave (SIGTERM). */
bool worker_stopping(const struct worker *worker);

/* Of a handle, as its thread sees it. */
enum grip_stage { GRIP_FREE, GRIP_TAKING, GRIP_HELD, GRIP_GIVING };

/* One handle. The guard orders the thread that uses it and the news of losses. */
struct grip {
    struct actor *actor;
    struct dlock_handle *lock;
    pthread_mutex_t guard;
    enum grip_stage stage;
    bool told, early; /* of a loss; before the thread had noted that it held */
    bool renewed;
    uint64_t data;         /* what it publishes; 0: nothing */
    int64_t keeps_ms;      /* by its options */
    int64_t keep_ms;       /* by the present acquisition */
    pid_t program;         /* that it has started; 0: none */
    bool async;            /* by operations (call.h), whose ends the guard and `done` tell */
    enum dlock_op pending; /* under way, or about to be; 0: none */
    enum dlock_status status;
    pthread_cond_t done;
    struct dlt_record record; /* what the records of the attempt have in common */
};

struct actor {
    struct worker *worker;
    unsigned place; /* among the threads of all clients */
    struct chance chance;
    struct grip grips[NAMES_MOST];
};

/* The whole life of the process. Its exit status: 0, or 1 with the reason on standard error. */
int worker_main(const struct worker_order *order);

/* actor.c: one thread. */
bool actor_init(struct actor *actor, struct worker *worker, unsigned place);
void actor_fini(struct actor *actor);
void *actor_run(void *arg); /* the actor */

/* inspect.c: the text of a name, of 32 bytes at most; its length. */
int name_text(char *text, uint32_t name);
/* What the handle is to publish; inspects its name, and notes what was shown. */
void inspect_publish(struct grip *grip, struct dlock_options *options);
void inspect_name(struct grip *grip);

/* keep.c: for how long the handle keeps what it releases; a new acquisition, whose RET_LOCK is to
 * be written; it may keep for another time than its handle. */
void keep_choose(struct grip *grip, struct dlock_options *options);
void keep_acquired(struct grip *grip, struct dlt_record *record);
void keep_change(struct grip *grip);

/* The news of a loss; event->user is a grip. */
void actor_lost(void *arg, const struct dlock_notice *event); /* the worker */

#endif
