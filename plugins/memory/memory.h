/* SPDX-License-Identifier: MIT */
/*
 * memory.h - what the files of the memory plugin share.
 *
 * A store is a table of the names that are taken now. All sessions of this process that name the
 * same store share it. One mutex a store guards everything in it; it is never held during a
 * callback, and while it is held no other lock is taken.
 *
 *   plugin.c  the slots, in the order of plugin.h
 *   store.c   stores by their id, names in a store
 *   waiter.c  sleeping until a name is worth a try, and being woken
 *   look.c    inspect and list
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <dlock/plugin.h>
#include <pthread.h>

#define MEMORY_ORIGIN     "memory"
#define MEMORY_HEX_SIZE   (2 * DLOCK_TOKEN_SIZE + 1)
#define MEMORY_NS_PER_MS  INT64_C(1000000)
#define MEMORY_NS_PER_S   INT64_C(1000000000)
#define MEMORY_NAME_MAX   255
#define MEMORY_LABEL_MAX  255
#define MEMORY_FENCE_ROOM 31u /* numbers of a grant besides its first */

/* dlock_request.slot: the sleeper of one attempt. Zeroed by core. */
struct memory_waiter {
    pthread_cond_t wake; /* exists from the first watch to the end of the attempt */
    int has_wake;
    int interrupted; /* sticky [INT-2] */
    int sleeping;    /* is in memory_name.waiters */
    struct memory_waiter *next;
};

struct memory_key {
    const unsigned char *bytes;
    uint32_t len;
};

/* A name that is held, or was. One whose lease ran out stays until it is asked for again. */
struct memory_name {
    struct memory_key key;                 /* first: the tree compares keys; of `bytes` below */
    unsigned char token[DLOCK_TOKEN_SIZE]; /* the holder, until expires_ns */
    uint64_t fence;
    int64_t since_ns;
    int64_t expires_ns; /* on the store's clock, which is never below 0; in the past: free */
    struct memory_waiter *waiters;
    char label[MEMORY_LABEL_MAX + 1];
    unsigned char bytes[MEMORY_NAME_MAX];
};

/* A clock that a test puts in the place of the host's. */
struct memory_clock {
    int64_t (*now_ns)(void *ctx);
    void *ctx;
};

struct memory_store {
    struct memory_store *next; /* the list of stores, sessions and id: under the registry's mutex */
    unsigned sessions;
    char *id;
    pthread_mutex_t mutex;            /* guards all below */
    void *names;                      /* tsearch(3) tree of struct memory_name */
    const struct memory_clock *clock; /* NULL: each session's host tells the time */
};

/* What core allocates for `self`. */
struct memory_session {
    const struct dlock_host *host;
    struct memory_store *store;
};

/* ---- store.c ---- */

/* Remembers this process: stores do not go along into a forked child. */
void memory_store_init(void);

/* Non-zero: this is a child of the process that called memory_store_init. */
int memory_store_forked(void);

/* The store with this id, made if need be; NULL: out of memory. */
struct memory_store *memory_store_hold(const char *id, const struct dlock_host *host);

/* The store goes with the last lease or the last session, whichever is later [TRY-2]. */
void memory_store_rele(struct memory_store *store, const struct dlock_host *host);

int64_t memory_store_now(const struct memory_store *store, const struct dlock_host *host);

/* Greater than every number given out before in this process, the room of those included. */
uint64_t memory_fence_next(void);

/* The rest needs store->mutex. */
struct memory_name *memory_name_find(struct memory_store *store, const unsigned char *bytes,
                                     uint32_t len);
/* Adds it when it is not there; NULL: out of memory. */
struct memory_name *memory_name_get(struct memory_store *store, const unsigned char *bytes,
                                    uint32_t len);
int memory_name_held(const struct memory_name *name, int64_t now_ns);
int memory_name_held_by(const struct memory_name *name, const unsigned char *token, int64_t now_ns);
/* What a held name's lease has left, rounded up: a sleep of that long is long enough. */
int64_t memory_name_left_ms(const struct memory_name *name, int64_t now_ns);
uint32_t memory_name_waiters(const struct memory_name *name);
/* Ends the lease, if any, wakes the waiters and forgets a name that has none. */
void memory_name_free(struct memory_store *store, struct memory_name *name);

/* ---- waiter.c ---- */

/*
 * Sleeps until the name is free (BUSY: worth a try), the deadline on host's clock (TIMEOUT) or an
 * interrupt (CANCELED). Needs store->mutex, which it releases while it sleeps.
 */
enum dlock_status memory_waiter_sleep(struct memory_waiter *waiter,
                                      const struct memory_session *session,
                                      const struct dlock_request *req);

/* Needs store->mutex. */
void memory_waiter_interrupt(struct memory_waiter *waiter);
void memory_waiters_wake(struct memory_waiter *list);

/* The attempt is over. May be repeated; needs no mutex. */
void memory_waiter_fini(struct memory_waiter *waiter);

/* ---- look.c: slots of plugin.h ---- */

enum dlock_status memory_inspect(void *self, const unsigned char *bytes, uint32_t len,
                                 int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                                 struct dlock_error *err);
enum dlock_status memory_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                              int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                              struct dlock_error *err);

/* hex holds MEMORY_HEX_SIZE. */
void memory_hex(char *hex, const unsigned char *token);

#endif
