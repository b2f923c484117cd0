/* SPDX-License-Identifier: MIT */
/*
 * session_pool.h - the plugin sessions of one client: opens, lends and closes them.
 *
 * Sessions are counted in three budgets, so that waiting calls can never starve unlocks:
 * operations, waiters and sessions that hold leases, each limited by `connections`. One of the
 * operations is kept for calls on held locks (unlock, renew); the renewer has one session more.
 * With DLOCK_CAP_CONCURRENT one session serves all calls.
 *
 * A session is opened when none is idle, and closed when it was idle for a minute. A call whose
 * budget is used up waits in a queue. So does a call that the store refuses a further session
 * (UNAVAILABLE) while others are lent: one call asks the store again after a second for all of
 * them, and the renewer asks whenever it renews. A session that comes back is lent to the first
 * waiter that may have it, and only that thread is woken. The order is: renewer, held locks, calls
 * that acquire. If a session that is lent to the wait for all operations would do, the host is told
 * (session_wanted), and ends that wait.
 *
 * The pool's mutex is the last one: no other mutex is taken and no slot is called while it is held.
 */
#ifndef DL_SESSION_POOL_H
#define DL_SESSION_POOL_H

#include "load/abi.h"
#include "session/ttl_grid.h"
#include "session/wait.h"
#include "sys/host.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What a session is lent for; a free session goes to the first of them that waits. */
enum dl_use {
    DL_USE_RENEWER,
    DL_USE_HOLDER,  /* unlock, renew: may take the last one */
    DL_USE_ACQUIRE, /* trylock, inspect, list, break */
    DL_USE_LEASE,   /* stores whose leases live in a session: as long as the lock is held */
    DL_USE_WAIT     /* watch: does not wait for a session */
};
#define DL_USE_COUNT 5

struct dl_session {
    struct dl_session *next;
    int64_t idle_ns; /* since when it is idle */
    uint64_t caps;
    alignas(16) unsigned char self[];
};

struct dl_pool {
    const struct dl_plugin *plugin;
    const struct dlock_target *target;
    struct dl_host *host;
    int64_t connect_timeout_ms;
    unsigned limit;

    pthread_mutex_t mutex;
    pthread_cond_t connected_changed; /* CONCURRENT: of `shared` and `connecting` */
    struct dl_wait_fifo
        fifo[DL_USE_COUNT];   /* a served waiter gets a session, or NULL: it has to open one */
    struct dl_session *idle;  /* connected and idle; the one used last is the first */
    struct dl_session *begun; /* an open that had too little time: the next one goes on [OPN-7] */
    unsigned lent;            /* connected, and in use */
    unsigned opening;         /* being opened */
    int64_t
        refused_until_ns; /* the store has refused one more session; 0: not since one was opened */
    char refusal[160];    /* the text of that refusal */
    struct dl_session *_Atomic shared; /* CONCURRENT: the one session, once it is made */
    bool connecting;                   /* CONCURRENT: a thread makes it */
    unsigned used[DL_USE_COUNT];
    struct dlock_session_info
        info; /* of the session opened last; before the first: what the plugin can do */
    struct dlock_session_info first; /* of the first session, constant once `connected` is set */
    _Atomic bool connected;
    struct dl_ttl_grid ttls;                 /* of all sessions and probes so far */
    _Atomic uint64_t opened, failed, broken; /* how many sessions, and connections inside of one
                                                (CNT-1), were, and could not be, opened; and were
                                                closed because an exchange failed */
};

/* Whether one session serves all calls. */
static inline bool dl_session_pool_is_shared(const struct dl_pool *pool)
{
    return (pool->plugin->caps & DLOCK_CAP_CONCURRENT) != 0;
}

/* Whether the budget of this use has room for one more session. The pool's mutex is held. */
static inline bool dl_session_pool_has_budget(const struct dl_pool *pool, enum dl_use use)
{
    unsigned operations = pool->used[DL_USE_ACQUIRE] + pool->used[DL_USE_HOLDER];

    switch (use) {
    case DL_USE_ACQUIRE:
        return operations + 1 < pool->limit;
    case DL_USE_HOLDER:
        return operations < pool->limit;
    case DL_USE_RENEWER:
        return true;
    case DL_USE_WAIT:
    case DL_USE_LEASE:
        return pool->used[use] < pool->limit;
    }
    return false;
}

/* 0, or NOMEM. connections >= 2. */
enum dlock_status dl_session_pool_init(struct dl_pool *pool, const struct dl_plugin *plugin,
                                       const struct dlock_target *target, struct dl_host *host,
                                       int64_t connect_timeout_ms, int connections,
                                       struct dlock_error *err);

/* Closes the idle sessions; none may be lent. forked: in the child of a fork, without the mutex and
 * without sending a byte. */
void dl_session_pool_fini(struct dl_pool *pool, bool forked);

/* Closes a session that was lent when this child was forked. */
void dl_session_pool_close_after_fork(struct dl_pool *pool, struct dl_session *session);

/* Lends a connected session; opens one within min(deadline, connect_timeout) if none is idle. OK;
 * the status of open; BUSY (acquire, lease) or UNAVAILABLE: the budget is used up, or the store
 * refuses more, and no session came back by the deadline. */
enum dlock_status dl_session_pool_take(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns,
                                       struct dl_session **out, struct dlock_error *err);

/* Whether a call that takes a session for this use now would have to wait for one that is lent. */
bool dl_session_pool_is_spent(struct dl_pool *pool, enum dl_use use);

/* Lends an idle session, as DL_USE_HOLDER or DL_USE_WAIT; NULL: none. A wait gets none either when
 * its budget is used up or sessions are scarce: the call that ends the wait needs one. */
struct dl_session *dl_session_pool_take_idle(struct dl_pool *pool, enum dl_use use);

/* Whether a session may be broken after a call that ended with status. */
bool dl_session_pool_breaks(enum dlock_status status);

/* Takes a session back after a call that ended with status. A session that may be broken is closed
 * (C9), and after UNAVAILABLE the idle ones, too: when a server went away, all of them are dead. */
void dl_session_pool_put(struct dl_pool *pool, enum dl_use use, struct dl_session *session,
                         enum dlock_status status);

/* Closes the sessions that were idle for a minute, but for one; and returns when to do that next,
 * because no thread is woken when a session becomes idle. DL_NEVER: there is at most one session;
 * host->session_made reports the next one. */
void dl_session_pool_trim(struct dl_pool *pool);
int64_t dl_session_pool_trim_ns(struct dl_pool *pool, int64_t now_ns);

/* A plugin that has one session counts the connections in it. Takes no mutex. */
static inline void dl_session_pool_count(struct dl_pool *pool, enum dlock_connection_event event)
{
    (void)atomic_fetch_add(event == DLOCK_CONNECTION_MADE     ? &pool->opened
                           : event == DLOCK_CONNECTION_FAILED ? &pool->failed
                                                              : &pool->broken,
                           1);
}

/* What the first session reported; NULL: none was made so far. */
static inline const struct dlock_session_info *dl_session_pool_first(const struct dl_pool *pool)
{
    return atomic_load(&pool->connected) ? &pool->first : NULL;
}

/* The capabilities of the session opened last; before the first one, those of the plugin. */
uint64_t dl_session_pool_caps(struct dl_pool *pool);

/* Removes capabilities of durability that are not in caps. */
void dl_session_pool_caps_limit(struct dl_pool *pool, uint64_t caps);

#endif
