/* SPDX-License-Identifier: MIT */
/*
 * client.h - a client: one store in use by one program, with its sessions, names, handles, events
 * and renewer.
 *
 * LOCK ORDER: client->mutex, then the pool's mutex. Neither is held while a slot of a plugin, a
 * callback or the log sink runs; the slot `interrupt` is the one exception, it runs with
 * client->mutex held. client->mutex guards all members of the client and of its handles that are
 * not said to be constant or atomic.
 *
 * The folder client/ has what a client knows: name_state.h (names, and the calls
 * that wait for each), events.h (losses on their way to the application), lock_options.h, stats.h
 * (what is counted).
 */
#ifndef DL_CLIENT_H
#define DL_CLIENT_H

#include "client/events.h"
#include "client/lock_options.h"
#include "client/name_state.h"
#include "client/stats.h"
#include "load/store.h"
#include "session/session_pool.h"
#include "session/wait.h"
#include "sys/fork.h"
#include "sys/log.h"
#include "sys/random.h"

#include <dlock/dlock.h>

/* Of dlock_client_open_start. */
struct dl_opening {
    struct dl_event_node opened;
    enum dlock_status status; /* set before OPENED is queued, as the text is */
    struct dlock_error error;
};

struct dlock_client {
    /* constant after open */
    uint64_t generation; /* of the process that opened it */
    struct dl_store *store;
    const struct dl_plugin *plugin;
    dlock_notice_fn *on_lost;
    void *on_lost_arg;

    struct dl_host host;
    struct dl_pool pool;
    struct dl_wait_combine tries, releases; /* exchanges that blocking calls share */

    pthread_mutex_t mutex;
    pthread_cond_t call_ended;      /* when a call has ended, for close; on shutdown, for observe */
    struct dl_renewer *renewer;     /* the pointer is constant */
    struct dl_deadman *deadman;     /* of handles with DLOCK_EXPIRE_KILL; NULL: there was none */
    struct dl_run_queue *run_queue; /* of dlock_op_start; NULL before the first one */
    struct dl_opening *opening;     /* NULL: the client was opened by dlock_client_open */
    struct dl_events events;
    struct dl_log_lines log_lines;
    struct dlock_handle *locks, *locks_last; /* doubly linked */
    struct dl_name_states names;
    struct dl_stats stats;
    struct dl_lock_options *last_options; /* of the handle made last */
    size_t refs;                          /* the client itself, until close, and its handles */
    unsigned calls;                       /* in progress, other than on handles */
    unsigned acquiring;                   /* handles that are being acquired */
    bool shutdown, closed;
    _Atomic bool unfit; /* the last probe found that locks in the store are not safe (C16) */
    uint64_t jitter;
};

/* True if the store has the capability; false before the first session. Only for a capability that
 * is the same in all sessions [OPN-5]. */
static inline bool dl_client_has(const struct dlock_client *client, uint64_t cap)
{
    const struct dlock_session_info *first = dl_session_pool_first(&client->pool);

    return first != NULL && (first->caps & cap) != 0;
}

/* How many exchanges of one kind blocking calls make at one time, and share the next ones; 0: each
 * call makes its own. */
static inline unsigned dl_client_parallelism(const struct dlock_client *client)
{
    const struct dlock_session_info *first = dl_session_pool_first(&client->pool);

    return first == NULL ? 0 : first->parallelism;
}

/* The ttl that is used in place of ttl_ms: rounded up to the store's grid, as far as it is known. A
 * ttl that the store refuses stays as it is. */
static inline int64_t dl_client_ttl_ms(const struct dlock_client *client, int64_t ttl_ms)
{
    int64_t rounded_ms = dl_ttl_grid_round(&client->pool.ttls, ttl_ms);

    return rounded_ms != 0 ? rounded_ms : ttl_ms;
}

static inline bool dl_client_forked(const struct dlock_client *client)
{
    return dl_fork_differs(client->generation) != 0;
}

static inline int64_t dl_client_now(const struct dlock_client *client)
{
    return dl_clock_now(&client->host.clock);
}

/* A random number for jitter. */
static inline uint64_t dl_client_random_locked(struct dlock_client *client)
{
    return dl_random_jitter(&client->jitter);
}

static inline uint64_t dl_client_random(struct dlock_client *client)
{
    uint64_t random;

    (void)pthread_mutex_lock(&client->mutex);
    random = dl_client_random_locked(client);
    (void)pthread_mutex_unlock(&client->mutex);
    return random;
}

#endif
