/* SPDX-License-Identifier: MIT */
/*
 * notice.h - what the library tells by itself, and operations that do not block: for programs with
 * an event loop. A part of dlock.h, which includes it.
 *
 * EXAMPLE. The loop waits for dlock_client_fd to be readable, and then takes all notices:
 *
 *     struct dlock_notice notice = DLOCK_NOTICE_INIT;
 *
 *     while (dlock_client_next(client, &notice, &err) == 1)
 *         if (notice.kind == DLOCK_NOTICE_DONE && notice.op == DLOCK_OP_LOCK)
 *             got_the_lock(notice.user, notice.status);
 *
 * examples/loop_epoll.c, loop_uv.c and loop_asyncio.py are whole programs.
 */
#ifndef DLOCK_NOTICE_H
#define DLOCK_NOTICE_H

#include <dlock/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlock_client; /* one store, chosen by URI */
struct dlock_client_options;
struct dlock; /* one lock object: a name, its options and, while held, the lease */

enum dlock_reason {
    DLOCK_REASON_EXPIRED = 1,  /* the lease ended before a renewal was confirmed */
    DLOCK_REASON_TAKEN = 2,    /* the store says that the lock is not ours: broken or deleted */
    DLOCK_REASON_MAX_HOLD = 3, /* held for max_hold */
    DLOCK_REASON_SESSION = 4   /* the session that carried the lock ended */
};

/* What a notice tells. Ignore a kind that you do not know: later versions have more. */
enum dlock_notice_kind {
    DLOCK_NOTICE_DONE = 1, /* an operation of dlock_start has ended; exactly one for each (C19) */
    DLOCK_NOTICE_LOST = 2, /* one acquisition was lost; at most one notice for each (C5) */
    DLOCK_NOTICE_DOUBTFUL =
        3,                  /* a renewal failed, and the lock is still held; only for handles
                              that dlock_start was used on. Dropped if a renewal succeeds first */
    DLOCK_NOTICE_OPENED = 4 /* what dlock_client_open_start began has ended, as `status` says */
};

/* What dlock_start begins. Each is the same as the blocking function. */
enum dlock_op {
    DLOCK_OP_LOCK = 1,     /* dlock_acquire, exclusive */
    DLOCK_OP_RDLOCK = 2,   /* dlock_acquire, shared */
    DLOCK_OP_UNLOCK = 3,   /* dlock_unlock */
    DLOCK_OP_RENEW = 4,    /* dlock_renew, with the ttl as before */
    DLOCK_OP_DOWNGRADE = 5 /* dlock_downgrade */
};

struct dlock_notice {
    uint32_t struct_size; /* sizeof(struct dlock_notice) */
    enum dlock_notice_kind kind;
    enum dlock_reason reason; /* LOST: why; else 0 */
    struct dlock *lock;       /* valid until dlock_free, which drops notices that were not taken;
                                 NULL: OPENED */
    void *user;               /* dlock_options.user */
    uint64_t fence;           /* of the acquisition */
    enum dlock_op op;         /* DONE: which operation ended; else 0 */
    enum dlock_status status; /* DONE, OPENED: how it ended; else DLOCK_OK */
};

/* An initialiser: zeroes, and the size. */
#ifdef __cplusplus
#define DLOCK_NOTICE_INIT                                             \
    {                                                                 \
        sizeof(struct dlock_notice), {}, {}, {}, {}, {}, {}, DLOCK_OK \
    }
#else
#define DLOCK_NOTICE_INIT                          \
    {                                              \
        .struct_size = sizeof(struct dlock_notice) \
    }
#endif

/*
 * Told of each loss, on the client's renewer thread.
 *
 * Return soon: renewals of the client's other locks wait meanwhile.
 * May call dlock_state, dlock_remaining_ms, dlock_fence, dlock_cancel and dlock_unlock.
 * dlock_free and dlock_client_close are refused there: they only log a line.
 */
typedef void dlock_notice_fn(void *arg, const struct dlock_notice *notice);

/*
 * A descriptor that polls readable while notices are queued.
 *
 * The client owns it: do not read or close it.
 * -1: losses go to the callback on_lost, or this is a forked child.
 */
DLOCK_API int dlock_client_fd(struct dlock_client *client);

/*
 * Takes one notice from the queue. Does not block.
 *
 * notice: begins as DLOCK_NOTICE_INIT, and is filled as far as its struct_size says.
 * Returns 1: *notice is filled, and *err has the text of its status, if that is not DLOCK_OK;
 * 0: none is queued; -1: error, *err says which, and no notice was taken.
 */
DLOCK_API int dlock_client_next(struct dlock_client *client, struct dlock_notice *notice,
                                struct dlock_error *err);

/*
 * Begins an operation and returns at once: threads of the client make the exchanges with the store.
 *
 * op: what to do. timeout_ms: of DLOCK_OP_LOCK and DLOCK_OP_RDLOCK, as for dlock_acquire, counted
 * from this call; the others ignore it.
 *
 * With DLOCK_OK exactly one notice DONE follows; its status is what the blocking function returns.
 * With any other status nothing was begun: DLOCK_ALREADY (held, in use, or an operation is under
 * way), DLOCK_LOST, DLOCK_CLOSED, DLOCK_FORKED, DLOCK_UNSUPPORTED, DLOCK_CONFIG, DLOCK_NOMEM, and
 * DLOCK_INVALID, which a client with on_lost gets always: the callback would run on another thread.
 *
 *   - An operation is under way until its DONE was taken. Until then another operation and a
 *     blocking call on the handle are DLOCK_ALREADY.
 *   - DONE with DLOCK_OK: held since before the notice was queued. A slow loop may find the lock
 *     lost already; the notice LOST comes after DONE.
 *   - dlock_cancel ends DLOCK_OP_LOCK and DLOCK_OP_RDLOCK: DONE has DLOCK_CANCELED, or DLOCK_OK if
 *     the grant was first. It does nothing else while an operation is under way.
 *   - From DLOCK_OP_UNLOCK on, do not rely on the lock. dlock_state may say held until DONE.
 *   - dlock_free cancels the operation, waits for its end, unlocks, and drops the queued notices.
 *   - After dlock_client_shutdown acquires end with DLOCK_CLOSED. Take their DONEs before
 *     dlock_client_close, which drops the notices that are queued.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_start(struct dlock *lock, enum dlock_op op,
                                                   int64_t timeout_ms, struct dlock_error *err);

/*
 * Begins to open a store, and returns before it is connected: a thread of the client looks the name
 * of the server up, connects and logs in.
 *
 * uri, options, out: as for dlock_client_open; options->on_lost has to be NULL.
 *
 * With DLOCK_OK the client is there, and one notice OPENED follows, whose status is what
 * dlock_client_open would return from the store. With any other status there is no client; it is
 * DLOCK_INVALID, the status of a plugin or of a secret that cannot be loaded, or DLOCK_NOMEM. The
 * plugin and the files that the URI names are read in the call.
 *
 *   - Until OPENED, and after OPENED with another status than DLOCK_OK, the client is as with
 *     open=lazy: handles can be made, and each operation connects by itself if it has to. The
 *     operations of dlock_start do not wait for OPENED. Blocking calls block.
 *   - dlock_client_close waits for the end of what was begun, for connect_timeout at most, and
 *     drops OPENED.
 */
DLOCK_API DLOCK_MUST enum dlock_status
dlock_client_open_start(const char *uri, const struct dlock_client_options *options,
                        struct dlock_client **out, struct dlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
