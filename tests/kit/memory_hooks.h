/* SPDX-License-Identifier: MIT */
/*
 * memory_hooks.h - a layer around the memory plugin: a clock for its stores, faults and counts.
 *
 * Give the descriptor of dlock_plugin_memory_hooked() to core in place of dlock_plugin_memory()'s.
 * It is the same plugin with a layer around its slots that counts calls, remembers requests and
 * injects faults, for each store separately. `store` is the text after memory://.
 *
 * Hooks outlive the sessions of the store. Every function may be called from any thread, before
 * the first open too.
 */
#ifndef MEMORY_HOOKS_H
#define MEMORY_HOOKS_H

#include <dlock/plugin.h>

enum memory_slot {
    MEMORY_OPEN,
    MEMORY_CLOSE,
    MEMORY_TRYLOCK,
    MEMORY_RENEW,
    MEMORY_UNLOCK,
    MEMORY_LEAVE,
    MEMORY_FORGET,
    MEMORY_WATCH,
    MEMORY_INTERRUPT,
    MEMORY_INSPECT,
    MEMORY_LIST,
    MEMORY_BREAK,
    MEMORY_PROBE,
    MEMORY_WAIT_ANY,
    MEMORY_TRYLOCK_BATCH, /* counted; each is a call of MEMORY_TRYLOCK, too, whose faults it has */
    MEMORY_UNLOCK_BATCH,  /* the same, of MEMORY_UNLOCK */
    MEMORY_SLOTS
};

enum memory_fault_kind {
    MEMORY_LOST_REQUEST = 1, /* not executed; UNKNOWN */
    MEMORY_LOST_REPLY,       /* executed; UNKNOWN. Of watch: a notification, or a grant, that never
                                comes: TIMEOUT at the deadline, or CANCELED */
    MEMORY_LATE_REPLY,       /* executed; the true answer comes ms after the call's deadline */
    MEMORY_HELD_REPLY,       /* executed; the true answer comes at memory_hooks_go */
    MEMORY_LATE_REQUEST,     /* UNKNOWN; executed at memory_hooks_deliver */
    MEMORY_SLOW,             /* executed ms after the call */
    MEMORY_IN_TIME,          /* executed ms after the call; if that is after its deadline, it is not
                                sent: UNAVAILABLE, at the deadline */
    MEMORY_REFUSE,           /* not executed; `status`, ms after the call */
    MEMORY_CUT,              /* of a batch: the first element is answered, the second one executed
                                without an answer, the others are not sent */
    MEMORY_DIE               /* not executed; `status` (0: UNAVAILABLE), and the session answers
                                UNAVAILABLE to every call until memory_hooks_revive. Core replaces
                                a session only where it is not CONCURRENT */
};

struct memory_fault {
    enum memory_fault_kind kind;
    enum dlock_status status; /* REFUSE, DIE */
    int64_t ms;               /* LATE_REPLY, SLOW, IN_TIME, REFUSE; on the host's clock */
    unsigned skip;            /* so many calls pass first */
    unsigned times;           /* then so many are hit; 0: one */
};

/* What a slot was asked last. */
struct memory_seen {
    const void *self;
    const struct dlock_request *req; /* its address, to compare only */
    unsigned char name[255];
    uint32_t name_len;
    uint32_t mode, flags;
    unsigned char token[DLOCK_TOKEN_SIZE];
    int64_t ttl_ms;
    int64_t deadline_ns;
    char label[256];
    size_t ops; /* renew, batch: the elements; the rest is of the first. 0: a single call */
};

const struct dlock_plugin *dlock_plugin_memory(void);
const struct dlock_plugin *dlock_plugin_memory_hooked(void);

/* The same with fewer capabilities, in the descriptor and in every session of this store: without
 * CONCURRENT core keeps a pool of sessions, without QUEUE it watches and tries, without WATCH it
 * polls, without FENCE there is none. What needs a capability that is missing goes with it. */
const struct dlock_plugin *dlock_plugin_memory_limited(const char *store, uint32_t without);

/* Back to no faults, no counts and the host's clock. Answers that are held back come now; late
 * requests are dropped. */
void memory_hooks_reset(const char *store);

/*
 * The store's own clock, by which leases run out; deadlines stay on the host's. It stands still
 * but for these calls, which wake sleepers.
 */
void memory_hooks_clock_set(const char *store, int64_t now_ns);
void memory_hooks_clock_advance(const char *store, int64_t ms);

/* Sleepers read the clocks again: for a test that moved the host's clock. */
void memory_hooks_wake(const char *store);

/* Adds a fault; the first one whose turn it is hits. LOST_REPLY and the two late kinds make no
 * sense for open, close, forget and interrupt, and are ignored there. -1: out of room. */
int memory_hooks_fault(const char *store, enum memory_slot slot, const struct memory_fault *fault);

/* Drops the faults of a slot that have not hit yet. */
void memory_hooks_heal(const char *store, enum memory_slot slot);

/* Calls entered so far. */
unsigned memory_hooks_calls(const char *store, enum memory_slot slot);

/* Waits in real time until `count` calls were entered. 0; -1: not within timeout_ms. */
int memory_hooks_await(const char *store, enum memory_slot slot, unsigned count,
                       int64_t timeout_ms);

/* 1: *seen is filled; 0: the slot was not called. */
int memory_hooks_last(const char *store, enum memory_slot slot, struct memory_seen *seen);

/* Answers held back by HELD_REPLY, and letting them go. */
unsigned memory_hooks_held(const char *store);
void memory_hooks_go(const char *store);

/* Executes the late requests in their order and returns how many there were. The client they came
 * from must still be open. *last: what the store said to the last one. */
unsigned memory_hooks_deliver(const char *store, enum dlock_status *last);

/* All open sessions die, as MEMORY_DIE. */
void memory_hooks_kill_sessions(const char *store);

/* Dead sessions work again. */
void memory_hooks_revive(const char *store);

#endif
