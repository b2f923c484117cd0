/* SPDX-License-Identifier: MIT */
/*
 * session_pool.h - the plugin sessions of one client: opening, lending, closing.
 *
 * Three budgets, so that waiters cannot eat what unlocks need: operations, waiters and pinned
 * sessions, each bounded by `connections`. Of the operations one is kept for those who hold a lock
 * (unlock, renew); the renewer has one of its own on top. With DLOCK_CAP_CONCURRENT one session
 * serves all.
 *
 * Sessions are opened when there is nothing idle, and given back when they were idle for a minute.
 * Whoever finds its budget spent stands in line. So does whoever is refused a further one by the
 * store (UNAVAILABLE) while others are lent out: the store is asked again after a second, by one
 * for all, and by the renewer whenever it renews. What comes back is lent to the first in line who
 * may have it, who alone is woken: first to the renewer, then to those who hold, then to those who
 * acquire.
 *
 * The pool's mutex is a leaf: nothing else is locked and no slot is called with it held.
 */
#ifndef DL_SESSION_POOL_H
#define DL_SESSION_POOL_H

#include "load/abi.h"
#include "session/wait_fifo.h"
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
    int64_t idle_ns; /* since when nobody uses it */
    uint32_t caps;
    alignas(16) unsigned char self[];
};

struct dl_pool {
    const struct dl_plugin *plugin;
    const struct dlock_target *target;
    struct dl_host *host;
    int64_t connect_timeout_ms;
    unsigned limit;

    pthread_mutex_t mutex;
    pthread_cond_t connected_changed;       /* CONCURRENT: of `shared` and `connecting` */
    struct dl_wait_fifo fifo[DL_USE_COUNT]; /* what they get is a session, or NULL: to be opened */
    struct dl_session *idle;  /* connected, nobody uses them; the one used last is the first */
    unsigned lent;            /* connected, and in use */
    unsigned opening;         /* may be so soon */
    int64_t refused_until_ns; /* the store has refused one more; 0: not since one was opened */
    char refusal[160];        /* in what words */
    struct dl_session *_Atomic shared; /* CONCURRENT: the one session, once it is made */
    bool connecting;                   /* CONCURRENT: somebody makes it */
    unsigned used[DL_USE_COUNT];
    struct dlock_session_info info; /* of the session opened last; before: what the plugin can do */
    struct dlock_session_info first; /* of the first session, constant once `connected` is set */
    _Atomic bool connected;
};

/* 0, or NOMEM. connections >= 2. */
enum dlock_status dl_session_pool_init(struct dl_pool *pool, const struct dl_plugin *plugin,
                                       const struct dlock_target *target, struct dl_host *host,
                                       int64_t connect_timeout_ms, int connections,
                                       struct dlock_error *err);

/* Closes what is idle; nothing may be lent out. forked: without a lock and without a byte. */
void dl_session_pool_fini(struct dl_pool *pool, bool forked);

/* One that was lent out when this child was forked. */
void dl_session_pool_close_after_fork(struct dl_pool *pool, struct dl_session *session);

/*
 * Lends a connected session, connecting by min(deadline, connect_timeout) when none is idle. OK;
 * the status of open; BUSY (acquire, pin) or UNAVAILABLE: the budget is spent, or the store refuses
 * more, and nothing came back by the deadline.
 */
enum dlock_status dl_session_pool_take(struct dl_pool *pool, enum dl_use use, int64_t deadline_ns,
                                       struct dl_session **out, struct dlock_error *err);

/* One that is connected and free now, as DL_USE_HOLDER; NULL: none. */
struct dl_session *dl_session_pool_take_idle(struct dl_pool *pool);

/* Takes it back after a call that ended with status; a session that may be broken is closed (C9),
 * and after UNAVAILABLE the idle ones with it: when a server went away, all of them are stale. */
void dl_session_pool_put(struct dl_pool *pool, enum dl_use use, struct dl_session *session,
                         enum dlock_status status);

/* Closes what nobody has used for a minute, but for one; and when to look for such a one: nobody
 * is told of those that begin to idle. DL_NEVER: there is one session at most; host->session_made
 * tells of the next. */
void dl_session_pool_trim(struct dl_pool *pool);
int64_t dl_session_pool_trim_ns(struct dl_pool *pool, int64_t now_ns);

/* What the first session said; NULL: none was made so far. */
const struct dlock_session_info *dl_session_pool_first(const struct dl_pool *pool);

/* What the session opened last gives; before the first one, what the plugin can do at most. */
uint32_t dl_session_pool_caps(struct dl_pool *pool);

/* It gives no more durability than that from now on. */
void dl_session_pool_caps_limit(struct dl_pool *pool, uint32_t caps);

#endif
