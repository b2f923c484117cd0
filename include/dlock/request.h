/* SPDX-License-Identifier: MIT */
/* request.h - one attempt of core, and what a slot answers to it. A part of plugin.h. */
#ifndef DLOCK_REQUEST_H
#define DLOCK_REQUEST_H

#include <dlock/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLOCK_TOKEN_SIZE 16

/*
 * Structures grow at their ends. struct_size is the sizeof that the allocating side knows. A
 * member that was appended later may be read and written only if DLOCK_HAS(object, member).
 */
#define DLOCK_HAS(object, member)                                                \
    ((size_t)((const char *)(&(object)->member + 1) - (const char *)(object)) <= \
     (size_t)(object)->struct_size)

/* dlock_request.flags */
enum dlock_request_flag {
    DLOCK_REQ_ENQUEUE = 1u << 0,   /* trylock: if BUSY, queue me (only with DLOCK_CAP_QUEUE) */
    DLOCK_REQ_DOWNGRADE = 1u << 1, /* renew: EXCLUSIVE to SHARED in the same step, without a gap */
    DLOCK_REQ_REFRESH = 1u << 2,   /* trylock: I am queued. Answer OK granted; BUSY|QUEUED still
                                      queued; BUSY alone: unknown here, the attempt is over. Never
                                      enqueues */
    DLOCK_REQ_KEEP = 1u << 3,      /* unlock: the name, or the permit, stays taken by nobody for
                                      keep_ms (only with DLOCK_CAP_KEEP) [KEP-1] */
    DLOCK_REQ_ADOPT = 1u << 4      /* renew: by dlock_adopt, which knows the token only [REN-6] */
};

/* dlock_grant.flags */
enum dlock_grant_flag {
    DLOCK_GRANT_QUEUED = 1u << 0,    /* with BUSY: the queue entry lasts lease_ms from the start of
                                       this call; `fence` is the store's counter now, and a later grant
                                       to this attempt shows a greater one */
    DLOCK_GRANT_UNREPORTED = 1u << 1 /* with BUSY: neither watch nor wait_any will tell of this
                                   attempt; core polls */
};

struct dlock_request {
    uint32_t struct_size;
    uint32_t name_len;
    const unsigned char *name; /* name_len bytes, 1 to 255, any value */
    enum dlock_mode mode;
    uint32_t flags;                        /* of enum dlock_request_flag */
    unsigned char token[DLOCK_TOKEN_SIZE]; /* the owner: new for every attempt */
    int64_t ttl_ms;
    int64_t deadline_ns; /* of this call, on host->now_ns; always set */
    const char *label;   /* "host:pid@space:text" for inspect; proves nothing */
    void *attempt; /* ops.attempt_size bytes, zeroed at the start of the attempt, 16-byte aligned;
                   the waiter's identity. NULL when attempt_size is 0 */
    int64_t op_timeout_ms; /* the bound of one exchange inside a call that may last longer; > 0 */
    /* ABI 2.1 ends here. A plugin reads the rest only if DLOCK_HAS(req, end). */
    enum dlock_end end; /* what a plugin that sees the death of a process may do with the lease */
    uint32_t limit;     /* holders at once: 1, a lock, or more, only with DLOCK_CAP_LIMIT [LIM-1] */
    int64_t keep_ms;    /* of DLOCK_REQ_KEEP; > 0 */
    uint32_t waiter;    /* not 0: core waits by wait_any, which gives this number; constant */
    /* ABI 2.2 ends here. dlock_request_data reads the rest. */
    uint32_t data_len;         /* 0 to DLOCK_DATA_MAX; above 0 only with DLOCK_CAP_DATA */
    const unsigned char *data; /* what the holder publishes [DAT-1]; of an adopted lease NULL */
};

/* Zeroed by core before the call, but waiters UINT32_MAX and holder_ms -1: not known. */
struct dlock_grant {
    uint32_t struct_size;
    uint32_t flags;          /* of enum dlock_grant_flag */
    uint32_t queue_position; /* BUSY: waiters before me, where known */
    uint32_t waiters;        /* others queued in the store; UINT32_MAX: not known */
    uint32_t fence_room;     /* fence + 1 .. fence + fence_room belong to this grant, too */
    uint64_t fence;          /* the first number of this grant; 0: none */
    int64_t lease_ms;  /* OK: what the store counts from the execution of this call on, OK from
                          `watch`: from the last call answered QUEUED. At least 1, and never more
                          than req->ttl_ms, also where the store keeps a longer lease from before:
                          core refuses more (INTERNAL). May be less (queue, session): renewals go
                          by it. QUEUED: how long the queue entry lasts */
    int64_t since_ns;  /* OK from `lock` or `trylock`: the lease counts from this moment, at which
                          a later request of the same session, since answered, was sent. 0: from
                          the start of the call */
    int64_t holder_ms; /* BUSY: what the present holder has left; -1: not known */
    /* ABI 2.1 ends here. A plugin writes the rest only if DLOCK_HAS(grant, permit). */
    uint32_t permit;   /* OK: of a semaphore, 0 to limit - 1 [LIM-2] */
    uint32_t reserved; /* 0 */
};

/* One element of a renewal. */
struct dlock_lease_op {
    uint32_t struct_size;
    enum dlock_status status; /* out; core presets INTERNAL */
    const struct dlock_request *req;
    struct dlock_grant
        grant; /* out: lease_ms, waiters; fence 0 or unchanged. Stays the last member */
};

/* One element of trylock_batch or unlock_batch. */
struct dlock_batch_op {
    uint32_t struct_size;
    enum dlock_status status; /* out; core presets INTERNAL */
    const struct dlock_request *req;
    struct dlock_error *err;  /* of this element alone; as for the single call */
    struct dlock_grant grant; /* out, of trylock_batch. Stays the last member */
};

#ifdef __cplusplus
}
#endif
#endif
