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
 *         struct dlock *lock = NULL;
 *         enum dlock_status status;
 *
 *         status = dlock_client_open(argc > 1 ? argv[1] : NULL, NULL, &client, &err);
 *         if (status == DLOCK_OK)
 *             status = dlock_new(client, "nightly-report", 14, NULL, &lock, &err);
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
 * the sizeof of the structure: struct dlock_options options = DLOCK_OPTIONS_INIT. A struct_size of
 * 0 is DLOCK_INVALID; only a struct dlock_error is filled all the same. Members that are appended
 * later are zero for older programs, and zero means "default".
 *
 * SEVERAL NAMES that are held together: <dlock/set.h>.
 *
 * OTHER LANGUAGES. The six inline functions below are not symbols of the library: call
 * dlock_acquire, on which they are built.
 *
 * The library never prints, never exits and never changes signal dispositions. Its descriptors are
 * close-on-exec, except the one of DLOCK_END_PROGRAMS.
 */
#ifndef DLOCK_H
#define DLOCK_H

#include <dlock/notice.h>
#include <dlock/types.h>
#include <dlock/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* States of a handle. They are not statuses. */
enum dlock_state {
    DLOCK_STATE_FREE = 0,
    DLOCK_STATE_HELD = 1,
    DLOCK_STATE_DOUBTFUL = 2, /* held and valid, but the last renewal failed */
    DLOCK_STATE_LOST = 3      /* was held; until dlock_unlock acknowledges the loss */
};

/* Special timeouts. */
#define DLOCK_FOREVER INT64_C(-1) /* wait without a limit */
#define DLOCK_TRY     INT64_C(-2) /* one attempt, no wait; also for dlock_options.wait_ms */
#define DLOCK_WAIT    INT64_C(-3) /* wait for the handle's wait_ms */

#define DLOCK_NAME_MAX    255
#define DLOCK_LIMIT_MAX   1000 /* permits of a semaphore */
#define DLOCK_TOKEN_CHARS 33   /* an owner token in hex, with its NUL */

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
    int64_t ttl_ms;       /* length of the lease, 50 ms to 7 days; 0: the client's, then 30 s */
    int64_t wait_ms; /* how long DLOCK_WAIT waits, or DLOCK_TRY; 0: the client's, then forever */
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
     * acquisition (C22); at most 7 days; 0: it is free at once. dlock_keep changes it for one
     * acquisition. Needs DLOCK_CAP_KEEP, and not the shared mode: DLOCK_INVALID. */
    int64_t keep_ms;
    /* What each claim of the handle publishes (C24): data_len bytes of any value, at most
     * DLOCK_DATA_MAX, copied; for example the address of an elected leader. 0: nothing.
     * dlock_client_inspect, dlock_client_list and dlock_observe show them to everybody who may read
     * the store: they must hold no secret. Needs DLOCK_CAP_DATA. */
    const void *data;
    size_t data_len;
};

/* An initialiser: zeroes, and the size. */
#ifdef __cplusplus
#define DLOCK_OPTIONS_INIT                                                                      \
    {                                                                                           \
        sizeof(struct dlock_options), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, 0 \
    }
#else
#define DLOCK_OPTIONS_INIT                          \
    {                                               \
        .struct_size = sizeof(struct dlock_options) \
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
DLOCK_API uint32_t dlock_client_caps(struct dlock_client *client);

/* The ttl that a lock gets if ttl_ms (0: the client's) is asked for. A store may have a least ttl,
 * or whole seconds only; each ttl is rounded up. 0: longer than the store gives, or not 50 ms to 7
 * days. Before the first connection (open=lazy): ttl_ms. Later answers are never shorter. */
DLOCK_API int64_t dlock_client_ttl_ms(const struct dlock_client *client, int64_t ttl_ms);

/* The URI, valid until close. *** stands for each secret, and a relative path is made absolute. A
 * URI with *** in it opens no store: DLOCK_INVALID. */
DLOCK_API const char *dlock_client_uri(struct dlock_client *client);

/* The server for messages, "SQLite 3.40.1", valid until close. "": not connected yet (open=lazy).
 */
DLOCK_API const char *dlock_client_server(struct dlock_client *client);

/*
 * Makes a handle for a name. Sends no request.
 *
 * name: 1 to DLOCK_NAME_MAX bytes of any value, compared byte by byte (C11).
 * options: may be NULL.
 * out: set with DLOCK_OK only. Free the handle with dlock_free.
 *
 * DLOCK_INVALID, DLOCK_UNSUPPORTED, DLOCK_CLOSED, DLOCK_FORKED, DLOCK_NOMEM, DLOCK_CONFIG (ttl).
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_new(struct dlock_client *client, const void *name,
                                                 size_t name_len,
                                                 const struct dlock_options *options,
                                                 struct dlock **out, struct dlock_error *err);

/*
 * Frees a handle. lock may be NULL.
 *
 * A call of another thread that waits on the handle is cancelled first, and this call waits for its
 * return. A held lock is unlocked, which takes op_timeout at most; the result is only logged.
 */
DLOCK_API void dlock_free(struct dlock *lock);

/*
 * Acquires the lock of a handle.
 *
 * mode: DLOCK_SHARED needs DLOCK_CAP_RWLOCK.
 * timeout_ms: how long to wait, DLOCK_FOREVER, DLOCK_TRY or DLOCK_WAIT. 0: one attempt.
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
DLOCK_API enum dlock_status dlock_unlock(struct dlock *lock, struct dlock_error *err);

/*
 * Sets how long the present acquisition keeps the name, or the permit, after its release: until
 * keep_ms after the acquisition, as dlock_options.keep_ms. Sends nothing.
 *
 *   DLOCK_OK
 *   DLOCK_INVALID       less than 0, more than 7 days, or a shared lock
 *   DLOCK_NOT_HELD      also after a loss
 *   DLOCK_UNSUPPORTED   the store has no DLOCK_CAP_KEEP
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_keep(struct dlock *lock, int64_t keep_ms,
                                                  struct dlock_error *err);

/* When the present acquisition began, on CLOCK_BOOTTIME: keep_ms counts from here. 0: not held. */
DLOCK_API int64_t dlock_since_ns(const struct dlock *lock);

/*
 * Extends the lease to ttl_ms from now. Never shortens what the store granted. Waits for the store
 * for op_timeout at most, and for a fifth of the lease at most if the renewer renews the lock, too.
 *
 * ttl_ms: 0: as before. Otherwise the renewer uses it from now on, too.
 *
 * DLOCK_OK; DLOCK_LOST; DLOCK_NOT_HELD; DLOCK_UNKNOWN, DLOCK_UNAVAILABLE, DLOCK_CONFIG (longer than
 * the store gives) and others: the old validity stands.
 */
DLOCK_API DLOCK_MUST enum dlock_status dlock_renew(struct dlock *lock, int64_t ttl_ms,
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
DLOCK_API DLOCK_MUST enum dlock_status dlock_downgrade(struct dlock *lock, struct dlock_error *err);

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
DLOCK_API DLOCK_MUST enum dlock_status dlock_adopt(struct dlock *lock, const char *token,
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
DLOCK_API void dlock_cancel(struct dlock *lock);

/* Forgets a cancel that no acquire has seen. */
DLOCK_API void dlock_cancel_reset(struct dlock *lock);

/*
 * State and validity of a handle without I/O, async-signal-safe.
 *
 * Both are right even if the process was stopped, or if no thread of the library ran (C2). In a
 * forked child: DLOCK_STATE_FREE and 0.
 */
DLOCK_API enum dlock_state dlock_state(const struct dlock *lock);
DLOCK_API int64_t dlock_remaining_ms(const struct dlock *lock); /* 0 unless held and valid */

/* The fencing token of the present or last acquisition, async-signal-safe; 0: none. It rises with
 * each exclusive acquisition of the name. */
DLOCK_API uint64_t dlock_fence(const struct dlock *lock);

/* The permit of the present or last acquisition, 0 to limit - 1: the lowest that was free. Always 0
 * for a lock. Async-signal-safe. */
DLOCK_API uint32_t dlock_permit(const struct dlock *lock);

/* Writes the owner token in hex, as inspect shows it, if size >= DLOCK_TOKEN_CHARS. Returns its
 * length; 0: not held, or no room. */
DLOCK_API size_t dlock_token(const struct dlock *lock, char *hex, size_t size);

/*
 * Calls fn once for each live holder of a name. A free name has none.
 *
 * A store of several servers says with dlock_error_node what each of them says, also with DLOCK_OK:
 * the node's status is DLOCK_OK (free), DLOCK_BUSY (held) or why it says nothing.
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
DLOCK_API enum dlock_status dlock_client_waiters(struct dlock_client *client, const void *name,
                                                 size_t name_len, dlock_waiter_fn *fn, void *arg,
                                                 struct dlock_error *err);

/* dlock_client_inspect for all names that begin with prefix; an empty prefix: all names. A
 * snapshot, in no promised order. */
DLOCK_API enum dlock_status dlock_client_list(struct dlock_client *client, const void *prefix,
                                              size_t prefix_len, dlock_holder_fn *fn, void *arg,
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
 * fn: called for each check; may be NULL. It must not call into the same client.
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

/* One plugin on the search path. Valid during the callback. */
struct dlock_plugin_info {
    uint32_t struct_size;          /* sizeof(struct dlock_plugin_info) */
    const char *path;              /* of the file; "built-in/NAME": linked with the library */
    const char *name;              /* NULL: it does not load */
    const char *version;           /* NULL: it does not load */
    const char *const *schemes;    /* NULL-terminated; NULL: it does not load */
    uint32_t caps;                 /* the most it can do */
    const struct dlock_error *err; /* why it does not load; NULL: it loads */
};

/* Non-zero ends the list. */
typedef int dlock_plugin_fn(void *arg, const struct dlock_plugin_info *info);

/* Calls fn for each plugin on the search path. plugin_dirs: as in dlock_client_options. */
DLOCK_API enum dlock_status dlock_plugins(const char *plugin_dirs, dlock_plugin_fn *fn, void *arg,
                                          struct dlock_error *err);

#ifdef __cplusplus
}
#endif
#endif
