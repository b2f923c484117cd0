/* SPDX-License-Identifier: MIT */
/*
 * client.h - one store in use: its sessions, its keeper, its handles.
 *
 * LOCK ORDER: client->mutex, then the pool's. Neither is held while a slot (interrupt excepted), a
 * callback or the log sink runs. client->mutex guards everything in here and in the handles that is
 * not said to be constant or atomic.
 */
#ifndef DL_CLIENT_H
#define DL_CLIENT_H

#include "client/events.h"
#include "client/lock_options.h"
#include "client/name_state.h"
#include "hold/renewer.h"
#include "load/store.h"
#include "session/session_pool.h"

#include <dlock/dlock.h>

struct dlock_client {
    /* constant after open */
    uint64_t generation; /* of the process that opened it */
    struct dl_store *store;
    const struct dl_plugin *plugin;
    dlock_notice_fn *on_lost;
    void *on_lost_arg;

    struct dl_host host;
    struct dl_pool pool;

    pthread_mutex_t mutex;
    pthread_cond_t quiet; /* signalled when a call has ended and somebody closes */
    struct dl_renewer keeper;
    struct dl_events events;
    struct dlock *locks, *locks_last; /* doubly linked */
    struct dl_name_states names;
    struct dl_lock_options *terms; /* of the handle made last */
    size_t refs;                   /* the client itself, until close, and its handles */
    unsigned calls;                /* in progress, other than on handles */
    unsigned acquiring;            /* handles */
    bool shutdown, closed;
    _Atomic bool unfit; /* the last probe found that the store keeps no lock safely (C16) */
    uint64_t jitter;
};

enum dlock_status dl_client_open(const char *uri, const struct dlock_client_options *options,
                                 struct dlock_client **out, struct dlock_error *err);

/* For tests: a descriptor in place of a file, and seams. host may be NULL; its table is made anew.
 */
enum dlock_status dl_client_open_static(const struct dlock_plugin *descriptor, const char *uri,
                                        const struct dlock_client_options *options,
                                        const struct dl_host *host, struct dlock_client **out,
                                        struct dlock_error *err);

void dl_client_shutdown(struct dlock_client *client);
void dl_client_close(struct dlock_client *client);

/* A call that is not on a handle begins (CLOSED: it may not) and ends. */
enum dlock_status dl_client_enter(struct dlock_client *client, struct dlock_error *err);
void dl_client_leave(struct dlock_client *client);

/* One user less; frees it with the last. Without the mutex. */
void dl_client_release(struct dlock_client *client);

/* The same in a forked child, where nothing can be locked. */
void dl_client_release_forked(struct dlock_client *client);

/* One of the bits that are the same in all sessions [OPN-5]; not known before the first one. */
bool dl_client_has(const struct dlock_client *client, uint32_t cap);

bool dl_client_forked(const struct dlock_client *client);
int64_t dl_client_now(const struct dlock_client *client);

/* For jitter. With the mutex held. */
uint64_t dl_client_random(struct dlock_client *client);
/* The same, without the mutex. */
uint64_t dl_client_jitter(struct dlock_client *client);

#endif
