/* SPDX-License-Identifier: MIT */
/*
 * session.h - a session, and what the slots do with it.
 *
 *   plugin    the slots, in the order of plugin.h
 *   lease     try, renew, unlock, dequeue, break   inspect  names and holders
 *   watch     sleeping until a grant               queue    holders and the next waiter
 *   store     the stores of this process: their names, entries and sleeping threads
 *
 * A file calls only files below it.
 */
#ifndef MEMORY_SESSION_H
#define MEMORY_SESSION_H

#include "store.h"

#define MEMORY_ORIGIN "memory"

/* The settings of a URI. */
struct memory_config {
    const char *id;        /* borrowed from the target */
    int64_t waiter_ttl_ms; /* how long a queue entry lasts, and a grant to a waiter */
};

/* What core allocates for `self`. */
struct memory_session {
    const struct dlock_host *host;
    struct memory_config config;
    struct memory_store *store;
    struct memory_pending pending;
};

/* Need the store's mutex. OK, BUSY, NOMEM, CONFIG, as the slot trylock. */
enum dlock_status memory_lease_try(struct memory_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err);

/* Ends the lease of the token; with queued_too, its queue entry as well. False: there was none. */
bool memory_lease_end(const struct memory_session *session, const struct dlock_request *req,
                      bool queued_too);

/* Ends the leases of owner (hex; NULL: all). NULL: done; else the reason why there was none. */
const char *memory_lease_break(const struct memory_session *session, const unsigned char *bytes,
                               uint32_t len, const char *owner);

/* Fills op->grant. OK, LOST. */
enum dlock_status memory_lease_renew(const struct memory_session *session,
                                     struct dlock_lease_op *op);

/* Sleeps until the token is granted the name (OK, *grant is filled), until a trylock may succeed
 * (BUSY), until the deadline on the host's clock (TIMEOUT), or until an interrupt (CANCELED). Gives
 * the mutex up while it sleeps. */
enum dlock_status memory_watch_name(const struct memory_session *session,
                                    const struct dlock_request *req, struct dlock_grant *grant);

/* The attempt is over: removes the waiter that has no thread. Needs the mutex. */
void memory_watch_end(const struct memory_session *session, const struct dlock_request *req);

/* Slots of plugin.h, which take the mutex. */
enum dlock_status memory_watch_any(void *self, uint32_t *waiters, size_t *count,
                                   int64_t deadline_ns, struct dlock_error *err);
enum dlock_status memory_inspect_name(void *self, const unsigned char *bytes, uint32_t len,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err);
enum dlock_status memory_inspect_waiters(void *self, const unsigned char *bytes, uint32_t len,
                                         int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                         struct dlock_error *err);
enum dlock_status memory_inspect_prefix(void *self, const unsigned char *prefix,
                                        uint32_t prefix_len, int64_t deadline_ns,
                                        dlock_holder_fn *fn, void *arg, struct dlock_error *err);

#endif
