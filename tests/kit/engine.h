/* SPDX-License-Identifier: MIT */
/*
 * engine.h - the whole engine of core in virtual time: a client on a memory store with hooks, a
 * clock that only the test moves, calls in threads of their own.
 *
 * The clock moves when every other thread of the process is asleep, so that a test sees what
 * happens at a moment, before and after it, however busy the machine is. Nothing sleeps for longer
 * than it takes. What cannot be set up ends the program with a text.
 */
#ifndef DLT_ENGINE_H
#define DLT_ENGINE_H

#include "api/client.h"
#include "hold/renew_schedule.h"
#include "memory_hooks.h"

#define DLT_LOSSES_MAX 64
#define DLT_MS         INT64_C(1000000)

/* What dlt_call_finish returns when the call did not end. */
#define DLT_STUCK ((enum dlock_status)(-1))

struct dlt_engine {
    struct dlock_client *client; /* NULL: closed */
    const char *store;           /* of memory_hooks_*() */
    _Atomic int64_t now_ns;
    int runs;                /* the real clock in place of now_ns */
    _Atomic int64_t kill_ns; /* of the kill timer; DL_NEVER: not armed; 0: there was none */
    int kill_error;          /* what its open returns */
    const struct dlock_handle *kill_of; /* NULL, or a handle whose state is noted when it is set */
    enum dlock_state kill_state;

    /* Of the loss callback. own: what the test does there besides. */
    void (*own)(struct dlt_engine *engine, const struct dlock_notice *event);
    pthread_cond_t moved; /* the clock */

    pthread_mutex_t mutex; /* guards the rest */
    struct dlock_notice losses[DLT_LOSSES_MAX];
    int64_t loss_ns[DLT_LOSSES_MAX]; /* when each was told */
    unsigned loss_count;
    char log[8192]; /* all lines, as far as they fit */
};

struct dlt_setup {
    const struct dlock_plugin *plugin; /* NULL: the memory plugin with hooks */
    const char *options;               /* of the URI; NULL: none */
    int callback;                      /* losses come to the callback, not to next_event */
    int runs;                          /* on the real clock */
    void (*own)(struct dlt_engine *engine, const struct dlock_notice *event);
};

/* setup NULL: all defaults. store: of this test alone. */
void dlt_engine_open(struct dlt_engine *engine, const char *store, const struct dlt_setup *setup);
/* The same where opening may fail. */
enum dlock_status dlt_engine_try_open(struct dlt_engine *engine, const char *store,
                                      const struct dlt_setup *setup, struct dlock_error *err);
void dlt_engine_close(struct dlt_engine *engine);

/* Another client of the same store and clock, as another process would be one; and a lock that it
 * holds. Nobody renews it: it lasts an hour. For the caller to close and free. */
struct dlock_client *dlt_engine_rival(struct dlt_engine *engine);
struct dlock_handle *dlt_rival_hold(struct dlock_client *rival, const char *name,
                                    enum dlock_mode mode);

/* options NULL: the client's. */
struct dlock_handle *dlt_engine_lock(struct dlt_engine *engine, const char *name,
                                     const struct dlock_options *options);

/* Waits until all other threads sleep. */
void dlt_settle(void);

/* Moves the clock at once, wakes everybody, and settles. */
void dlt_engine_advance(struct dlt_engine *engine, int64_t ms);

/* The same in steps of 1 ms. */
void dlt_engine_run(struct dlt_engine *engine, int64_t ms);

/* For slots of a test's own backend. */
void dlt_engine_sleep_until(struct dlt_engine *engine, int64_t until_ns);

/* Now, in ms since the engine was opened. */
int64_t dlt_engine_ms(struct dlt_engine *engine);

/* Losses told by the callback so far, and lines logged that contain text. */
unsigned dlt_engine_losses(struct dlt_engine *engine);
int dlt_engine_logged(struct dlt_engine *engine, const char *text);

enum dlt_kind {
    DLT_LOCK,
    DLT_TRYLOCK,
    DLT_TIMEDLOCK,
    DLT_RDLOCK,
    DLT_UNLOCK,
    DLT_RENEW,
    DLT_DOWNGRADE,
    DLT_FREE,
    DLT_CLOSE
};

struct dlt_call {
    struct dlt_engine *engine;
    struct dlock_handle *lock;
    enum dlt_kind kind;
    int64_t arg; /* timeout_ms, ttl_ms */
    pthread_t thread;
    _Atomic int done;
    enum dlock_status status; /* OK for FREE and CLOSE */
    struct dlock_error err;
    int64_t start_ns, end_ns;
};

/* Begins the call in a thread of its own, and settles. */
void dlt_call_start(struct dlt_call *call, struct dlt_engine *engine, enum dlt_kind kind,
                    struct dlock_handle *lock, int64_t arg);

/* Runs the clock until the call has ended, for most_ms, and returns what it answered. On the real
 * clock it waits for as long as it takes. */
enum dlock_status dlt_call_finish(struct dlt_call *call, int64_t most_ms);

/* How long it took on the engine's clock. */
int64_t dlt_call_ms(const struct dlt_call *call);

/* Both at once; a minute is enough for everybody. */
enum dlock_status dlt_do(struct dlt_engine *engine, enum dlt_kind kind, struct dlock_handle *lock,
                         int64_t arg);

/* A fault of the store, hitting `times` calls after `skip`. */
void dlt_fault(struct dlt_engine *engine, enum memory_slot slot, enum memory_fault_kind kind,
               struct memory_fault more);

unsigned dlt_calls(struct dlt_engine *engine, enum memory_slot slot);

/* Who holds the name, as hex; "": nobody. */
const char *dlt_owner(struct dlt_engine *engine, const char *name, char hex[DLOCK_TOKEN_CHARS]);

#endif
