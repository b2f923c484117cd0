/* SPDX-License-Identifier: MIT */
/*
 * dlock.h - distributed locks for applications.
 *
 * EXAMPLE. A program that does its work only while it holds the lock:
 *
 *     #include <dlock/dlock.h>
 *     #include <stdio.h>
 *
 *     int main(int argc, char **argv)
 *     {
 *         struct dlock_error err = DLOCK_ERROR_INIT;
 *         struct dlock_client *client = NULL;
 *         struct dlock_handle *lock = NULL;
 *         enum dlock_status status;
 *
 *         status = dlock_client_open(argc > 1 ? argv[1] : NULL, NULL, &client, &err);
 *         if (status == DLOCK_OK)
 *             status = dlock_new(client, "nightly-report", DLOCK_NUL, NULL, &lock, &err);
 *         if (status == DLOCK_OK)
 *             status = dlock_trylock(lock, &err);
 *         if (status == DLOCK_OK) {
 *             for (int step = 1; step <= 3 && dlock_state(lock) != DLOCK_STATE_LOST; step++)
 *                 printf("step %d\n", step);
 *             status = dlock_unlock(lock, &err);
 *         }
 *         if (status != DLOCK_OK)
 *             fprintf(stderr, "%s: %s\n", dlock_status_name((int)status), err.message);
 *         dlock_free(lock);
 *         dlock_client_close(client);
 *         return status != DLOCK_OK;
 *     }
 *
 * The page docs/guarantees.md says what is promised, and on which store. The clauses C1 to C24
 * below have its numbers.
 *
 * THREADS. Every function may be called from any thread.
 *   - The handle is the owner. Threads that have to exclude each other use a handle each.
 *   - A second acquire on a handle that is held or being acquired is DLOCK_ALREADY at once, unless
 *     the handle is recursive.
 *
 * WAITING. Threads of one client that wait for one name form a queue in the process.
 *   - Only the first waiter talks to the store, or all readers together if readers are first.
 *   - dlock_trylock is DLOCK_BUSY while other threads of the client wait.
 *   - A lock that is unlocked may go straight to a waiting thread of the same client that asks for
 *     the same ttl, each time with a higher fencing token, unless one of the two publishes data.
 * The option "handoff" in docs/uri.md limits this.
 *
 * SIGNALS. dlock_state, dlock_remaining_ms, dlock_fence and dlock_permit are async-signal-safe. No
 * other function is, also not dlock_cancel and dlock_client_shutdown: they lock a mutex. To end a
 * wait by a signal, let a thread take the signal (sigwait, signalfd) and call dlock_cancel there.
 *
 * THREAD CANCELLATION. A thread must not be cancelled (pthread_cancel) inside a call, and must not
 * leave a call by longjmp: mutexes would stay locked, and other threads would hang.
 *
 * TIME. Durations are milliseconds. Leases are counted on CLOCK_BOOTTIME, which includes suspended
 * time and never steps. It does not count the time for which a virtual machine is paused (C2).
 *
 * FORK. In a forked child each call on an inherited client or handle returns DLOCK_FORKED.
 * dlock_free and dlock_client_close close the descriptors there and send nothing (C10). A part of
 * the memory stays: another thread of the parent may have been changing it.
 *
 * STRUCTURES. Begin each structure that you pass with its initialiser, which sets struct_size to
 * the sizeof of the structure: struct dlock_options options = DLOCK_OPTIONS_INIT. Another
 * struct_size is DLOCK_INVALID, 0 above all; a later library knows the sizes of earlier ones. The
 * exception is struct dlock_error, whose layout is fixed (types.h).
 *
 * CALLBACKS of lists return true to end the list. They must not call into the same client.
 *
 * SEVERAL NAMES that are held together: the sets below.
 *
 * The library never prints, never exits and never changes signal dispositions. Its descriptors are
 * close-on-exec, except the one of DLOCK_END_PROGRAMS.
 */
#ifndef DLOCK_H
#define DLOCK_H

#include <dlock/types.h>
#include <dlock/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlock_client; /* one store, chosen by URI */
struct dlock_handle; /* one lock object: a name, its options and, while held, the lease */
struct dlock_set;    /* several names that are held together */

/* States of a handle. They are not statuses. */
enum dlock_state {
    DLOCK_STATE_FREE = 0,
    DLOCK_STATE_HELD = 1,
    DLOCK_STATE_DOUBTFUL = 2, /* held and valid, but the last renewal failed */
    DLOCK_STATE_LOST = 3      /* was held; until dlock_unlock acknowledges the loss */
};

/* Timeouts, and dlock_options.wait_ms: milliseconds, 0 for one attempt without a wait, or one of
 * these. A call with DLOCK_AS_OPTIONS waits as the options of the handle say, and options with it
 * say what the options of the client say. */
#define DLOCK_FOREVER    INT64_C(-1) /* without a limit */
#define DLOCK_AS_OPTIONS INT64_C(-2)

#define DLOCK_NUL SIZE_MAX /* the length of a name that ends with a NUL */

#define DLOCK_NAME_MAX    255
#define DLOCK_LIMIT_MAX   1000 /* permits of a semaphore */
#define DLOCK_TOKEN_CHARS 33   /* an owner token in hex, with its NUL */

enum dlock_reason {
    DLOCK_REASON_EXPIRED = 1,  /* the lease ended before a renewal was confirmed */
    DLOCK_REASON_TAKEN = 2,    /* the store says that the lock is not ours: broken or deleted */
    DLOCK_REASON_MAX_HOLD = 3, /* held for max_hold */
    DLOCK_REASON_SESSION = 4   /* the session that carried the lock ended */
};

/* What a notice tells. Ignore a kind that you do not know: later versions have more. */
enum dlock_notice_kind {
    DLOCK_NOTICE_NONE = 0, /* no notice was queued */
    DLOCK_NOTICE_DONE =
        1, /* an operation of dlock_op_start has ended; exactly one for each (C19) */
    DLOCK_NOTICE_LOST = 2, /* one acquisition was lost; at most one notice for each (C5) */
    DLOCK_NOTICE_DOUBTFUL =
        3,                  /* a renewal failed, and the lock is still held; only for handles
                              that dlock_op_start was used on. Dropped if a renewal succeeds first */
    DLOCK_NOTICE_OPENED = 4 /* what dlock_client_open_start began has ended, as `status` says */
};

/* What dlock_op_start begins. Each is the same as the blocking function. */
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
    enum dlock_reason reason;  /* LOST: why; else 0 */
    enum dlock_op op;          /* DONE: which operation ended; else 0 */
    enum dlock_status status;  /* DONE, OPENED: how it ended; else DLOCK_OK */
    struct dlock_handle *lock; /* valid until dlock_free, which drops notices that were not taken;
                                  NULL: OPENED */
    void *user;                /* dlock_options.user */
    uint64_t fence;            /* of the acquisition */
    struct dlock_error error;  /* DONE, OPENED: what the blocking function writes, without nodes */
};

/* An initialiser: zeroes, and the size. */
#ifdef __cplusplus
#define DLOCK_NOTICE_INIT                                              \
    {                                                                  \
        sizeof(struct dlock_notice), {}, {}, {}, DLOCK_OK, {}, {}, {}, \
        {                                                              \
        }                                                              \
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
 * Gets a line for the log, on any thread: that of another call, too, whose request shared an
 * exchange. It must not wait for a thread that is in a call.
 * message: one line without a newline, valid during the call. It never holds a password.
 */
typedef void dlock_log_fn(void *arg, enum dlock_log_level level, const char *message);

struct dlock_client_options {
    uint32_t struct_size; /* sizeof(struct dlock_client_options) */
    /* Directories of plugins, absolute, with ':' between them. NULL: those of the environment's
     * DLOCK_PLUGIN_PATH, then the one that was compiled in. */
    const char *plugin_dirs;
    const char *defaults; /* options as in a URI's query, "ttl=30s&wait=10s"; they override it */
    dlock_log_fn *log;    /* NULL: no log */
    void *log_arg;
    dlock_notice_fn *on_lost; /* NULL: losses are queued for dlock_client_next */
    void *on_lost_arg;
    enum dlock_tri create; /* off: a store that does not exist is not made, and the status is
                              DLOCK_NO_STORE; default: as the URI says */
};

/* An initialiser: zeroes, and the size. */
#ifdef __cplusplus
#define DLOCK_CLIENT_OPTIONS_INIT                                                  \
    {                                                                              \
        sizeof(struct dlock_client_options), {}, {}, {}, {}, {}, {}, DLOCK_DEFAULT \
    }
#else
#define DLOCK_CLIENT_OPTIONS_INIT                          \
    {                                                      \
        .struct_size = sizeof(struct dlock_client_options) \
    }
#endif

struct dlock_options {
    uint32_t struct_size; /* sizeof(struct dlock_options) */
    int64_t
        ttl_ms; /* length of the lease, 50 ms to 7 days, DLOCK_TTL_NONE; 0: the client's, 30 s */
    int64_t wait_ms;       /* how long a call with DLOCK_AS_OPTIONS waits */
    int64_t op_timeout_ms; /* limit of one exchange with the store; 0: min(ttl/4, 2 s) */
    int64_t max_hold_ms;   /* limit of the time for which the lock is renewed; 0: none */
    enum dlock_tri renew;  /* default on: the client's renewer renews at ttl/3 */
    /* on: DLOCK_UNSUPPORTED where the store has no fencing tokens. dlock_new says so, or the first
     * acquire if the client is not connected yet (open=lazy). */
    enum dlock_tri fence;
    const char *label;        /* for inspect; copied; at most 64 printable bytes */
    void *user;               /* returned in notices */
    enum dlock_tri recursive; /* default off; on: an acquire of a held handle is counted */
    enum dlock_tri queue;     /* default on: first come, first served where the store can */
    enum dlock_end end;       /* when the lease ends if the process dies (C23) */
    /* How many handles may hold the name at once (C21). 0 or 1: one, the name is a lock. 2 to
     * DLOCK_LIMIT_MAX: the name is a semaphore, and each holder has a permit. All users of the name
     * say the same number, else the acquire is DLOCK_CONFIG. Needs DLOCK_CAP_LIMIT. A semaphore has
     * no shared mode: DLOCK_INVALID. */
    int64_t limit;
    /* After a release the name, or the permit, stays taken, by nobody, until this time after the
     * acquisition (C22); at most 7 days; 0: it is free at once. dlock_keep_name changes it for one
     * acquisition. Needs DLOCK_CAP_KEEP, and not the shared mode: DLOCK_INVALID. */
    int64_t keep_ms;
    /* What each claim of the handle publishes (C24): data_len bytes of any value, at most
     * DLOCK_DATA_MAX, copied; for example the address of an elected leader. 0: nothing.
     * dlock_client_inspect, dlock_client_list and dlock_client_observe show them to everybody who
     * may read the store: they must hold no secret. Needs DLOCK_CAP_DATA. */
    const void *data;
    size_t data_len;
    /* DLOCK_EXPIRE_KILL: the process is ended at the end of the claim if no renewal was confirmed
     * before and no unlock began (C25): also if max_hold ends it, and after a loss that was
     * reported until it is acknowledged. */
    enum dlock_expire on_expiry;
};

/* An initialiser: the size, a wait as the client's options say, and zeroes. */
#ifdef __cplusplus
#define DLOCK_OPTIONS_INIT                                                                      \
    {                                                                                           \
        sizeof(struct dlock_options), {}, DLOCK_AS_OPTIONS, {}, {}, {}, {}, {}, {}, {}, {}, {}, \
            {}, {}, {}, 0, DLOCK_EXPIRE_REPORT                                                  \
    }
#else
#define DLOCK_OPTIONS_INIT                                                       \
    {                                                                            \
        .struct_size = sizeof(struct dlock_options), .wait_ms = DLOCK_AS_OPTIONS \
    }
#endif

/*
 * Opens a store: loads its plugin and connects to it.
 *
 * uri: docs/uri.md has the grammar and the options. "@/path" reads the URI from that file. NULL:
 * the environment's DLOCK_URI, else the embedded default, a SQLite file whose path depends on the
 * effective user only.
 * options: may be NULL.
 * out: set with DLOCK_OK only. Close the client with dlock_client_close.
 *
 * The call takes connect_timeout at most, or the URI's `wait` if that is shorter. The first refusal
 * ends it. With the option open=lazy the call does not connect, and the first call that needs the
 * store reports the errors of the store.
 *
 *   DLOCK_INVALID      the URI or an option is wrong; the text shows the position
 *   DLOCK_NO_PLUGIN, DLOCK_PLUGIN_LOAD, DLOCK_PLUGIN_ABI   the plugin
 *   DLOCK_UNAVAILABLE, DLOCK_AUTH, DLOCK_CONFIG, DLOCK_PROTOCOL, DLOCK_NO_QUORUM   the store
 *   DLOCK_NO_STORE     the store does not exist, and create is off
 *   DLOCK_NOMEM
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_client_open(const char *uri,
                                                         const struct dlock_client_options *options,
                                                         struct dlock_client **out,
                                                         struct dlock_error *err);

/* Makes every wait, now and later, and every new acquire return DLOCK_CLOSED. Held locks stay held.
 */
DLOCK_API void dlock_client_shutdown(struct dlock_client *client);

/*
 * Closes a client: shuts it down, waits for the calls in progress, unlocks what is held,
 * disconnects.
 *
 * All unlocks together take connect_timeout at most. After the first unlock that ends with
 * DLOCK_UNKNOWN, DLOCK_UNAVAILABLE or DLOCK_NO_QUORUM nothing is renewed any more, and each other
 * unlock gets 200 ms: the trouble may be that of one name. Locks that are not unlocked end with
 * their leases; one line of the log says how many.
 * Handles that are left return DLOCK_CLOSED and still have to be freed. client may be NULL.
 */
DLOCK_API void dlock_client_close(struct dlock_client *client);

/* The DLOCK_CAP_* in force: what this URI and this server give. Before the first connection
 * (open=lazy): the most that the plugin can give. */
DLOCK_API uint64_t dlock_client_caps(const struct dlock_client *client);

/* The ttl that a lock gets if ttl_ms (0: the client's) is asked for. A store may have a least ttl,
 * or whole seconds only; each ttl is rounded up. 0: longer than the store gives, or not 50 ms to 7
 * days. DLOCK_TTL_NONE stays so where the store has it. Before the first connection (open=lazy):
 * ttl_ms. Later answers are never shorter. */
DLOCK_API int64_t dlock_client_ttl_ms(const struct dlock_client *client, int64_t ttl_ms);

/* The URI, valid until close. *** stands for each secret, and a relative path is made absolute. A
 * URI with *** in it opens no store: DLOCK_INVALID. */
DLOCK_API const char *dlock_client_uri(const struct dlock_client *client);

/* The server for messages, "SQLite 3.40.1", valid until close. "": not connected yet (open=lazy).
 */
DLOCK_API const char *dlock_client_server(const struct dlock_client *client);

/*
 * Makes a handle for a name. Sends no request.
 *
 * name: 1 to DLOCK_NAME_MAX bytes of any value, compared byte by byte (C11). name_len: their
 * number, or DLOCK_NUL: the name ends with a NUL. So it is in each function that takes a name.
 * options: may be NULL.
 * out: set with DLOCK_OK only. Free the handle with dlock_free.
 *
 * DLOCK_INVALID, DLOCK_UNSUPPORTED, DLOCK_CLOSED, DLOCK_FORKED, DLOCK_NOMEM, DLOCK_CONFIG (ttl).
 */
DLOCK_API DLOCK_MUST enum dlock_status
dlock_new(struct dlock_client *client, const void *name, size_t name_len,
          const struct dlock_options *options, struct dlock_handle **out, struct dlock_error *err);

/*
 * Frees a handle. lock may be NULL.
 *
 * A call of another thread that waits on the handle is cancelled first, and this call waits for its
 * return. A held lock is unlocked, which takes op_timeout at most; the result is only logged.
 */
DLOCK_API void dlock_free(struct dlock_handle *lock);

/*
 * Acquires the lock of a handle.
 *
 * mode: DLOCK_SHARED needs DLOCK_CAP_RWLOCK.
 * timeout_ms: how long to wait; 0: one attempt; DLOCK_FOREVER; DLOCK_AS_OPTIONS.
 *
 *   DLOCK_OK         held, and valid for at least 10 ms or a tenth of the ttl, whichever is more;
 *                    or for max_hold if that is less (C3)
 *   DLOCK_BUSY       one attempt was made, and another owner holds the name
 *   DLOCK_TIMEOUT    not acquired
 *   DLOCK_CANCELED   not acquired, because of dlock_cancel or dlock_free
 *   DLOCK_CLOSED     not acquired, because of dlock_client_shutdown or dlock_client_close
 *   DLOCK_UNKNOWN    no conclusive answer before the deadline. A release by token was sent. At
 *                    worst the name stays taken for one ttl (C4)
 *   DLOCK_ALREADY    the handle is held or being acquired
 *   DLOCK_LOST       the handle lost its lock, and nobody acknowledged it: call dlock_unlock
 *   others           not acquired: DLOCK_UNAVAILABLE, DLOCK_AUTH, DLOCK_CONFIG, DLOCK_PROTOCOL,
 *                    DLOCK_NO_QUORUM, DLOCK_UNSUPPORTED, DLOCK_FORKED, DLOCK_INVALID, DLOCK_NOMEM,
 *                    DLOCK_INTERNAL
 *
 * The timeout covers a store that fails. Refused connections, host names that are not found,
 * missing nodes, guard times and requests without an answer are repeated until the deadline, each
 * for op_timeout at most. The status says what was waited for:
 *   - DLOCK_TIMEOUT: the store answered, and others had the lock, or a guard time was not over. The
 *     text says which.
 *   - DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM, DLOCK_UNKNOWN: the store failed. The text is the store's.
 * A failure that a person has to mend ends the wait at once: DLOCK_AUTH, DLOCK_CONFIG,
 * DLOCK_PROTOCOL, DLOCK_INVALID and all others.
 *
 * With dlock_options.recursive an acquire on a handle that holds the lock is DLOCK_OK, sends
 * nothing, and is counted:
 *   - dlock_unlock must be called as often. The last call releases the lock.
 *   - A handle that holds the lock exclusively may acquire it shared. A handle that holds it shared
 *     and asks for exclusive gets DLOCK_ALREADY.
 *   - After a loss each outstanding dlock_unlock returns DLOCK_LOST.
 *   - DLOCK_INVALID: acquired too often to count.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_acquire(struct dlock_handle *lock,
                                                     enum dlock_mode mode, int64_t timeout_ms,
                                                     struct dlock_error *err);

/* dlock_acquire for one mode, and for a timeout of DLOCK_AS_OPTIONS, of 0, or this one. */
DLOCK_API DLOCK_MUST enum dlock_status dlock_lock(struct dlock_handle *lock,
                                                  struct dlock_error *err);
DLOCK_API DLOCK_MUST enum dlock_status dlock_trylock(struct dlock_handle *lock,
                                                     struct dlock_error *err);
DLOCK_API DLOCK_MUST enum dlock_status dlock_timedlock(struct dlock_handle *lock,
                                                       int64_t timeout_ms, struct dlock_error *err);
DLOCK_API DLOCK_MUST enum dlock_status dlock_rdlock(struct dlock_handle *lock,
                                                    struct dlock_error *err);
DLOCK_API DLOCK_MUST enum dlock_status dlock_tryrdlock(struct dlock_handle *lock,
                                                       struct dlock_error *err);
DLOCK_API DLOCK_MUST enum dlock_status
dlock_timedrdlock(struct dlock_handle *lock, int64_t timeout_ms, struct dlock_error *err);

/*
 * Releases the lock.
 *
 * The claim ends when the call is entered, whatever the call returns. Only DLOCK_ALREADY changes
 * nothing: another thread is acquiring the handle.
 *
 *   DLOCK_OK         released
 *   DLOCK_LOST       it was lost before. The loss is acknowledged now, and the handle is free again
 *   DLOCK_NOT_HELD   nothing to release
 *   others           DLOCK_UNKNOWN, DLOCK_UNAVAILABLE and so on: the store frees the name by itself
 *                    when the lease ends
 *
 * After one of the others the call may be repeated, and a lock that is gone is DLOCK_OK then; but
 * DLOCK_LOST if its name was to be kept and no call was DLOCK_UNKNOWN: nothing was kept. Where
 * leases live in sessions (DLOCK_CAP_SESSION) the first call ended the session, and the next one is
 * DLOCK_NOT_HELD. A new acquire on the handle is allowed, too.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_unlock(struct dlock_handle *lock,
                                                    struct dlock_error *err);

/*
 * Sets how long the present acquisition keeps the name, or the permit, after its release: until
 * keep_ms after the acquisition, as dlock_options.keep_ms. Sends nothing.
 *
 *   DLOCK_OK
 *   DLOCK_INVALID       less than 0, more than 7 days, or a shared lock
 *   DLOCK_NOT_HELD      also after a loss
 *   DLOCK_UNSUPPORTED   the store has no DLOCK_CAP_KEEP
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_keep_name(struct dlock_handle *lock, int64_t keep_ms,
                                                       struct dlock_error *err);

/* When the present acquisition began, on CLOCK_BOOTTIME, less than a millisecond too early: keep_ms
 * counts from there. 0: not held. */
DLOCK_API int64_t dlock_since_ms(const struct dlock_handle *lock);

/*
 * Extends the lease to ttl_ms from now. Never shortens what the store granted. Waits for the store
 * for op_timeout at most, and for a sixth of the lease at most if the renewer renews the lock, too.
 *
 * ttl_ms: 0: as before. Otherwise the renewer uses it from now on, too. A lease without a ttl gets
 * none: DLOCK_INVALID.
 *
 * DLOCK_OK; DLOCK_LOST; DLOCK_NOT_HELD; DLOCK_UNKNOWN, DLOCK_UNAVAILABLE, DLOCK_CONFIG (longer than
 * the store gives) and others: the old validity stands.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_renew(struct dlock_handle *lock, int64_t ttl_ms,
                                                   struct dlock_error *err);

/*
 * Turns an exclusive claim into a shared one without a gap. Needs DLOCK_CAP_DOWNGRADE.
 *
 * The exclusive claim ends when the call is entered. Waits as long as dlock_renew.
 *
 *   DLOCK_OK          shared; also if it was shared before
 *   DLOCK_LOST, DLOCK_NOT_HELD, DLOCK_UNSUPPORTED
 *   DLOCK_INVALID     acquired more than once (recursive); or with a limit or keep_ms
 *   others            DLOCK_UNKNOWN, DLOCK_UNAVAILABLE and so on: the claim is shared, but others
 *                     may have to wait until the next renewal repeats the request
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_downgrade(struct dlock_handle *lock,
                                                       struct dlock_error *err);

/*
 * Takes over a lease that exists in the store, by its owner token.
 *
 * token: hex, as dlock_token gives it.
 *
 * Another process of the same owner acquired the lease. That process is dead, or must not use the
 * lease any more and must end by _exit: its dlock_free and dlock_client_close would release the
 * lease. The handle must be free.
 *
 *   DLOCK_OK            held, and renewed to the handle's ttl
 *   DLOCK_NOT_HELD      the token does not hold this name any more
 *   DLOCK_INVALID       not a token
 *   DLOCK_UNSUPPORTED   the leases of this store live in sessions, or it cannot be inspected
 *   others              as dlock_trylock
 *
 * The fencing token is above all that the lease had until it was first adopted. A lease that is
 * adopted again has the same fencing token again.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_adopt(struct dlock_handle *lock, const char *token,
                                                   struct dlock_error *err);

/*
 * Makes the acquire in progress on this handle return DLOCK_CANCELED as soon as its current
 * exchange ends: after at most 2 x op_timeout, one to wait and one to withdraw the request.
 *
 * If that exchange has decided the outcome, the acquire returns the outcome.
 * If no acquire is in progress, the next one on the handle returns DLOCK_CANCELED, so that a cancel
 * that comes too early is not lost. dlock_cancel_reset takes that back.
 * An inner acquire of a recursive handle and dlock_adopt are not cancelled.
 */
DLOCK_API void dlock_cancel(struct dlock_handle *lock);

/* Forgets a cancel that no acquire has seen. */
DLOCK_API void dlock_cancel_reset(struct dlock_handle *lock);

/*
 * State and validity of a handle without I/O, async-signal-safe.
 *
 * Both are right even if the process was stopped, or if no thread of the library ran (C2). In a
 * forked child: DLOCK_STATE_FREE and 0.
 */
DLOCK_API enum dlock_state dlock_state(const struct dlock_handle *lock);
/* 0 unless held and valid; DLOCK_TTL_NONE: the lease has no clock. */
DLOCK_API int64_t dlock_remaining_ms(const struct dlock_handle *lock);

/* The fencing token of the present or last acquisition, async-signal-safe; 0: none. It rises with
 * each exclusive acquisition of the name. */
DLOCK_API uint64_t dlock_fence(const struct dlock_handle *lock);

/* The permit of the present or last acquisition, 0 to limit - 1: the lowest that was free. Always 0
 * for a lock. Async-signal-safe. */
DLOCK_API uint32_t dlock_permit(const struct dlock_handle *lock);

/* Writes the owner token in hex, as inspect shows it, if size >= DLOCK_TOKEN_CHARS. Returns its
 * length; 0: not held, or no room. */
DLOCK_API size_t dlock_token(const struct dlock_handle *lock, char *hex, size_t size);

/*
 * NOTICES, and operations that do not block: for programs with an event loop. The loop waits for
 * dlock_client_fd to be readable, and then takes all notices:
 *
 *     struct dlock_notice notice = DLOCK_NOTICE_INIT;
 *
 *     while (dlock_client_next(client, &notice, &err) == DLOCK_OK &&
 *            notice.kind != DLOCK_NOTICE_NONE)
 *         if (notice.kind == DLOCK_NOTICE_DONE && notice.op == DLOCK_OP_LOCK)
 *             got_the_lock(notice.user, notice.status);
 *
 * examples/loop_epoll.c, loop_uv.c and loop_asyncio.py are whole programs.
 */

/*
 * A descriptor that polls readable while notices are queued.
 *
 * The client owns it: do not read or close it.
 * -1: losses go to the callback on_lost, or this is a forked child.
 */
DLOCK_API int dlock_client_fd(const struct dlock_client *client);

/*
 * Takes one notice from the queue. Does not block.
 *
 * notice: begins as DLOCK_NOTICE_INIT. err: about this call, not about what the notice tells.
 *
 * DLOCK_OK: *notice is filled; its kind is DLOCK_NOTICE_NONE if none was queued. DLOCK_INVALID and
 * DLOCK_FORKED: no notice was taken.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_client_next(struct dlock_client *client,
                                                         struct dlock_notice *notice,
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
DLOCK_API DLOCK_MUST enum dlock_status dlock_op_start(struct dlock_handle *lock, enum dlock_op op,
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
 *     operations of dlock_op_start do not wait for OPENED. Blocking calls block.
 *   - dlock_client_close waits for the end of what was begun, for connect_timeout at most, and
 *     drops OPENED.
 */
DLOCK_API DLOCK_MUST enum dlock_status
dlock_client_open_start(const char *uri, const struct dlock_client_options *options,
                        struct dlock_client **out, struct dlock_error *err);

/*
 * Calls fn once for each live holder of a name. A free name has none.
 *
 * A store of several servers fills err->nodes with what each of them says, also with DLOCK_OK: the
 * node's status is DLOCK_OK (free), DLOCK_BUSY (held) or why it says nothing.
 */
DLOCK_API enum dlock_status dlock_client_inspect(struct dlock_client *client, const void *name,
                                                 size_t name_len, dlock_holder_fn *fn, void *arg,
                                                 struct dlock_error *err);

/*
 * Calls fn once for each waiter in the store's queue of a name, in the order in which they are
 * served. Calls of one client that wait behind each other are one waiter, or none until the holder
 * in their client has kept the lock for 5 ms.
 *
 * DLOCK_UNSUPPORTED: the store does not show its queue; dlock_holder.waiters may have the count.
 */
DLOCK_API enum dlock_status dlock_client_list_waiters(struct dlock_client *client, const void *name,
                                                      size_t name_len, dlock_waiter_fn *fn,
                                                      void *arg, struct dlock_error *err);

/* dlock_client_inspect for all names that begin with prefix; an empty prefix: all names. A
 * snapshot, in no promised order. */
DLOCK_API enum dlock_status dlock_client_list(struct dlock_client *client, const void *prefix,
                                              size_t prefix_len, dlock_holder_fn *fn, void *arg,
                                              struct dlock_error *err);

/*
 * Waits until the holder of a name is another than the one with the fencing token known_fence.
 *
 * known_fence: the fence of the holder that the caller knows; 0: none, the caller knows the name to
 * be free, or knows nothing.
 * timeout_ms: how long to wait, or DLOCK_FOREVER. 0: one question.
 * fn: called once for each holder then, with DLOCK_OK only. It must not call into the same client.
 * A next call takes the holder's fence as its known_fence.
 *
 *   DLOCK_OK            another holder
 *   DLOCK_NOT_HELD      the holder that was seen is gone, and nobody holds the name
 *   DLOCK_TIMEOUT       no change; with known_fence 0: the name is free
 *   DLOCK_UNSUPPORTED   the store has no DLOCK_CAP_FENCE, or cannot be inspected
 *   DLOCK_CLOSED        dlock_client_shutdown ended the wait
 *   others              as dlock_client_inspect
 *
 * A semaphore, or readers, may have several holders. While the one with known_fence is among them,
 * there is no change. When it is gone, fn is called for all others. So a caller follows one holder
 * after the other; it does not see others come and go.
 *
 * The store is asked again and again, after pauses that grow to poll_max: a change that lasts no
 * longer may be missed, but never the last one. A store that fails is asked again until the
 * deadline, as by dlock_acquire. Threads of one client that hand a lease to each other are one
 * holder here.
 */
DLOCK_API enum dlock_status dlock_client_observe(struct dlock_client *client, const void *name,
                                                 size_t name_len, uint64_t known_fence,
                                                 int64_t timeout_ms, dlock_holder_fn *fn, void *arg,
                                                 struct dlock_error *err);

/*
 * Takes the name away from its holder. The holder finds out at its next renewal.
 *
 * owner: only the holder with this owner token, in hex; NULL: any holder.
 *
 * DLOCK_OK; DLOCK_NOT_HELD: the name is free, or another owner holds it. For one second after the
 * last confirmation of the lease, the lease may still go to another thread of the holder's client.
 */
DLOCK_API enum dlock_status dlock_client_break(struct dlock_client *client, const void *name,
                                               size_t name_len, const char *owner,
                                               struct dlock_error *err);

/*
 * Checks again how the store is set up, and what of that weakens a promise.
 *
 * fn: called for each check; may be NULL.
 *
 * Durability that the store does not give any more is gone from dlock_client_caps afterwards. The
 * call takes connect_timeout or op_timeout at most, whichever is more.
 *
 *   DLOCK_OK
 *   DLOCK_CONFIG        the store cannot keep a lock safely any more. The client takes no lock
 *                       until a later probe finds the store mended
 *   DLOCK_UNSUPPORTED   this store has nothing to check
 *   others              as dlock_client_inspect
 */
DLOCK_API enum dlock_status dlock_client_probe(struct dlock_client *client, dlock_check_fn *fn,
                                               void *arg, struct dlock_error *err);

/*
 * SETS: several names that are held together: all of them, or none (C18).
 *
 * A set acquires its names one after the other, in the order of their bytes, whatever order the
 * application writes. So users of sets never wait for each other in a circle. A user that holds a
 * name by another handle while it waits for a set has no such protection.
 *
 * A set is an owner, as a handle is. It is not recursive, whatever the option says.
 *
 * A set has no dlock_op_start: a thread waits for each name in turn. A loop acquires single
 * handles, or gives the set to a thread. It has no dlock_adopt and no dlock_keep_name: both are
 * about one lease, and a set in which they fail half-way would be neither all nor none.
 * dlock_options.keep_ms keeps each of its names.
 */

#define DLOCK_SET_MAX 32 /* names in a set */

/*
 * Makes a set. Sends no request.
 *
 * names: 1 to DLOCK_SET_MAX different names. lens: their lengths, each as for dlock_new; NULL: each
 * ends with a NUL.
 * options: of each name; may be NULL.
 * out: set with DLOCK_OK only. Free the set with dlock_set_free.
 *
 * As dlock_new. DLOCK_INVALID: also a name that is twice in the set, no name, or too many.
 */
DLOCK_API DLOCK_MUST enum dlock_status
dlock_set_new(struct dlock_client *client, const char *const *names, const size_t *lens,
              size_t count, const struct dlock_options *options, struct dlock_set **out,
              struct dlock_error *err);

/* As dlock_free. All unlocks together take two op_timeouts at most if the store gives no answer. */
DLOCK_API void dlock_set_free(struct dlock_set *set);

/*
 * Acquires all names, or none. All of them share the timeout.
 *
 *   DLOCK_OK        all are held, and each is valid as dlock_acquire promises
 *   others          as dlock_acquire, for the first name that was not acquired, which the text
 *                   names. Those before it were given back
 *   DLOCK_UNKNOWN   also, whatever the others say: a name could not be given back. At worst it
 *                   stays taken for one ttl. The text has the reason of both
 *   DLOCK_CONFIG    also: where leases live in sessions (DLOCK_CAP_SESSION), there are more names
 *                   than `connections`
 *
 * A name whose lease ends while the call waits for the others is acquired again, with all others,
 * until the deadline; its loss gives a notice all the same. Against a store without an answer the
 * call takes up to 3 x op_timeout.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_set_acquire(struct dlock_set *set,
                                                         enum dlock_mode mode, int64_t timeout_ms,
                                                         struct dlock_error *err);

/*
 * Releases all names, also those that are still held after a loss.
 *
 *   DLOCK_OK         all released
 *   DLOCK_LOST       one of them was lost before. The loss is acknowledged, and the set is free
 *   DLOCK_NOT_HELD   nothing to release
 *   others           as dlock_unlock. Once the store gives no answer, it is not asked for the rest
 *                    of the names, which end with their leases. The call may be repeated
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_set_unlock(struct dlock_set *set,
                                                        struct dlock_error *err);

/* As dlock_renew, for each name, until one of them is not DLOCK_OK. */
DLOCK_API DLOCK_MUST enum dlock_status dlock_set_renew(struct dlock_set *set, int64_t ttl_ms,
                                                       struct dlock_error *err);

/* As dlock_cancel and dlock_cancel_reset. */
DLOCK_API void dlock_set_cancel(struct dlock_set *set);
DLOCK_API void dlock_set_cancel_reset(struct dlock_set *set);

/*
 * State and validity of a set without I/O, async-signal-safe. The loss of one name is the loss of
 * the set; the other names stay held, and are renewed, until dlock_set_unlock.
 */
DLOCK_API enum dlock_state dlock_set_state(const struct dlock_set *set);
DLOCK_API int64_t dlock_set_remaining_ms(const struct dlock_set *set); /* the least of all */

/*
 * The handle of names[index], for dlock_state, dlock_remaining_ms, dlock_fence and dlock_token, and
 * to compare with dlock_notice.lock, where a loss of this name is told. NULL: there is no such
 * index. The set owns the handle.
 */
DLOCK_API const struct dlock_handle *dlock_set_member(const struct dlock_set *set, size_t index);

/* One plugin on the search path. Valid during the callback. */
struct dlock_plugin_info {
    uint32_t struct_size;          /* sizeof(struct dlock_plugin_info) */
    const char *path;              /* of the file; "built-in/NAME": linked with the library */
    const char *name;              /* NULL: it does not load */
    const char *version;           /* NULL: it does not load */
    const char *const *schemes;    /* NULL-terminated; NULL: it does not load */
    uint64_t caps;                 /* the most it can do */
    const struct dlock_error *err; /* why it does not load; NULL: it loads */
};

/* Returns true to end the list. */
typedef bool dlock_plugin_fn(void *arg, const struct dlock_plugin_info *info);

/* Calls fn for each plugin on the search path. plugin_dirs: as in dlock_client_options. */
DLOCK_API enum dlock_status dlock_plugin_list(const char *plugin_dirs, dlock_plugin_fn *fn,
                                              void *arg, struct dlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
