/* SPDX-License-Identifier: MIT */
/* shared.h - what all sessions of a client share. */
#ifndef PG_SHARED_H
#define PG_SHARED_H

#include "config.h"
#include "net/clients.h"

#include <stdatomic.h>

#define PG_SHARED_CHECK_NS INT64_C(5000000000)
#define PG_SHARED_WARNING  1 /* DLOCK_LOG_WARNING of dlock.h, for the host's log */

struct pg_listener;
struct pg_texts;

/* What stands between the client and the server. A pooler that lends the server to each transaction
 * loses messages to an idle connection. */
enum pg_pooler { PG_POOLER_UNKNOWN, PG_POOLER_NONE, PG_POOLER_SESSION, PG_POOLER_TRANSACTION };

struct pg_shared {
    struct client client;       /* first */
    struct pg_config config;    /* of the first session: core gives all of them one target */
    _Atomic int64_t checked_ns; /* the last check of the tables; 0: check them next time */
    _Atomic int pooler;         /* enum pg_pooler */
    atomic_bool denied;         /* this role may not call the functions of semaphores (schema.h) */
    atomic_bool outdated;       /* the tables have no semaphores, and keep no names (schema.h) */
    atomic_bool open;           /* the functions can be made to run those of others (schema.h) */
    _Atomic int64_t upgrade_ns; /* they are not brought up to date before */
    atomic_bool stray_reported; /* of query.c: an answer was another client's */

    /* Of statements.c. free() ends it. */
    _Atomic(struct pg_texts *) texts;
    /* Of row_listener.c, which sets the two functions with it. The first ends it with the last
     * session; the second is called in the child of a fork: it may close descriptors, and leaks the
     * rest. */
    _Atomic(struct pg_listener *) listener;
    void (*_Atomic listener_free)(struct pg_listener *listener);
    void (*_Atomic listener_after_fork)(struct pg_listener *listener);
    atomic_bool notify_reported; /* of notify.c */
};

/* In slot init. False: no memory. */
bool pg_shared_init(void);

/* The one of the client that `host` stands for, referenced; NULL: no memory. */
struct pg_shared *pg_shared_find(const struct pg_config *config, const struct dlock_host *host);
void pg_shared_ref(struct pg_shared *shared);
void pg_shared_unref(struct pg_shared *shared);

/* Whether a connection of the client has checked the tables lately. A check costs the server
 * milliseconds, and a client makes many connections at once. */
bool pg_shared_is_checked(const struct pg_shared *shared, int64_t now_ns);

#endif
