/* SPDX-License-Identifier: MIT */
/*
 * types.h - what applications and plugins share: statuses, modes, capabilities, holders, errors.
 *
 * A status says what is known. There are three answers to "do I hold the lock now?":
 *   - yes: DLOCK_OK;
 *   - no: DLOCK_BUSY, DLOCK_TIMEOUT, DLOCK_LOST and others;
 *   - not known: DLOCK_UNKNOWN. The store may have executed the request, or not.
 */
#ifndef DLOCK_TYPES_H
#define DLOCK_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(DLOCK_BUILDING_LIBRARY)
#define DLOCK_API __attribute__((visibility("default")))
#else
#define DLOCK_API
#endif
#define DLOCK_MUST __attribute__((warn_unused_result))

/*
 * Every status, once. Values are frozen: append only.
 *   X(name, value, class, text)
 */
#define DLOCK_STATUS_MAP(X)                                                    \
    X(OK, 0, OK, "success")                                                    \
    X(BUSY, 1, OUTCOME, "held by another owner")                               \
    X(TIMEOUT, 2, OUTCOME, "not acquired before the deadline")                 \
    X(CANCELED, 3, OUTCOME, "the wait was cancelled")                          \
    X(LOST, 4, OUTCOME, "was held, no longer is")                              \
    X(NOT_HELD, 5, OUTCOME, "this handle does not hold the lock")              \
    X(UNKNOWN, 6, BACKEND, "sent, but the outcome is not known")               \
    X(UNAVAILABLE, 7, BACKEND, "the store cannot serve the request now")       \
    X(NO_QUORUM, 8, BACKEND, "no majority of the nodes could be reached")      \
    X(AUTH, 9, BACKEND, "the store refused the credentials or the permission") \
    X(PROTOCOL, 10, BACKEND, "the store sent an answer that makes no sense")   \
    X(CONFIG, 11, BACKEND, "the store is not set up so that a lock is safe")   \
    X(UNSUPPORTED, 12, USAGE, "this backend cannot do that")                   \
    X(INVALID, 13, USAGE, "bad argument, URI or option")                       \
    X(ALREADY, 14, USAGE, "this handle holds the lock or is acquiring it")     \
    X(NO_PLUGIN, 15, PLUGIN, "no plugin for this scheme")                      \
    X(PLUGIN_LOAD, 16, PLUGIN, "the plugin is there but cannot be loaded")     \
    X(PLUGIN_ABI, 17, PLUGIN, "the plugin breaks the plugin interface")        \
    X(FORKED, 18, USAGE, "the client was opened in another process")           \
    X(CLOSED, 19, USAGE, "the client is shut down or closed")                  \
    X(NOMEM, 20, INTERNAL, "out of memory or of another local resource")       \
    X(INTERNAL, 21, INTERNAL, "a bug in dlock or in a plugin")                 \
    X(NO_STORE, 22, BACKEND, "the store does not exist")

#define DLOCK_STATUS_ENUM(name, value, class_, text) DLOCK_##name = (value),
enum dlock_status { DLOCK_STATUS_MAP(DLOCK_STATUS_ENUM) };
#undef DLOCK_STATUS_ENUM

/* What a caller usually branches on. */
enum dlock_class {
    DLOCK_CLASS_OK = 0,
    DLOCK_CLASS_OUTCOME = 1, /* an answer, not a failure: contention, loss, cancellation */
    DLOCK_CLASS_BACKEND = 2, /* the store or the way to it */
    DLOCK_CLASS_USAGE = 3,   /* the caller must change something */
    DLOCK_CLASS_PLUGIN = 4,  /* the installation must change */
    DLOCK_CLASS_INTERNAL = 5 /* this process: memory, threads, bugs */
};

/* The name of a status, its text and its class: "BUSY", "held by another owner",
 * DLOCK_CLASS_OUTCOME. Any int is allowed. The strings are static, and never NULL. */
DLOCK_API const char *dlock_status_name(int status);
DLOCK_API const char *dlock_status_text(int status);
DLOCK_API enum dlock_class dlock_status_class(int status);

/* Holders in mode DLOCK_SHARED may hold one name together. */
enum dlock_mode { DLOCK_EXCLUSIVE = 0, DLOCK_SHARED = 1 };

/* When the lease of a holder that died ends. Only sqlite sees the deaths of processes. All other
 * stores take each of these values, and the lease ends with its ttl; so does that of sqlite if it
 * cannot tell. */
enum dlock_end {
    DLOCK_END_PROCESS = 0, /* when the process has ended */
    /* When it and all programs that it has started have ended, from its first request for the lock
     * on, also while it waited: on sqlite they inherit a descriptor that is not close-on-exec, and
     * keep the lease by not closing it. On all other stores as DLOCK_END_TTL: nothing is inherited,
     * and a program that outlives the process does not keep the lease. */
    DLOCK_END_PROGRAMS = 1,
    DLOCK_END_TTL = 2 /* with its ttl: another process is to adopt it by its token */
};

/* What the end of a claim does to the process that has not renewed it (C25). */
enum dlock_expire {
    DLOCK_EXPIRE_REPORT = 0, /* nothing: dlock_state says LOST, and the loss is reported */
    /* SIGKILL by a timer of the kernel, also while the process is stopped. Not where leases live in
     * sessions, and not in the first process of a PID namespace: DLOCK_UNSUPPORTED. Not with
     * renew=off: DLOCK_CONFIG. */
    DLOCK_EXPIRE_KILL = 1
};

/* A ttl: none. The lease has no clock and ends with its processes only (enum dlock_end), also while
 * they are stopped or the machine sleeps. Needs DLOCK_CAP_NO_TTL. The value is fifty years in
 * milliseconds: a program that compares it with a time needs no case of its own. */
#define DLOCK_TTL_NONE INT64_C(1577880000000)

/* Zero means "default", and so an option whose default is on is not a bool. */
enum dlock_tri { DLOCK_DEFAULT = 0, DLOCK_ON = 1, DLOCK_OFF = 2 };

/*
 * Capabilities, bits of a uint64_t. Append only.
 *
 * A plugin's descriptor has the most that the plugin can do. What this URI and this server give is
 * a subset: `open` and `probe` say it, and dlock_client_caps returns it.
 */
#define DLOCK_BIT(n) (UINT64_C(1) << (n))

#define DLOCK_CAP_RWLOCK        DLOCK_BIT(0) /* DLOCK_SHARED works */
#define DLOCK_CAP_DOWNGRADE     DLOCK_BIT(1) /* exclusive to shared without a gap */
#define DLOCK_CAP_FENCE         DLOCK_BIT(2) /* grants carry fencing tokens, contract C6 */
#define DLOCK_CAP_FENCE_DURABLE DLOCK_BIT(3) /* these rise across any crash of the store's host */
#define DLOCK_CAP_CRASH_SAFE    DLOCK_BIT(4) /* a lease outlives a crash of the store's process */
#define DLOCK_CAP_NATIVE_WAIT   DLOCK_BIT(5) /* the server blocks for us: `lock` and `interrupt` */
#define DLOCK_CAP_WATCH         DLOCK_BIT(6) /* notification: slots `watch` and `interrupt` */
#define DLOCK_CAP_QUEUE         DLOCK_BIT(7) /* FIFO in the store: WATCH and slot `dequeue` */
#define DLOCK_CAP_SESSION       DLOCK_BIT(8) /* the lease lives in the session that took it */
#define DLOCK_CAP_CONCURRENT    DLOCK_BIT(9) /* one session serves any number of threads at once */
#define DLOCK_CAP_PRIVATE       DLOCK_BIT(10) /* the store is inside this process, reaches no other */
#define DLOCK_CAP_TETHERED      DLOCK_BIT(11) /* the plugin keeps the leases' session alive */
#define DLOCK_CAP_LIMIT         DLOCK_BIT(12) /* semaphores: dlock_options.limit, contract C21 */
#define DLOCK_CAP_KEEP          DLOCK_BIT(13) /* a released name stays taken: dlock_options.keep_ms */
#define DLOCK_CAP_FAILOVER_SAFE DLOCK_BIT(14) /* a failover of the store makes no second holder */
#define DLOCK_CAP_DATA          DLOCK_BIT(15) /* holders publish data: dlock_options.data, C24 */
#define DLOCK_CAP_NO_TTL        DLOCK_BIT(16) /* leases without a clock: DLOCK_TTL_NONE, C23 */

/* Each of them once, as X(name), and all together. */
/* clang-format off: it would lay these lines out anew each time */
#define DLOCK_CAP_MAP(X) \
    X(RWLOCK)            \
    X(DOWNGRADE)         \
    X(FENCE)             \
    X(FENCE_DURABLE)     \
    X(CRASH_SAFE)        \
    X(NATIVE_WAIT)       \
    X(WATCH)             \
    X(QUEUE)             \
    X(SESSION)           \
    X(CONCURRENT)        \
    X(PRIVATE)           \
    X(TETHERED)          \
    X(LIMIT)             \
    X(KEEP)              \
    X(FAILOVER_SAFE)     \
    X(DATA)              \
    X(NO_TTL)
/* clang-format on */
#define DLOCK_CAP_OR(name) | DLOCK_CAP_##name
#define DLOCK_CAP_ALL      (UINT64_C(0) DLOCK_CAP_MAP(DLOCK_CAP_OR))

/* How much a line of the log matters. */
enum dlock_log_level {
    DLOCK_LOG_ERROR = 0,
    DLOCK_LOG_WARNING = 1,
    DLOCK_LOG_INFO = 2,
    DLOCK_LOG_DEBUG = 3
};

#define DLOCK_DATA_MAX 1024 /* bytes that a holder publishes */

/* One holder of a name. The callback gets it, and everything in it, for the time of the call. */
struct dlock_holder {
    uint32_t struct_size; /* sizeof(struct dlock_holder) */
    enum dlock_mode mode;
    const void *name;
    uint32_t name_len;
    uint32_t waiters;     /* queued in the store; UINT32_MAX: not known */
    uint64_t fence;       /* the first number of the grant; 0: none */
    uint64_t fence_last;  /* its last number; 0: none. The present thread's is one of them */
    int64_t remaining_ms; /* of the lease, on the store's clock; -1: unknown, or it has no ttl */
    int64_t held_ms;      /* -1: unknown */
    const char *owner;    /* owner token in lower-case hex, or the foreign text found there */
    /* "host:pid@space" or "host:pid@space:label"; "": unknown. For people; it proves nothing. The
     * space is the same for processes of one PID namespace, since one boot of one machine; "@space"
     * is missing if it is not known, and from dlock 0.2. A lease that threads of one client hand on
     * keeps the label of the first one. */
    const char *label;
    uint32_t limit;  /* of the semaphore; 0: a lock */
    uint32_t permit; /* 0 to limit - 1 */
    /* Not held any more. The name, or the permit, stays taken for remaining_ms, by nobody
     * (dlock_options.keep_ms). held_ms counts from the acquisition; the label is its holder's. */
    bool kept;
    /* What the holder publishes (dlock_options.data): data_len bytes of any value. The holder
     * writes them; they prove nothing. NULL and 0: none. */
    uint32_t data_len;
    const void *data;
};

/* Initialisers for plugins: the size, and nothing is known. */
#define DLOCK_HOLDER_INIT                                                                      \
    {                                                                                          \
        .struct_size = sizeof(struct dlock_holder), .waiters = UINT32_MAX, .remaining_ms = -1, \
        .held_ms = -1, .owner = "", .label = ""                                                \
    }

/* Returns true to end the inspect or list. The callback must not call into the same client. */
typedef bool dlock_holder_fn(void *arg, const struct dlock_holder *holder);

/* One waiter in the store's queue of a name, as struct dlock_holder. */
struct dlock_waiter {
    uint32_t struct_size; /* sizeof(struct dlock_waiter) */
    enum dlock_mode mode;
    uint32_t position; /* 0: the first */
    int64_t waited_ms; /* since it was queued, on the store's clock; -1: unknown */
    const char *owner; /* as of a holder: the token of the attempt */
    const char *label; /* as of a holder */
};

#define DLOCK_WAITER_INIT                                                                     \
    {                                                                                         \
        .struct_size = sizeof(struct dlock_waiter), .waited_ms = -1, .owner = "", .label = "" \
    }

/* Returns true to end the list. The callback must not call into the same client. */
typedef bool dlock_waiter_fn(void *arg, const struct dlock_waiter *waiter);

/* One check of a store: for people, in words that may change. Borrowed for the callback. */
struct dlock_check {
    uint32_t struct_size; /* sizeof(struct dlock_check) */
    uint64_t clears;      /* DLOCK_CAP_* that this costs */
    const char *name;     /* "maxmemory-policy" */
    const char *found;    /* "allkeys-lru" */
    const char *advice;   /* NULL: fine as it is */
};

#define DLOCK_CHECK_INIT                          \
    {                                             \
        .struct_size = sizeof(struct dlock_check) \
    }

/* Returns true to end the list. The callback must not call into the same client. */
typedef bool dlock_check_fn(void *arg, const struct dlock_check *check);

/* What one server says, where the store has several: its part in a failure, or in an answer. */
struct dlock_node_error {
    char node[64]; /* host:port */
    enum dlock_status status;
    char message[96];
};

#define DLOCK_NODE_ERRORS_MAX 9 /* servers of one store */

/*
 * The detail of a failure, in the caller's memory. Every call that takes one fills it, also with
 * OK. A NULL pointer is allowed in each call.
 *
 * The layout is fixed, so that no call, and no unlock above all, is refused for the sake of its
 * error. Begin with DLOCK_ERROR_INIT: a call reads `nodes` and `node_room`. The text is one line of
 * printable characters. It never holds a password.
 *
 * NODES. A store of several servers tells what each of them said, if the caller gives room:
 *
 *     struct dlock_node_error nodes[DLOCK_NODE_ERRORS_MAX];
 *     struct dlock_error err = DLOCK_ERROR_INIT;
 *
 *     err.nodes = nodes;
 *     err.node_room = DLOCK_NODE_ERRORS_MAX;
 */
struct dlock_error {
    enum dlock_status status;
    int32_t code;      /* the store's own number; 0: none */
    bool retryable;    /* the same call may succeed later although nobody changes anything */
    char origin[32];   /* the writer of the text: "core", "sqlite", "redis" ... */
    char message[256]; /* never empty after a call */

    struct dlock_node_error *nodes; /* the caller's array; NULL: fill none */
    uint32_t node_room;             /* elements of nodes */
    uint32_t node_count;            /* how many of them are filled */
    uint64_t reserved[4];           /* 0 */
};

/* An initialiser: zeroes. */
#ifdef __cplusplus
#define DLOCK_ERROR_INIT \
    {                    \
    }
#else
#define DLOCK_ERROR_INIT   \
    {                      \
        .status = DLOCK_OK \
    }
#endif

#ifdef __cplusplus
}
#endif
#endif
