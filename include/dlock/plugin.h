/* SPDX-License-Identifier: MIT */
/*
 * plugin.h - for authors of plugins: what a plugin is given, and what it promises.
 *
 * A plugin is a shared object dlock_<name>.so. It exports one function, dlock_plugin(), which
 * returns a descriptor with a table of slots. Core opens sessions of the plugin and calls the
 * slots. Clauses in brackets are numbered, so that a conformance case can name what it proves.
 *
 * DIVISION OF WORK. A slot makes one attempt: no retry, no back-off, no timer, no thread of
 * policy. Core does the waiting, deadlines, renewal, loss, repetition after an unknown outcome and
 * clean-up. A plugin never calls core. It gets struct dlock_host.
 *
 * ATTEMPT. One attempt to acquire is one struct dlock_request at one address, with one random
 * token and one zeroed memory area (`attempt`). All calls for that attempt, and for its lease, get
 * the same request. Between calls core changes flags and deadline_ns; ttl_ms in renew; mode, from
 * EXCLUSIVE to SHARED, with the first renew that has DOWNGRADE; and label and op_timeout_ms when
 * the lease goes to another thread of the client.
 *
 * THREADS. A session serves one call at a time, except `interrupt`. With DLOCK_CAP_CONCURRENT
 * every slot but open and close may run in any number of threads on one session. Core holds no
 * lock of its own during a call, except the client's mutex during `interrupt`. A plugin calls
 * host->log and host->session_caps with no lock of its own held, and not from `interrupt`.
 *
 * DEADLINES. Every slot that may wait has one, absolute, on host->now_ns (CLOCK_BOOTTIME). The
 * slot returns by then, give or take scheduling, whatever the peer does. A name lookup counts
 * against the deadline. Waiting calls of the kernel run on other clocks: compute the rest again
 * after each.
 *
 * ERRORS. `err` is never NULL and comes empty. Fill it (dlock_fail below) for every status but OK
 * and BUSY: lower case, one line, naming the host, file or key, never a password. A plugin of
 * several servers fills err->nodes, all of each node, up to err->node_room, and counts them.
 *
 * AFTER A FAILURE. What failed is never used again (contract C9). The plugin does not reconnect.
 * [FAI-1] Without DLOCK_CAP_CONCURRENT core closes a session whose call returned UNKNOWN,
 *         UNAVAILABLE, NO_QUORUM, AUTH, CONFIG, NO_STORE, PROTOCOL or INTERNAL, or whose `lock`
 *         returned TIMEOUT or CANCELED, and opens a new one. After UNAVAILABLE core also closes
 *         the idle sessions. UNAVAILABLE of `watch` is no such failure [WAT-1]. The status of each
 *         element of renew or of a batch counts, too; CONFIG of an element of a batch only if no
 *         other element was OK, BUSY or LOST.
 * [FAI-2] With DLOCK_CAP_CONCURRENT other calls run in that session, so that core keeps it until
 *         the client closes. The plugin drops the one connection that failed. The next call that
 *         needs one makes it inside its own deadline, set up and checked as by `open` [OPN-1].
 *         Until that works, calls answer UNAVAILABLE, AUTH or CONFIG.
 * [FAI-3] The same holds for the single connections of a session that talks to several servers.
 *
 * IN DOUBT. UNAVAILABLE is right when only a read was unanswered, and no write was sent. A bounded
 * compare-and-swap inside one exchange's deadline is one attempt, not a retry. holder_ms 0 says
 * that the holder's lease has ended or is about to end. Names longer than the store's keys: use a
 * hash of 128 bits or more as the key, keep the name in the value, and answer CONFIG if it
 * differs.
 *
 * THE STORE'S CLOCK. A clock of whole seconds may end a lease one step early: add one step to the
 * time that is sent. A lease counts from the execution of the request, not from the last tick of a
 * server that was stopped. A clock that steps forward ends leases early: say so in the section of
 * the store in docs/guarantees.md.
 */
#ifndef DLOCK_PLUGIN_H
#define DLOCK_PLUGIN_H

#include <dlock/types.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLOCK_PLUGIN_MAGIC     0x444C4B50u /* "DLKP" */
#define DLOCK_PLUGIN_ABI_MAJOR 3u          /* another one is refused */
#define DLOCK_PLUGIN_ABI_MINOR 0u          /* counts appended members; any is accepted */

/*
 * struct_size is the sizeof that the allocating side knows. A minor version appends members at the
 * end of a structure, and gives no member another meaning. Arrays in a plugin have no struct_size:
 * struct dlock_option_spec and struct dlock_strategy never grow.
 */

/* ---- requests, and what a slot answers ---- */

#define DLOCK_TOKEN_SIZE 16

/* dlock_request.flags */
enum dlock_request_flag {
    DLOCK_REQ_ENQUEUE = 1u << 0,   /* trylock: if BUSY, queue me (only with DLOCK_CAP_QUEUE) */
    DLOCK_REQ_DOWNGRADE = 1u << 1, /* renew: EXCLUSIVE to SHARED in the same step, without a gap */
    DLOCK_REQ_REFRESH = 1u << 2,   /* trylock: I am queued. Answer OK granted; BUSY|QUEUED still
                                      queued; BUSY alone: unknown here, the attempt is over. Never
                                      enqueues */
    DLOCK_REQ_ADOPT = 1u << 3      /* renew: by dlock_adopt, which knows the token only [REN-6] */
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
    int64_t deadline_ns;   /* of this call, on host->now_ns; always set */
    int64_t op_timeout_ms; /* the bound of one exchange inside a call that may last longer; > 0 */
    const char *label;     /* "host:pid@space:text" for inspect; proves nothing */
    void *attempt; /* ops.attempt_size bytes, zeroed at the start of the attempt, 16-byte aligned;
                   the waiter's identity. NULL when attempt_size is 0 */
    enum dlock_end end; /* what a plugin that sees the death of a process may do with the lease */
    uint32_t limit;     /* holders at once: 1, a lock, or more, only with DLOCK_CAP_LIMIT [LIM-1] */
    int64_t keep_ms;    /* unlock: not 0: for how long the name, or the permit, stays taken by
                           nobody; only with DLOCK_CAP_KEEP [KEP-1] */
    uint32_t waiter;    /* not 0: core waits by wait_any, which gives this number; constant */
    uint32_t data_len;  /* 0 to DLOCK_DATA_MAX; above 0 only with DLOCK_CAP_DATA */
    const unsigned char *data; /* what the holder publishes [DAT-1]; data_len 0, and of an adopted
                                  lease: NULL */
};

/* Zeroed by core before the call, but waiters UINT32_MAX and holder_ms -1: not known. */
struct dlock_grant {
    uint32_t struct_size;
    uint32_t flags;          /* of enum dlock_grant_flag */
    uint32_t queue_position; /* BUSY: waiters before me, where known */
    uint32_t waiters;        /* others queued in the store; UINT32_MAX: not known */
    uint32_t permit;         /* OK: of a semaphore, 0 to limit - 1 [LIM-2] */
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

/* ---- what a session is given ---- */

/* type is one of: bool int duration size enum text list. In range: "1..64", "50ms..7d",
 * "row|insert". A list is a text that may be given more than once; its option is called `node`,
 * and its values, which hold no control characters, come in one text with a newline between them.
 * */
struct dlock_option_spec {
    const char *name, *type;
    const char *fallback; /* default as written in a URI; NULL: absent */
    const char *range;    /* NULL: any value of the type */
    const char *help;     /* one line for the documentation, which is generated from these */
};

/* The parsed URI. Checked by core, percent-decoded; lives as long as the session. */
struct dlock_target {
    uint32_t struct_size;
    const char *scheme;    /* as written, "redis+unix" */
    const char *user;      /* NULL: none */
    const char *password;  /* NULL: none. Never copy it into a message */
    const char *path;      /* "" or as written: "/abs" after an authority, "rel" without one */
    const char *directory; /* what a relative path starts from: the working directory when the
                              client was opened; NULL: there was none */
    const char *const
        *hosts; /* "host:port" or "host" or "[v6]:port"; NULL-terminated, maybe empty */
    /* The checked text of an option of the descriptor; its fallback when not given; NULL: neither,
     * or no such option. */
    const char *(*option)(const struct dlock_target *target, const char *name);
    /* The same as a number: bool 0 or 1, int, size in bytes, duration in milliseconds; 0 when
     * absent. Two of core's own options are here, too, of the URI or of the client's defaults:
     * "ttl", 0 if neither has it, and "fence", an enum dlock_tri. */
    int64_t (*number)(const struct dlock_target *target, const char *name);
    /*
     * The present text of a secret: of the password (option NULL), or of one option. Reads
     * pass_file, pass_env and the file of "@/path" again, so that a rotated password is found;
     * `password` and `option` above stay as they were when the client was opened.
     *
     * [SEC-1] Call it for each new connection. If the server refuses the credentials, call it once
     * more, and if the secret differs now, try once more with it, inside the same deadline.
     *
     * Copies the text and its NUL into buf, which the caller wipes. Returns the length; -1: there
     * is no such secret; -2: it cannot be read, or size is too small (err is filled). Thread-safe.
     * It reads files: do not call it with a lock held that `interrupt` takes.
     */
    int (*read_secret)(const struct dlock_target *target, const char *option, char *buf,
                       size_t size, struct dlock_error *err);
};

/* What became of a connection of a session that is open. */
enum dlock_connection_event {
    DLOCK_CONNECTION_MADE,
    DLOCK_CONNECTION_FAILED, /* it could not be made */
    DLOCK_CONNECTION_BROKEN  /* it was given up because an exchange on it failed */
};

/*
 * Services of the host. Any thread of a plugin may call them.
 *
 * [HST-1] All sessions of one client are opened with the same pointer, and two clients have
 *         different pointers. It stays valid until the last of these sessions is closed: it is the
 *         key to what a plugin keeps once a client. The pointer given to `init` is valid in that
 *         call only.
 */
struct dlock_host {
    uint32_t struct_size;
    void *ctx;
    int64_t (*now_ns)(void *ctx);                    /* CLOCK_BOOTTIME, or a test's clock */
    int (*random)(void *ctx, void *buf, size_t len); /* 0; or -1: fail the call */
    void (*log)(void *ctx, enum dlock_log_level level, const char *message);
    /* A connection that was made later [FAI-2] found these in force: of what `open` reported,
     * CRASH_SAFE, FENCE_DURABLE and FAILOVER_SAFE are cleared for good where they are missing. */
    void (*session_caps)(void *ctx, void *self, uint64_t caps);
    /*
     * CONCURRENT, for dlock_client_stats.
     *
     * [CNT-1] Each connection for exchanges that the session makes after `open` [FAI-2] is
     *         counted: when it is made, when it cannot be made, and when it breaks. Connections of
     *         `open` are not counted, because core counts the session; nor those of `probe`, nor
     *         those that `close` ends. The call waits for nothing: the plugin may hold its locks.
     */
    void (*connection)(void *ctx, enum dlock_connection_event event);
};

/* Filled by open, and again by probe. */
struct dlock_session_info {
    uint32_t struct_size;
    uint64_t caps;     /* in force here; a subset of the descriptor's, or of the strategy's */
    char server[64];   /* "SQLite 3.40.1" */
    char endpoint[64]; /* host:port or path, for messages; no secret */
    /*
     * [TTL-1] The ttls that the store can give: multiples of ttl_step_ms from ttl_least_ms to
     *         ttl_most_ms. 0: no limit; ttl_step_ms 0: steps of 1 ms. Core rounds each ttl up
     *         before it sends it, and refuses a ttl above the greatest one (CONFIG).
     * [TTL-2] Core goes by the narrowest of what all sessions of a client reported. A request that
     *         began before the last report may still have a ttl from before. For such a ttl the
     *         store may keep a longer lease; lease_ms is at most ttl_ms as always.
     */
    int64_t ttl_least_ms, ttl_most_ms, ttl_step_ms;
    /*
     * [PAR-1] More exchanges of one kind (trylock, unlock) at one time than this gain nothing: the
     *         store makes them one after another, or they cost it more than one batch. If twice as
     *         many blocking calls of the client want theirs, the next calls wait, 20 ms at most,
     *         and one exchange serves all that wait, by the batch slots. 0: each call makes its
     *         own. The same in all sessions. Core takes 0 for it without the batch slots, with
     *         server_of, and with SESSION.
     */
    uint32_t parallelism;
    /*
     * [OPN-7] Of an open that failed: true: its deadline came first, and another open with the same
     *         self continues where it ended, so that callers with little time make a session
     *         together. Core calls that, later and from any thread, or close. false: it calls
     *         close.
     */
    bool can_resume;
};

struct dlock_backend_ops {
    uint32_t struct_size;  /* sizeof(struct dlock_backend_ops) when the plugin was compiled */
    uint32_t session_size; /* bytes core allocates and zeroes for `self`, 16-byte aligned */
    uint32_t attempt_size; /* bytes of request.attempt */

    /* ---- required ---- */

    /*
     * Makes a session: connects, authenticates, sets everything up, checks what safety needs.
     *
     * [OPN-1] A store that cannot keep a lock safely (replica, evicting, wrong engine) is CONFIG,
     *         unless an explicit option unsafe_* accepts it.
     * [OPN-2] What only weakens a promise clears a bit in info->caps, and the session works.
     * [OPN-3] UNAVAILABLE: cannot be reached now. AUTH: refused. INVALID: an option that core
     *         could not check. PROTOCOL: not such a server. PLUGIN_LOAD: a file of the plugin is
     *         missing.
     * [OPN-4] Nothing in the store changes, except that the schema is created. A plugin that makes
     *         its store (a file, tables) has a bool option `create`, on by default. With
     *         create=off nothing is made, and a store that is not there is NO_STORE. Core sets it
     *         for callers that only inspect.
     * [OPN-5] NATIVE_WAIT, WATCH, QUEUE, SESSION, TETHERED and CONCURRENT follow from the target
     *         alone, and are the same in all its sessions (CONCURRENT: as in the descriptor). The
     *         other bits may depend on the server.
     * [OPN-6] Of several servers, fewer reachable than needed: NO_QUORUM. A minority may be
     *         missing.
     */
    enum dlock_status (*open)(void *self, const struct dlock_host *host,
                              const struct dlock_target *target, int64_t deadline_ns,
                              struct dlock_session_info *info, struct dlock_error *err);

    /*
     * Ends a session, also after a failed open and after a failed call. Does not wait for the
     * peer.
     *
     * [CLS-1] forked: this is a child of the process that opened the session. Send no byte, take
     *         no lock; leaking is allowed.
     */
    void (*close)(void *self, bool forked);

    /*
     * One attempt to take the name for req->token; does not wait for the holder.
     *
     * [TRY-1] Atomic: of any number of callers at most one gets OK for EXCLUSIVE until unlock or
     *         expiry; SHARED excludes EXCLUSIVE and the reverse.
     * [TRY-2] The store forgets the lease by itself: never before grant->lease_ms from the
     *         execution of the last call that set it, and at most 1 s, or a twentieth of ttl_ms if
     *         that is more, after it. A store whose clock has coarser steps may add one step.
     * [TRY-3] BUSY is definite, and says holder_ms where known.
     * [TRY-4] UNKNOWN: sent, and no conclusive answer by the deadline; never BUSY or UNAVAILABLE
     *         then. UNAVAILABLE: certainly not executed. NO_QUORUM: certainly not by enough
     *         servers, though not because of a holder; UNKNOWN if the silent servers could make it
     *         enough.
     * [TRY-5] Repeated with the same token: OK if that token holds the name already, and the lease
     *         is not shortened; otherwise as the first time.
     * [TRY-6] With DLOCK_CAP_FENCE: fence is greater than every number granted for the name
     *         before.
     * [TRY-7] Names are compared byte by byte. No name can meet an auxiliary key.
     * [TRY-8] BUSY may say why the name cannot be had although it may be free, as in a guard time
     *         after a restart: dlock_fail with BUSY and the text, and holder_ms for the rest of
     *         it. The caller gets that text, and a wait for it is logged once. QUEUED is not set
     *         then.
     */
    enum dlock_status (*trylock)(void *self, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err);

    /*
     * Extends n leases; with DLOCK_CAP_SESSION n is 1 and this is a ping.
     *
     * [REN-1] Each element gets a status of its own, and none changes another's. The call returns
     *         OK, or why nothing could be tried at all.
     * [REN-2] Never creates a lease: a token that does not hold its name now is LOST, also when
     *         the name is free.
     * [REN-3] Never shortens a lease.
     * [REN-4] UNAVAILABLE: not sent. UNKNOWN: sent, no answer.
     * [REN-5] Two deadlines apply. `req->deadline_ns` of an element is when that lease stops being
     *         valid: a plugin that repairs the lease on a minority of servers does so before. It
     *         limits nothing else, and may be over already: dlock_adopt does not know it. The
     *         argument deadline_ns limits the whole call.
     * [REN-6] DLOCK_REQ_ADOPT: the token may have been unlocked. A store that may have forgotten
     *         that is UNAVAILABLE until no later holder can be left, and says until when.
     */
    enum dlock_status (*renew)(void *self, struct dlock_lease_op *const *ops, size_t n,
                               int64_t deadline_ns, struct dlock_error *err);

    /*
     * Releases.
     *
     * [UNL-1] Touches the name only if req->token holds it. OK: it did, and is gone. LOST: it did
     *         not.
     * [UNL-2] UNKNOWN and UNAVAILABLE as in [TRY-4]. May be repeated.
     * [UNL-3] The fence counter survives.
     * [UNL-4] The first call frees what `attempt` refers to, whatever it answers. Later calls do
     *         without it. With keep_ms, a call that answers neither OK nor LOST may leave
     *         that to the next unlock, or to `forget`, which comes when the unlock cannot be
     *         repeated any more: what `attempt` refers to may carry the lease until then.
     */
    enum dlock_status (*unlock)(void *self, const struct dlock_request *req,
                                struct dlock_error *err);

    /* ---- optional, each bound to a capability bit where one is named ---- */

    /*
     * The attempt is over without an unlock (BUSY and given up, LOST), or without one that kept the
     * name [UNL-4]: frees what `attempt` refers to. NULL: there is nothing to free.
     *
     * [FGT-1] The last call of the attempt, made once. Waits for nothing. Harmless when nothing
     *         was set up. With SESSION it comes before the close of that self.
     * [FGT-2] self is any open session of the client. NULL: none is open, which cannot be with
     *         SESSION or CONCURRENT.
     */
    void (*forget)(void *self, const struct dlock_request *req);

    /*
     * DLOCK_CAP_NATIVE_WAIT: as trylock, but the server makes us wait until deadline_ns.
     *
     * [LCK-1] TIMEOUT and CANCELED are definite: not held and not queued any more. If in doubt,
     *         end the session in the store first: that our end is closed need not end a wait at
     *         the other. If there is no time for that, what is left must end by itself.
     * [LCK-2] Each exchange before and after the wait for the holder takes op_timeout_ms at most.
     *         It ends by deadline_ns or, if it begins then, some tens of milliseconds later: the
     *         100 ms of C8 are for all of it.
     */
    enum dlock_status (*lock)(void *self, const struct dlock_request *req,
                              struct dlock_grant *grant, struct dlock_error *err);

    /*
     * DLOCK_CAP_WATCH: after a BUSY trylock of this attempt, sleep until something happens.
     *
     * [WAT-1] BUSY: worth a trylock now. OK: granted to this token (QUEUE only). TIMEOUT: the
     *         deadline. CANCELED: interrupted. UNAVAILABLE: cannot watch now; core polls instead.
     * [WAT-2] Misses no release between that trylock and this call, and no grant that came before
     *         the answer to that trylock: list the waiter before the request leaves.
     * [WAT-3] May return BUSY for no reason, but not all the time.
     * [WAT-4] OK only for a fence greater than that of the last QUEUED answer. An older grant is
     *         dropped, and core asks again.
     * [WAT-5] Any session may be given, also another one than to trylock: grants arrive where all
     *         sessions can see them ([FAI-2] or [HST-1]).
     */
    enum dlock_status (*watch)(void *self, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err);

    /*
     * DLOCK_CAP_QUEUE: gives up the queue entry.
     *
     * [DEQ-1] If the token was granted the lock meanwhile, the lock goes to the next waiter.
     * [DEQ-2] The clean-up of every attempt that was sent with ENQUEUE and is given up, also after
     *         UNKNOWN: unlock would keep the queue entry. OK: neither queued nor holding, also for
     *         an unknown token.
     * [DEQ-3] UNKNOWN and UNAVAILABLE as in [TRY-4]. May be repeated. The entry ends by itself.
     */
    enum dlock_status (*dequeue)(void *self, const struct dlock_request *req,
                                 struct dlock_error *err);

    /*
     * Ends the lock or watch of this request, running in another thread on this session.
     *
     * [INT-1] Waits for nothing. A mutex of the plugin that is never held across I/O is fine. May
     *         be repeated.
     * [INT-2] Sticky: every later lock or watch of the attempt returns CANCELED at once. OK may be
     *         returned instead if the attempt has been granted the lock by then: a store need not
     *         know which of the two came first. After CANCELED the grant is passed on [DEQ-1].
     * [INT-3] self is the session that the call runs on, or is about to run on. Never called once
     *         dequeue, unlock or forget of the attempt began.
     * [INT-4] req NULL: ends the wait_any that runs on this session, or else the next one.
     */
    void (*interrupt)(void *self, const struct dlock_request *req);

    /*
     * WATCH: a watch for all attempts of the client that have a `waiter`. NULL: they are polled.
     * waiters: room for *count numbers. One thread of a client at a time calls it, with any open
     * session as for watch [WAT-5]. Without CONCURRENT core lends an idle session for the call.
     *
     * [ANY-1] OK: *count numbers, at least one, of attempts that were granted or for which watch
     *         would return BUSY because somebody acted. TIMEOUT, CANCELED, UNAVAILABLE: as watch.
     *         After the deadline, too, what is there is told.
     * [ANY-2] Misses nothing after the request of the last BUSY trylock left. What happened is told
     *         once, and is void when the next trylock begins.
     * [ANY-3] A number may come for no reason, and late, but not all the time.
     * [ANY-4] An attempt of which nothing will be told had DLOCK_GRANT_UNREPORTED with its last
     * BUSY.
     */
    enum dlock_status (*wait_any)(void *self, uint32_t *waiters, size_t *count, int64_t deadline_ns,
                                  struct dlock_error *err);

    /*
     * trylock of n attempts in one exchange with the store, and unlock of n leases. NULL: core
     * makes single calls. Never called with SESSION.
     *
     * [BAT-1] Each element is a call of its own: it gets the status, grant and text of the single
     *         slot, and what happens to one changes no other. The call returns OK, or why nothing
     *         could be tried at all: that is then the status of each element.
     * [BAT-2] A batch that is cut in the middle: an element that was answered has its answer, one
     *         that may have been sent is UNKNOWN, one that was certainly not is UNAVAILABLE.
     * [BAT-3] The deadline of an element is that of its request. They differ by 40 ms at most, and
     *         the call returns by the last one.
     * [BAT-4] The order of execution is free. Elements may have the same name. With server_of all
     *         elements had the same server when core asked.
     */
    enum dlock_status (*trylock_batch)(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err);
    enum dlock_status (*unlock_batch)(void *self, struct dlock_batch_op *const *ops, size_t n,
                                      struct dlock_error *err);

    /* The live holders of one name, a call each; none: the name is free. A store of several servers
     * fills err->nodes with OK, too: OK (free there), BUSY (held there), or why it says nothing.
     * */
    enum dlock_status (*inspect)(void *self, const unsigned char *name, uint32_t name_len,
                                 int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                 struct dlock_error *err);

    /* The live holders of all names beginning with prefix. A list that takes many exchanges may
     * give each as long as the deadline gives the first. Holders that were found are
     * reported before a failure. */
    enum dlock_status (*list)(void *self, const unsigned char *prefix, uint32_t prefix_len,
                              int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                              struct dlock_error *err);

    /* For dlock_client_list_waiters: the live queue entries of one name, a call each, in the order
     * of the queue, from position 0 on. NULL: UNSUPPORTED. */
    enum dlock_status (*list_waiters)(void *self, const unsigned char *name, uint32_t name_len,
                                      int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                      struct dlock_error *err);

    /*
     * Ends the lease of owner (hex; NULL: of any holder).
     *
     * [BRK-1] NOT_HELD: no such holder. The fence counter survives.
     */
    enum dlock_status (*break_lock)(void *self, const unsigned char *name, uint32_t name_len,
                                    const char *owner, int64_t deadline_ns,
                                    struct dlock_error *err);

    /* For dlock_client_probe: checks the store again, reports each check through fn (which may be
     * NULL), refills *info. Deadline: the longer of a connection's and an exchange's. */
    enum dlock_status (*probe)(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                               dlock_check_fn *fn, void *arg, struct dlock_error *err);

    /*
     * Which of the store's servers has the name now: a number of the plugin's own. Core takes a
     * server that does not answer for the end of its own names only. NULL: one server has all.
     *
     * [SRV-1] Waits for nothing; a mutex as in [INT-1]. Any thread, any open session.
     */
    uint32_t (*server_of)(void *self, const unsigned char *name, uint32_t name_len);
};

/*
 * A way to keep locks that a store offers beside others, as a row of a table or a lock of the
 * server. It has a table of slots of its own.
 */
struct dlock_strategy {
    const char *name; /* a value of the option `strategy` */
    uint64_t caps;    /* the most it can do */
    const struct dlock_backend_ops *ops;
};

struct dlock_plugin {
    uint32_t magic, abi_major, abi_minor;
    uint32_t struct_size; /* sizeof(struct dlock_plugin) when the plugin was compiled */
    uint64_t caps;        /* the most it can do */
    const char *name;     /* as in dlock_<name>.so */
    const char *version;
    const char *const *schemes;              /* NULL-terminated: "redis", "rediss", "redis+unix" */
    const struct dlock_option_spec *options; /* ends with name == NULL; core refuses all others */
    /* Once, before the first open, in no thread's way; NULL: nothing to do. Must not keep err. */
    enum dlock_status (*init)(const struct dlock_host *host, struct dlock_error *err);
    const struct dlock_backend_ops *ops;
    /*
     * NULL: the plugin has one way to keep locks, with `caps` and `ops`. Else caps is 0 and ops is
     * NULL, and the array ends with name == NULL.
     *
     * [STG-1] Each value of the option `strategy`, an enum with a default, is the name of one
     *         strategy. The URI chooses: all sessions of a client have the slots, the sizes and the
     *         capabilities of that strategy.
     */
    const struct dlock_strategy *strategies;
};

/*
 * [SES-1] With DLOCK_CAP_SESSION all calls for one attempt and its lease get the same self, which
 *         serves no other name until unlock or forget. After LOST or UNKNOWN core closes that self
 *         instead of using it again. Without SESSION any session of the client may get any call.
 * [SES-2] With DLOCK_CAP_SESSION closing self is the clean-up. UNKNOWN from trylock or lock ends
 *         the attempt, and the next one has a new token: there is no unlock for it. UNKNOWN from
 *         unlock is not repeated.
 */

/*
 * [TET-1] With DLOCK_CAP_TETHERED a lease lives in the client's session with the store. The plugin
 *         keeps that session alive, so that no lease ends by its time alone while the process runs.
 *         Core calls unlock when a lease has run out (it was not renewed, or reached max_hold),
 *         even if the application has not acknowledged the loss yet. Not with SESSION.
 * [TET-2] lease_ms is what the store keeps of the lease if the client says nothing from now on.
 * [TET-3] What a failed unlock or dequeue may have left in the session, the plugin removes when the
 *         store answers again, without a call of core. A repeated unlock then says LOST, and core
 *         takes that for OK.
 * [TET-4] No client can adopt a lease of another one's session: core answers UNSUPPORTED.
 */

/*
 * DLOCK_CAP_LIMIT: semaphores.
 *
 * [LIM-1] Of requests with one limit, 2 or more, at most `limit` hold the name at once; what is
 *         kept [KEP-1] counts. Mode is EXCLUSIVE. The queue is that of locks. While anybody holds
 *         the name or waits for it, or it is kept, a request with another limit is CONFIG, whose
 *         text has both numbers; a lock has the limit 1.
 * [LIM-2] A grant has a permit that no holder has and none is kept of, and a fence of its own. The
 *         permit is the lowest one that was free: each lower one was held, or kept, at a moment of
 *         the call that granted this one. A permit that comes back during that call may be left for
 *         the next grant. Renewal, release, loss and break are those of a lock.
 *
 * DLOCK_CAP_KEEP: a released name stays taken.
 *
 * [KEP-1] unlock with keep_ms ends the lease, and takes the name, or the permit, for nobody,
 *         for keep_ms from the execution on. The token holds nothing then: a second unlock is LOST.
 *         inspect and list show it as kept, with the label of the last holder. break_lock without
 *         an owner ends it.
 *
 * DLOCK_CAP_NO_TTL: leases without a clock.
 *
 * [TTL-3] A grant and a renewal whose ttl_ms is DLOCK_TTL_NONE last until the process of the lease
 *         has ended (req->end), until unlock or break_lock. If the store cannot know that of this
 *         process, the grant is refused: CONFIG. A grant to a queue entry may be shorter. inspect
 *         and list report remaining_ms -1. Only with the capability.
 *
 * DLOCK_CAP_DATA: a holder publishes data.
 *
 * [DAT-1] The step that grants a lease stores req->data, data_len bytes of any value, with it. The
 * grant to a queue entry stores the data of the request that made the entry. inspect and list show
 * them in each holder until the lease ends. Renewal, downgrade and adoption change nothing. A kept
 * name shows no data, and a grant without data shows none of a holder before it.
 */

/* ---- helpers ---- */

/* The text of CONFIG [LIM-1]: the limit in the store, and the request's. */
#define DLOCK_LIMITS_DIFFER                                                                     \
    "the name has a limit of %u now, and this user asks for %u; all must say the same (a lock " \
    "without a limit has 1)"

/* Fills *err and returns status, for `return dlock_fail(...)`. code: the store's own number. */
__attribute__((format(printf, 5, 6))) static inline enum dlock_status
dlock_fail(struct dlock_error *err, const char *origin, enum dlock_status status, int32_t code,
           const char *format, ...)
{
    va_list args;
    err->status = status;
    err->code = code;
    (void)snprintf(err->origin, sizeof err->origin, "%s", origin);
    va_start(args, format);
    if (vsnprintf(err->message, sizeof err->message, format, args) < 0)
        err->message[0] = '\0';
    va_end(args);
    return status;
}

#ifdef __clang_analyzer__
/* It cannot see through a variadic call what that returns. */
#define dlock_fail(err, origin, status, ...) \
    ((void)dlock_fail(err, origin, status, __VA_ARGS__), (status))
#endif

/* The one exported symbol of a plugin; `id` is its name, for the static form that tests link. */
#ifdef DLOCK_STATIC
#define DLOCK_PLUGIN_ENTRY(id, descriptor)              \
    const struct dlock_plugin *dlock_plugin_##id(void); \
    const struct dlock_plugin *dlock_plugin_##id(void)  \
    {                                                   \
        return (descriptor);                            \
    }
#else
__attribute__((visibility("default"))) const struct dlock_plugin *dlock_plugin(void);
#define DLOCK_PLUGIN_ENTRY(id, descriptor)        \
    const struct dlock_plugin *dlock_plugin(void) \
    {                                             \
        return (descriptor);                      \
    }
#endif

#ifdef __cplusplus
}
#endif
#endif
