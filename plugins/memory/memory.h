/* SPDX-License-Identifier: MIT */
/*
 * memory.h - what the files of the memory plugin share.
 *
 * A store is a table of the names that somebody holds or waits for. All sessions of this process
 * that name the same store share it. One mutex a store guards everything in it; it is never held
 * during a callback, and while it is held no other lock is taken.
 *
 *   plugin.c  the slots, in the order of plugin.h
 *   store.c   stores by their id, names in a store
 *   lease.c   what is asked of one name: try, renew, end, break
 *   queue.c   who holds a name, who waits for it, and who is next
 *   waiter.c  sleeping until a name is granted or worth a try, and being woken
 *   look.c    inspect and list
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "lib/time.h"
#include <dlock/plugin.h>
#include <pthread.h>

#define MEMORY_ORIGIN     "memory"
#define MEMORY_HEX_SIZE   (2 * DLOCK_TOKEN_SIZE + 1)
#define MEMORY_NAME_MAX   255
#define MEMORY_LABEL_MAX  255
#define MEMORY_FENCE_ROOM 31u /* numbers of a grant besides its first */

/* dlock_request.attempt: the sleeper of one attempt. Zeroed by core. */
struct memory_waiter {
    pthread_cond_t wake; /* exists from the first watch to the end of the attempt */
    int has_wake;
    int enqueued;             /* asked for a place: a watch may bring the grant [WAT-1] */
    int interrupted;          /* sticky [INT-2] */
    uint64_t interrupt_fence; /* a grant up to this number came before the interrupt */
    int sleeping;             /* is in memory_name.sleepers */
    const unsigned char *token;
    struct memory_waiter *next;
};

/* What one token has of one name: a place in the queue, and later the lease. */
struct memory_claim {
    struct memory_claim *next;
    unsigned char token[DLOCK_TOKEN_SIZE];
    uint32_t mode;          /* enum dlock_mode */
    uint64_t fence;         /* of a holder; 0: this is a place */
    int64_t since_ns;       /* of a holder */
    int64_t expires_ns;     /* of the place or the lease, on the store's clock, never below 0 */
    int64_t grant_lease_ms; /* of a place: the lease that is granted to it */
    char label[];
};

struct memory_key {
    const unsigned char *bytes;
    uint32_t len;
};

/* A token is in one of the two lists at most. What ran out stays until the name is asked for. */
struct memory_name {
    struct memory_key key;          /* first: the tree compares keys; of `bytes` below */
    uint64_t fence;                 /* the first number of the last grant; 0: none */
    struct memory_claim *holders;   /* one EXCLUSIVE, or any number of SHARED */
    struct memory_claim *queue;     /* in the order of their arrival */
    struct memory_waiter *sleepers; /* with and without a place, in no order */
    unsigned char bytes[];
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
    int64_t waiter_lease_ms;
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

/* The rest needs store->mutex. */
int64_t memory_store_now(const struct memory_store *store, const struct dlock_host *host);

struct memory_name *memory_name_find(struct memory_store *store, const unsigned char *bytes,
                                     uint32_t len);
/* Adds it when it is not there; NULL: out of memory. */
struct memory_name *memory_name_get(struct memory_store *store, const unsigned char *bytes,
                                    uint32_t len);
/* Forgets a name that nobody has anything of; it must not be used afterwards. */
void memory_name_tidy(struct memory_store *store, struct memory_name *name);

/* ---- queue.c: needs store->mutex ---- */

/* Greater than every number given out before in this process, the room of those included. */
uint64_t memory_fence_next(void);
/* The last number that was given out. */
uint64_t memory_fence_last(void);

/* The holder or place with this token, run out or not; NULL: neither. */
struct memory_claim *memory_claim_find(const struct memory_name *name, const unsigned char *token);
/* A place at the end of the queue, which lasts until the next reap; NULL: out of memory. */
struct memory_claim *memory_claim_add(struct memory_name *name, const struct dlock_request *req);
/* Never shortens what was promised [TRY-5] [REN-3]. */
void memory_claim_extend(struct memory_claim *claim, int64_t lease_ms, int64_t now_ns);
/* Rounded up: a sleep of that long is long enough. */
int64_t memory_claim_left_ms(const struct memory_claim *claim, int64_t now_ns);
void memory_claim_remove(struct memory_name *name, struct memory_claim *claim);

/*
 * When nothing will be in the way of this mode any more, if nobody does anything before: a moment
 * that has passed (worth a try), or the time to sleep until. `place` stands in the queue; NULL:
 * its end.
 */
int64_t memory_name_blocked_until(const struct memory_name *name, uint32_t mode,
                                  const struct memory_claim *place);

/* Drops the leases and places that ran out. */
void memory_name_reap(struct memory_name *name, int64_t now_ns);
/* Makes the first of the queue a holder, and the next one, as long as they can hold together. Each
 * gets a new fence and a lease of its grant_lease_ms, and is woken. After a reap. */
void memory_name_grant(struct memory_name *name, int64_t now_ns);
/* After something of the name ended: reaps, grants, wakes, tidies. */
void memory_name_pass_on(struct memory_store *store, struct memory_name *name, int64_t now_ns);

int memory_name_held(const struct memory_name *name, int64_t now_ns);
/* Live places, and sleepers that never asked for one. */
uint32_t memory_name_waiters(const struct memory_name *name, int64_t now_ns);

/* The store keeps the lease for at least what lease_ms says, which is never more than ttl_ms. */
void memory_grant_fill(struct dlock_grant *grant, const struct memory_name *name,
                       const struct memory_claim *claim, int64_t ttl_ms, int64_t now_ns);

/* ---- lease.c: needs store->mutex ---- */

/* As the slot trylock: OK, BUSY, NOMEM. */
enum dlock_status memory_lease_try(const struct memory_session *session,
                                   const struct dlock_request *req, struct dlock_grant *grant);
/* Fills op->grant. OK, LOST. */
enum dlock_status memory_lease_renew(const struct memory_session *session,
                                     struct dlock_lease_op *op);
/* Ends what the token has of the name: the lease, or with place_too a place as well. 1: it had. */
int memory_lease_end(const struct memory_session *session, const struct dlock_request *req,
                     int place_too);
/* Ends the leases of owner (hex; NULL: all). NULL: done; else why there was none to end. */
const char *memory_lease_break(const struct memory_session *session, const unsigned char *bytes,
                               uint32_t len, const char *owner);

/* ---- waiter.c: needs store->mutex ---- */

/*
 * Sleeps until the name is granted to this token (OK, *grant is filled), worth a try (BUSY), the
 * deadline on host's clock (TIMEOUT) or an interrupt (CANCELED). Releases the mutex while it
 * sleeps.
 */
enum dlock_status memory_waiter_sleep(struct memory_waiter *waiter,
                                      const struct memory_session *session,
                                      const struct dlock_request *req, struct dlock_grant *grant);

void memory_waiter_interrupt(struct memory_waiter *waiter);
/* The sleeper with this token, if there is one. */
void memory_waiter_wake(struct memory_waiter *list, const unsigned char *token);
/* Those that never asked for a place: each has to look for itself. */
void memory_waiters_wake_unqueued(struct memory_waiter *list);
void memory_waiters_wake_all(struct memory_waiter *list);

/* The attempt is over. May be repeated; needs no mutex. */
void memory_waiter_fini(struct memory_waiter *waiter);

/* ---- look.c: slots of plugin.h ---- */

enum dlock_status memory_inspect(void *self, const unsigned char *bytes, uint32_t len,
                                 int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                 struct dlock_error *err);
enum dlock_status memory_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                              int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                              struct dlock_error *err);

#endif
