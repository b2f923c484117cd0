/* SPDX-License-Identifier: MIT */
/*
 * dlock.h - distributed locks for applications.
 *
 *     struct dlock_client *client;
 *     struct dlock *lock;
 *     dlock_client_open("sqlite:///var/lib/app/locks.db", NULL, &client, &err);
 *     dlock_new(client, "nightly-report", 14, NULL, &lock, &err);
 *     if (dlock_trylock(lock, &err) == DLOCK_OK) {
 *         ... while (dlock_state(lock) != DLOCK_STATE_LOST) work; ...
 *         dlock_unlock(lock, NULL);
 *     }
 *     dlock_free(lock);
 *     dlock_client_close(client);
 *
 * What is promised, on which store, is in docs/guarantees.md; the clause numbers C1 to C17 below
 * are its numbers.
 *
 * THREADS. Every function may be called from any thread. THE HANDLE IS THE OWNER: threads that
 * have to exclude each other use a handle each. A second acquire on a handle that is held or
 * being acquired is DLOCK_ALREADY, at once, unless it is recursive.
 *
 * WAITING. Threads of one client that wait for one name form a queue in the process, and only its
 * head, or the readers at its head, talk to the store; dlock_trylock is BUSY while others wait.
 * When a lock is released to a thread of the same client that waits for it with the same ttl, the
 * lease may go straight to that thread (see the option "handoff" in docs/uri.md), each time with a
 * higher fencing token.
 *
 * SIGNALS. dlock_state, dlock_remaining_ms and dlock_fence are async-signal-safe. All others are
 * not, dlock_cancel and dlock_client_shutdown included: they lock a mutex. To end a wait by a
 * signal, let a thread take the signal (sigwait, signalfd) and call dlock_cancel.
 *
 * THREAD CANCELLATION. No thread may be cancelled (pthread_cancel) in a call, or leave it by
 * longjmp: mutexes would stay locked, and other threads would hang.
 *
 * TIME. Durations are milliseconds. Leases are counted on CLOCK_BOOTTIME, which counts suspend
 * and never steps.
 *
 * FORK. In a forked child every call on an inherited client or handle answers DLOCK_FORKED; free
 * and close there release memory only and send nothing (C10).
 *
 * The library never prints, exits, or changes signal dispositions; its descriptors are
 * close-on-exec.
 */
#ifndef DLOCK_H
#define DLOCK_H

#include <dlock/types.h>
#include <dlock/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlock_client; /* one store, chosen by URI */
struct dlock;        /* one lock object: a name, its options and, while held, the lease */

/* States of a handle, not to be mixed up with statuses. */
enum dlock_state {
    DLOCK_STATE_FREE = 0,
    DLOCK_STATE_HELD = 1,
    DLOCK_STATE_DOUBTFUL = 2, /* held and valid, but the last renewal failed */
    DLOCK_STATE_LOST = 3      /* was held; until dlock_unlock acknowledges it */
};

enum dlock_reason {
    DLOCK_REASON_EXPIRED = 1,  /* the lease ran out before a renewal was confirmed */
    DLOCK_REASON_TAKEN = 2,    /* the store says that it is not ours: broken, deleted, taken over */
    DLOCK_REASON_MAX_HOLD = 3, /* held for max_hold */
    DLOCK_REASON_SESSION = 4   /* the session that carried the lock ended */
};

/* Zero means "default", so what defaults to on is not a bool. */
enum dlock_tri { DLOCK_DEFAULT = 0, DLOCK_ON = 1, DLOCK_OFF = 2 };

#define DLOCK_FOREVER INT64_C(-1) /* timeout: wait for ever */
#define DLOCK_TRY     INT64_C(-2) /* timeout, dlock_options.wait_ms: one attempt, no wait */
#define DLOCK_WAIT    INT64_C(-3) /* timeout: the handle's wait_ms */

#define DLOCK_NAME_MAX    255
#define DLOCK_TOKEN_CHARS 33 /* an owner token in hex, with its NUL */

/* What a notice tells. Ignore a kind that you do not know: later versions have more. */
enum dlock_notice_kind {
    DLOCK_NOTICE_LOST = 2 /* one acquisition was lost; at most one notice for each (C5) */
};

struct dlock_notice {
    uint32_t struct_size; /* sizeof(struct dlock_notice); set it before dlock_client_next */
    enum dlock_notice_kind kind;
    enum dlock_reason reason;
    struct dlock *lock; /* valid until dlock_free, which drops notices not yet taken */
    void *user;         /* dlock_options.user */
    uint64_t fence;     /* of the acquisition that was lost */
};

/*
 * Runs on the client's keeper thread: return soon, renewals of the client's other locks wait.
 * May call dlock_state, dlock_remaining_ms, dlock_fence, dlock_cancel and dlock_unlock; dlock_free
 * and dlock_client_close are refused there (nothing happens but a log line).
 */
typedef void dlock_notice_fn(void *arg, const struct dlock_notice *event);

/* Any thread; one line without newline; borrowed for the call. Never holds a password. */
typedef void dlock_log_fn(void *arg, enum dlock_log_level level, const char *message);

struct dlock_client_options {
    uint32_t struct_size; /* sizeof(struct dlock_client_options) */
    const char
        *plugin_dirs;     /* absolute, ':'-separated; NULL: DLOCK_PLUGIN_PATH, then compiled in */
    const char *defaults; /* "ttl=30s&wait=10s": options as in a URI's query, overriding it */
    dlock_log_fn *log;
    void *log_arg;
    dlock_notice_fn *on_lost; /* NULL: losses queue for dlock_client_next */
    void *on_lost_arg;
    enum dlock_tri create; /* off: a store that does not exist is not made, DLOCK_NO_STORE; default:
                              as the URI says */
};

struct dlock_options {
    uint32_t struct_size;  /* sizeof(struct dlock_options) */
    int64_t ttl_ms;        /* lease; 0: the client's, then 30 s; else 50 ms to 7 days */
    int64_t wait_ms;       /* of dlock_lock; 0: the client's, then for ever; or DLOCK_TRY */
    int64_t op_timeout_ms; /* one exchange with the store; 0: min(ttl/4, 2 s) */
    int64_t max_hold_ms;   /* renewed no longer than this; 0: no bound */
    enum dlock_tri renew;  /* default on: the client's keeper renews at ttl/3 */
    enum dlock_tri fence;  /* on: DLOCK_UNSUPPORTED where there is none, from dlock_new, or from the
                              first acquire if the client is not connected yet (open=lazy) */
    const char *label;     /* for inspect; copied; at most 64 printable bytes */
    void *user;            /* returned in events */
    enum dlock_tri
        recursive;        /* default off: acquiring again while held is counted, see dlock_lock */
    enum dlock_tri queue; /* default on: wait first come first served where the store can */
};

/*
 * Opens the store of `uri`, loading its plugin and connecting to it: within connect_timeout, or
 * the URI's `wait` if that is shorter; the first refusal is the answer. With the option open=lazy
 * it does not connect: errors of the store come from the first call. `uri` NULL: the environment's
 * DLOCK_URI, else the embedded default, a SQLite file whose path depends on the effective user
 * only. "@/path" reads the URI from that file. Grammar and options: docs/uri.md.
 *
 * options may be NULL. *out is set on DLOCK_OK only; close it with dlock_client_close.
 * INVALID: the URI or an option (the text shows the place). NO_PLUGIN, PLUGIN_LOAD, PLUGIN_ABI.
 * UNAVAILABLE, AUTH, CONFIG, PROTOCOL: the store. NO_STORE: it does not exist, and create is off.
 * NOMEM.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_client_open(const char *uri,
                                                         const struct dlock_client_options *options,
                                                         struct dlock_client **out,
                                                         struct dlock_error *err);

/* Every wait, now and later, returns CLOSED, and so does every new acquire. Held locks stay held.
 * Not async-signal-safe, see SIGNALS above. */
DLOCK_API void dlock_client_shutdown(struct dlock_client *client);

/*
 * Shuts down, waits for calls in progress, unlocks what is held and disconnects. The unlocks take
 * connect_timeout at most together. After the first one that ends with UNKNOWN, UNAVAILABLE or
 * NO_QUORUM, the store is asked nothing more: the other locks end with their leases. One line of
 * the log says how many were not unlocked. Handles left over answer CLOSED and still have to be
 * freed. NULL is fine.
 */
DLOCK_API void dlock_client_close(struct dlock_client *client);

/* DLOCK_CAP_* in force: what this URI and this server give. With open=lazy, and until the first
 * connection: the most that the plugin can give. */
DLOCK_API uint32_t dlock_client_caps(struct dlock_client *client);

/* The URI with *** for each secret, a relative path made absolute; borrowed until close. With ***
 * in it no store can be opened: INVALID. */
DLOCK_API const char *dlock_client_uri(struct dlock_client *client);

/* "SQLite 3.40.1", for messages; borrowed until close. "": open=lazy, and not connected yet. */
DLOCK_API const char *dlock_client_server(struct dlock_client *client);

/*
 * A descriptor that polls readable while loss events are queued. Owned by the client: do not read
 * or close it. -1: losses go to the on_lost callback, or another process.
 */
DLOCK_API int dlock_client_fd(struct dlock_client *client);

/* Takes one loss event. 1: *event is filled as far as its struct_size says (0, or less than the
 * first published size: that one); 0: none is queued. Does not block. */
DLOCK_API int dlock_client_next(struct dlock_client *client, struct dlock_notice *notice,
                                struct dlock_error *err);

/*
 * A handle for `name`: 1 to DLOCK_NAME_MAX bytes of any value, compared byte by byte (C11). No
 * request is sent. options may be NULL. *out is set on DLOCK_OK only; free it with dlock_free.
 * INVALID, UNSUPPORTED, CLOSED, FORKED, NOMEM.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_new(struct dlock_client *client, const void *name,
                                                 size_t name_len,
                                                 const struct dlock_options *options,
                                                 struct dlock **out, struct dlock_error *err);

/*
 * Cancels a wait on the handle in another thread and waits for that call to return, unlocks what
 * is held (at most op_timeout; the result is only logged), frees. NULL is fine.
 */
DLOCK_API void dlock_free(struct dlock *lock);

/*
 * Acquire. dlock_lock waits for options.wait_ms; dlock_trylock makes one attempt; dlock_timedlock
 * waits for timeout_ms (0: one attempt, DLOCK_FOREVER). The rd variants take shared mode and need
 * DLOCK_CAP_RWLOCK.
 *
 *   OK           held and valid for at least max(10 ms, a tenth of the lease), or for max_hold if
 *                that is less (C3)
 *   BUSY         one attempt, and somebody else holds it
 *   TIMEOUT      not acquired
 *   CANCELED     by dlock_cancel or dlock_free
 *   CLOSED       by dlock_client_shutdown or close
 *   UNKNOWN      no conclusive answer before the deadline. A release by token was sent; at worst
 *                the name stays taken for one ttl (C4)
 *   ALREADY      the handle is held or being acquired
 *   LOST         the handle lost its lock and nobody acknowledged that yet: dlock_unlock first
 *   UNAVAILABLE AUTH CONFIG PROTOCOL NO_QUORUM UNSUPPORTED FORKED NOMEM INTERNAL: not acquired
 *
 * The timeout covers the store, too: refused connections, host names that are not found, missing
 * nodes, guard times and requests without an answer are repeated until the deadline, each for
 * op_timeout at most. The deadline alone ends the wait, and the status says what was waited for:
 * TIMEOUT: the store answered, and others had the lock (or a guard time was not over: the text says
 * so); UNAVAILABLE, NO_QUORUM, UNKNOWN: the store failed, with its words. A failure that a person
 * has to mend ends the wait at once: AUTH, CONFIG, PROTOCOL, INVALID and all others.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_acquire(struct dlock *lock, enum dlock_mode mode,
                                                     int64_t timeout_ms, struct dlock_error *err);

static inline DLOCK_MUST enum dlock_status dlock_lock(struct dlock *lock, struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_EXCLUSIVE, DLOCK_WAIT, err);
}

static inline DLOCK_MUST enum dlock_status dlock_trylock(struct dlock *lock,
                                                         struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_EXCLUSIVE, DLOCK_TRY, err);
}

static inline DLOCK_MUST enum dlock_status dlock_timedlock(struct dlock *lock, int64_t timeout_ms,
                                                           struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_EXCLUSIVE, timeout_ms, err);
}

static inline DLOCK_MUST enum dlock_status dlock_rdlock(struct dlock *lock, struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_SHARED, DLOCK_WAIT, err);
}

static inline DLOCK_MUST enum dlock_status dlock_tryrdlock(struct dlock *lock,
                                                           struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_SHARED, DLOCK_TRY, err);
}

static inline DLOCK_MUST enum dlock_status dlock_timedrdlock(struct dlock *lock, int64_t timeout_ms,
                                                             struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_SHARED, timeout_ms, err);
}

/*
 * With dlock_options.recursive an acquire on a handle that holds the lock is OK without I/O,
 * however little is left of the lease, and counts; dlock_unlock has to be called as often, the last
 * one releases. Exclusive includes shared; a handle that holds shared and asks for exclusive is
 * told ALREADY. Once LOST, every unlock that is outstanding says LOST. INVALID: nested too deep to
 * count.
 */

/*
 * Gives the lock back. The claim ends when the call is entered, whatever it answers (except
 * ALREADY: an acquire is in progress on the handle in another thread).
 *
 *   OK           released
 *   LOST         it was lost before; acknowledged now, the handle is free again
 *   NOT_HELD     nothing to release
 *   UNKNOWN, UNAVAILABLE and other backend statuses: the store frees the name by itself when the
 *                lease ends. The call may be repeated; then "gone" is OK. On stores of sessions
 *                (DLOCK_CAP_SESSION) the session was ended with the first call: the next one is
 *                NOT_HELD. A new acquire on the handle is allowed too.
 */
DLOCK_API enum dlock_status dlock_unlock(struct dlock *lock, struct dlock_error *err);

/*
 * Extends the lease to ttl_ms from now (0: as before; otherwise the keeper renews to it from now
 * on, too). Never shortens what the store granted. OK; LOST; NOT_HELD; UNKNOWN, UNAVAILABLE...: the
 * old validity stands.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_renew(struct dlock *lock, int64_t ttl_ms,
                                                   struct dlock_error *err);

/*
 * Turns an exclusive claim into a shared one with no gap in between; needs DLOCK_CAP_DOWNGRADE. The
 * exclusive claim ends when the call is entered. OK, also if it was shared before; LOST; NOT_HELD;
 * INVALID: it was acquired more than once (recursive); UNSUPPORTED; UNKNOWN, UNAVAILABLE...: the
 * claim is shared, but others may have to wait until the next renewal repeats it.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_downgrade(struct dlock *lock, struct dlock_error *err);

/*
 * Takes up a lease that exists in the store, by its token (hex, as dlock_token gives it): another
 * process of the same owner took it, and must not use it any more; its dlock_free and
 * dlock_client_close would release it, too, so that it ends by _exit, or is dead. The handle has to
 * be free. OK: held and renewed to the handle's ttl, with a fencing token above all that the lease
 * had until it was first adopted; one that is adopted again has the same token again. NOT_HELD: the
 * token holds this name no more. INVALID: not a token. UNSUPPORTED: a store whose leases live in a
 * session, or that cannot be inspected. Others as dlock_trylock.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_adopt(struct dlock *lock, const char *token,
                                                   struct dlock_error *err);

/*
 * The acquire in progress on this handle returns CANCELED as soon as its present exchange ends (at
 * most 2 x op_timeout: one to wait, one to withdraw the request). If that exchange has decided the
 * outcome, the acquire returns the outcome. If no acquire is in progress, the next one on the
 * handle returns CANCELED, so that a cancel that comes too early is not lost; dlock_cancel_reset
 * takes that back. Inner acquires of a recursive handle and dlock_adopt are not cancelled.
 */
DLOCK_API void dlock_cancel(struct dlock *lock);

/* A cancel that no acquire has seen is forgotten. */
DLOCK_API void dlock_cancel_reset(struct dlock *lock);

/*
 * State without I/O, from atomics and clock_gettime alone: async-signal-safe, and right even if
 * the process was stopped or no thread of the library ran (C2). In a forked child: FREE and 0.
 */
DLOCK_API enum dlock_state dlock_state(const struct dlock *lock);
DLOCK_API int64_t dlock_remaining_ms(const struct dlock *lock); /* 0 unless held and valid */

/* The fencing token of the present or last acquisition; 0: none. Rises with each exclusive claim.
 */
DLOCK_API uint64_t dlock_fence(const struct dlock *lock);

/* The owner token in hex, as inspect shows it, if size >= DLOCK_TOKEN_CHARS. Returns its length. */
DLOCK_API size_t dlock_token(const struct dlock *lock, char *hex, size_t size);

/* Calls fn once for each live holder of the name; none when it is free. OK, or UNSUPPORTED ...
 * Of a store of several servers err->nodes says what each of them says, also with OK: its status is
 * OK (free), BUSY (held) or why it says nothing. */
DLOCK_API enum dlock_status dlock_client_inspect(struct dlock_client *client, const void *name,
                                                 size_t name_len, dlock_holder_fn *fn, void *arg,
                                                 struct dlock_error *err);

/* The same for all names that begin with prefix (0 bytes: all). A snapshot, in no promised order.
 */
DLOCK_API enum dlock_status dlock_client_list(struct dlock_client *client, const void *prefix,
                                              size_t prefix_len, dlock_holder_fn *fn, void *arg,
                                              struct dlock_error *err);

/*
 * Takes the name away from its holder, who learns it at the next renewal. owner: only this token
 * (hex); NULL: whoever holds it. OK; NOT_HELD: free, or held by another than owner. For one second
 * after its last confirmation the lease may still go on to another thread of the holder's client.
 */
DLOCK_API enum dlock_status dlock_client_break(struct dlock_client *client, const void *name,
                                               size_t name_len, const char *owner,
                                               struct dlock_error *err);

/*
 * Looks at the store again: how it is set up, and what of that costs something. Calls fn (NULL:
 * nobody listens) for each finding; it may not call into the same client. Durability that is found
 * to be gone is gone from dlock_client_caps afterwards. CONFIG: the store cannot keep a lock safely
 * any more; the client takes no lock until a later probe finds it mended. Takes no longer than
 * connect_timeout or an exchange, whichever is more. OK; UNSUPPORTED: this store has nothing to
 * tell; others as dlock_client_inspect.
 */
DLOCK_API enum dlock_status dlock_client_probe(struct dlock_client *client, dlock_check_fn *fn,
                                               void *arg, struct dlock_error *err);

/* One plugin file found on the search path. Borrowed for the callback. */
struct dlock_plugin_info {
    uint32_t struct_size;
    const char *path;
    const char *name;              /* NULL when it does not load */
    const char *version;           /* NULL when it does not load */
    const char *const *schemes;    /* NULL-terminated; NULL when it does not load */
    uint32_t caps;                 /* the most it can do */
    const struct dlock_error *err; /* why it does not load, else NULL */
};
typedef int dlock_plugin_fn(void *arg, const struct dlock_plugin_info *info);

/* Calls fn for each plugin on the search path (plugin_dirs as in dlock_client_options). */
DLOCK_API enum dlock_status dlock_plugins(const char *plugin_dirs, dlock_plugin_fn *fn, void *arg,
                                          struct dlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
