/* SPDX-License-Identifier: MIT */
/*
 * memory_hooked.h - what is shared by memory_hooks.c, whose functions tests call, memory_faults.c,
 * which decides what happens to a call, and memory_hooked.c, the layer around the slots.
 *
 * memory_hooks.mutex guards everything below but now_ns; the mutex of the store may be taken while
 * it is held, not the reverse.
 */
#ifndef MEMORY_HOOKED_H
#define MEMORY_HOOKED_H

#include "lib/time.h"
#include "memory_hooks.h"
#include "session.h"

#include <stdatomic.h>

#define HOOKED_FAULTS_MAX 16

/* What core allocates for `self` of the hooked plugin. */
struct hooked_session {
    struct memory_session inner;
    struct memory_hooks *hooks; /* NULL: open failed before it was known */
    const struct dlock_host *host;
    int dead;
    struct hooked_session *next;
};

/* A request that is executed later. */
struct hooked_late {
    enum memory_slot slot;
    const struct dlock_host *host;
    struct memory_config config;
    struct dlock_request req; /* name, label and slot point into this struct */
    unsigned char name[MEMORY_NAME_MAX];
    char label[MEMORY_LABEL_MAX + 1];
    struct memory_waiter scratch;
    struct hooked_late *next;
};

struct memory_hooks {
    struct memory_hooks *next;
    char id[256];
    pthread_mutex_t mutex;
    pthread_cond_t moved; /* something below, or a clock, changed */
    unsigned calls[MEMORY_SLOTS];
    struct memory_seen last[MEMORY_SLOTS];
    struct memory_fault faults[MEMORY_SLOTS][HOOKED_FAULTS_MAX];
    unsigned fault_count[MEMORY_SLOTS];
    unsigned held;
    uint64_t go; /* counts memory_hooks_go */
    struct hooked_late *late;
    struct hooked_session *sessions;
    uint32_t without; /* capabilities that sessions do not announce */
    _Atomic int has_clock;
    _Atomic int64_t now_ns; /* of the store, if it has a clock of its own */
};

#define HOOKED_NOT_DECIDED ((enum dlock_status) - 1)

/* One call of a slot. */
struct hooked_call {
    struct hooked_session *session;
    struct memory_fault fault; /* kind 0: none */
    int64_t start_ns;
    int64_t deadline_ns;
    int dead;
};

/* req: NULL where the slot has none; ops: elements of a renewal or batch. */
struct hooked_call hooked_call_enter(struct hooked_session *session, enum memory_slot slot,
                                     const struct dlock_request *req, size_t ops,
                                     int64_t deadline_ns);

/* HOOKED_NOT_DECIDED: execute it; else the answer, which *err tells. */
enum dlock_status hooked_call_before(const struct hooked_call *call, struct dlock_error *err);

/* What the caller is told of an executed call that ended with status. */
enum dlock_status hooked_call_after(const struct hooked_call *call, enum dlock_status status,
                                    struct dlock_error *err);

/* The rest of a watch that did not hear what it was told: TIMEOUT or CANCELED. */
enum dlock_status hooked_watch_deaf(const struct hooked_call *call, const struct dlock_request *req,
                                    struct dlock_error *err);

/* Keeps a copy of the request for memory_hooks_deliver. */
void hooked_late_add(struct hooked_session *session, enum memory_slot slot,
                     const struct dlock_request *req);

/* The batch slots (memory_hooked_batch.c). */
enum dlock_status hooked_trylock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err);
enum dlock_status hooked_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                      struct dlock_error *err);

/* The hooks of a store, made on first use and kept for the life of the process. */
struct memory_hooks *memory_hooks_of(const char *id);

/* One sleep on `moved`, of a second at most; needs the mutex. */
void memory_hooks_nap(struct memory_hooks *hooks, int64_t ns);

#endif
