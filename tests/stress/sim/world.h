/* SPDX-License-Identifier: MIT */
/*
 * world.h - what the files of the simulation share: one store, some processes that use it by the
 * library, and what goes wrong.
 *
 *   fiber.c     virtual time, threads, chance
 *   threads.c   pthreads on top of it; files.c: descriptors and clocks
 *   store.c     the server: who holds what, and who is next
 *   net.c       requests, answers and grants on their way: late, lost, out of order
 *   backend.c   the plugin in between; wait.c: the slots that wait
 *   failover.c  servers that are promoted, and replicas that lag; failover_guard.c: the failover
 *               guard in them; failover_client.c: what the plugin does about it
 *   tether.c    sessions of clients with the server, and what keeps them alive
 *   process.c   a process: its clock, its client, its death
 *   task.c      a thread of it that takes and gives back locks
 *   set.c       takes sets of names
 *   keep.c      keeps names after their release
 *   inspect.c   inspects names, in a thread or in the plugin
 *   call.c      the calls of a task, by one driver of the library or the other
 *   record.c    the history of it all
 *   nemesis.c   what goes wrong besides messages; profile.c: how often
 *   world.c     one seed from beginning to end
 *   main.c      the command
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "fiber.h"
#include "history.h"
#include "threads.h"

#include "api/client.h"
#include "hold/lease.h"
#include "hold/renew_schedule.h"

#include <dlock/plugin.h>

#define SIM_NAMES     6 /* three, where nobody takes sets */
#define SIM_MEMBERS   3 /* of a set */
#define SIM_SERVERS   3 /* of a store that fails over; else one */
#define SIM_PROCESSES 6
#define SIM_TASKS     4 /* of a process; each has a handle, or one for each member of its set */
#define SIM_HANDLES   (SIM_TASKS * SIM_MEMBERS)
#define SIM_START_NS  (INT64_C(1000000) * SIM_MS)

enum sim_kind { SIM_QUEUE, SIM_WATCH, SIM_POLL, SIM_SESSION, SIM_KINDS };

/* How often things go wrong. In millionths of the messages, or as means of time. */
struct sim_profile {
    const char *name;
    unsigned lose, late, slow, refuse;
    unsigned max_hold;      /* of the handles: the store learns nothing of a claim that ends so */
    int64_t stall_ttls;     /* a lease that nobody gives back keeps a name for that long */
    int64_t cut_every_ms;   /* 0: never; a process, or all of them, cut off from the store */
    int64_t stop_every_ms;  /* a process stands still */
    int64_t kill_every_ms;  /* a process ends without a word */
    int64_t close_every_ms; /* a process closes its client */
    bool grid;              /* the store gives ttls of quarters of the choice's only */
    bool tethered;          /* a lease lasts as long as its client's session (DLOCK_CAP_TETHERED) */
    bool fails_over;        /* the store's master is replaced by a replica, again and again */
    bool semaphores;        /* names may have limits */
    bool publishes;         /* most handles have data, and tasks inspect names */
    bool keeps;             /* a part of the releases keeps the name or the permit */
    bool sets;              /* most tasks take sets of names */
};

extern const struct sim_profile sim_profiles[];

/* Chosen by the seed. */
struct sim_choice {
    enum sim_kind kind;
    bool concurrent, fences, shared;
    unsigned names, processes, tasks;
    int64_t ttl_ms, waiter_lease_ms, poll_max_ms, hold_ms;
    unsigned handoff, connections;
    bool callbacks;
    bool wait_any;              /* operations wait in the plugin, by one thread */
    uint32_t limits[SIM_NAMES]; /* of the semaphores; 1: a lock */
    bool batches;               /* the plugin has trylock_batch and unlock_batch */
    unsigned parallelism;       /* blocking calls wait for so many, and share exchanges; 0: none */
};

struct sim_process;
struct sim_handle;

/* A call on the handle has ended with status. */
typedef void sim_done_fn(struct sim_handle *handle, enum dlock_status status);

/* A lock of one task. */
struct sim_handle {
    struct sim_process *process;
    struct dlock_handle *lock; /* NULL: no process */
    struct dlock_set *set;     /* of which the lock is a member; NULL: none */
    uint32_t name;
    uint32_t data;             /* what it publishes; 0: nothing */
    int64_t keeps_ms, keep_ms; /* by its options; by the present acquisition */
    bool renewed, recursive;
    uint64_t attempt;
    enum { SIM_IDLE, SIM_LOCKING, SIM_HELD, SIM_UNLOCKING, SIM_CLOSING } stage;
    bool told, in_line, stayed_out, renewing;
    uint8_t mode;
    int64_t inv_ns;   /* when the call of lock began */
    int64_t until_ns; /* of the lease as last written down, on the host's clock */
    size_t unlocking; /* the record of the last call of unlock */
    /* By operations: */
    bool async;
    enum dlock_op pending;    /* under way, or about to be; 0: none */
    bool begun;               /* dlock_op_start has returned */
    enum dlock_status status; /* of the last one */
    sim_done_fn *on_done;
    struct sim_fiber *caller;
    uint64_t fence; /* the greatest one that a DONE has told */
};

/* A token that waits, in the slot of its request. */
struct sim_waiter {
    struct sim_waiter *next;
    const struct dlock_request *req; /* NULL: in no list */
    struct sim_fiber *sleeper;
    bool enqueued, interrupted, poked, granted;
    bool news;           /* for wait_any */
    uint64_t queued_by;  /* the promotion whose server said QUEUED last */
    uint64_t granted_by; /* ... and that of the grant */
    bool doubtful;       /* its last request to take the name had no answer */
    uint64_t seen_fence; /* of the last QUEUED answer */
    uint64_t interrupt_fence;
    struct dlock_grant grant;
};

/* What a failed unlock may have left in the client's session [TET-3]. */
struct sim_leftover {
    uint32_t name;
    unsigned char token[DLOCK_TOKEN_SIZE];
};

#define SIM_LEFTOVERS 256

struct sim_process {
    struct sim_host host; /* first */
    int32_t pid;
    bool busy;  /* begun and not over */
    bool alive; /* there is a client */
    bool dead;  /* nobody hears of it any more; it is wound up */
    bool closing;
    bool deaf;                /* takes no notices any more */
    unsigned tasks;           /* that run */
    unsigned helpers;         /* fibers that take the news */
    unsigned links;           /* fibers of the plugin */
    struct sim_fiber *closer; /* waits for the three */
    int64_t ppm, offset_ns;   /* of its clock */
    int64_t cut_ns;           /* cut off until then */
    int32_t stopped_pid;      /* 0: does not stand still */
    struct dlock_client *client;
    struct sim_handle handles[SIM_HANDLES]; /* first those of the tasks */
    struct sim_waiter *waiters;
    struct sim_fiber *any_sleeper; /* in wait_any */
    bool any_runs, any_interrupted;
    struct sim_session *sessions;
    struct sim_leftover leftovers[SIM_LEFTOVERS];
    size_t leftover_count;
};

struct sim_world {
    const struct sim_profile *profile;
    struct sim_choice choice;
    struct sim_process processes[SIM_PROCESSES];
    int64_t cut_ns; /* the store cannot be reached until then */
    int64_t server_ppm;
    bool quiet; /* nothing goes wrong any more */
    bool async; /* most handles use the second driver */
    int64_t quiet_ns;
    uint64_t calls; /* of the library, done */
    uint64_t calls_most;
    int32_t last_pid;
    uint64_t last_attempt, last_session;
    uint64_t messages, lost, late, late_news;
    uint64_t stops, kills, closes, cuts, failovers, restarts;
    struct dlt_history history;
};

extern struct sim_world sim_world;

/* The name of the handle is a semaphore. */
static inline uint32_t sim_limit(const struct sim_handle *handle)
{
    return sim_world.choice.limits[handle->name];
}

static inline struct sim_process *sim_self_process(void)
{
    return (struct sim_process *)sim_self_host();
}

/* ---- store.c ---- */

enum sim_verb {
    SIM_TRY,
    SIM_RENEW,
    SIM_UNLOCK,
    SIM_LEAVE,
    SIM_LOCK,
    SIM_CANCEL,
    SIM_CLOSE,
    SIM_VIEW,
    SIM_INSPECT
};

/* What a look shows of a server, on its clock; moment_ns 0: nothing. */
struct sim_view {
    int64_t moment_ns, since_ns; /* since_ns: when its term began; 0: not yet */
    int64_t written;
};

/* What a connection knows of its server. id: of its promotion; 0: not connected. */
struct sim_seen {
    int node;
    uint64_t id;
    struct sim_view views[2];
};

/* Why the failover guard lets a request not be executed. */
enum sim_refusal { SIM_ADMITTED, SIM_OTHER, SIM_UNCONFIRMED, SIM_YOUNG };

struct sim_ask {
    enum sim_verb verb;
    uint32_t name, mode, flags, limit, data;
    unsigned char token[DLOCK_TOKEN_SIZE];
    int64_t ttl_ms, keep_ms;
    uint64_t session;
    struct sim_process *process;
    int32_t pid; /* grants go to that incarnation */
    struct sim_seen seen;
};

#define SIM_SHOWN_MOST 4 /* holders; there may be more readers */

/* A holder, as SIM_INSPECT shows it. */
struct sim_shown {
    uint64_t fence;
    uint32_t mode, data;
};

struct sim_answer {
    struct sim_shown shown[SIM_SHOWN_MOST];
    uint32_t shown_count;
    enum dlock_status status;
    struct dlock_grant grant;
    enum sim_refusal refusal;
    uint64_t promotion;
    struct sim_view view;
};

void sim_store_begin(void);

/* Which of the servers executes; one gets the locks of another; one has none any more. */
void sim_store_use(unsigned server);
void sim_store_copy(unsigned to, unsigned from);
void sim_store_forget(unsigned server);

/* false: SIM_LOCK waits; sim_net_granted will tell. */
bool sim_store_execute(const struct sim_ask *ask, struct sim_answer *answer);

/* The server's clock. */
int64_t sim_store_now(void);

/* The session of that incarnation is over, and all leases and places with it. */
void sim_store_end_session(int32_t pid);

/* Every lease and every place. *unused_ns: since when nobody uses it, for the caller; 0 at first.
 */
void sim_store_each(void (*fn)(const struct sim_ask *ask, int64_t *unused_ns));

/* ---- failover.c ---- */

static inline bool sim_fails_over(void)
{
    return sim_world.profile->fails_over;
}

void sim_failover_begin(void);

/* At the server. */
void sim_failover_execute_at(int node);
uint64_t sim_failover_promotion(void);
/* Another one is the master now. */
bool sim_failover_is_past(void);
int64_t sim_failover_ahead_ns(void);
/* By how much a request to the server is late. */
int64_t sim_failover_late_ns(int node);
/* Until when the server stands still; SIM_NEVER: the process does not reach it. */
int64_t sim_failover_stands_ns(const struct sim_process *process, int node);

/* At the client. What the process takes for the master (-1: it knows none), and the promotion of
 * that server. */
int sim_failover_choose(const struct sim_process *process);
uint64_t sim_failover_id(int node);
/* It is that of the last master. */
bool sim_failover_is_current(uint64_t promotion);

/* ---- failover_guard.c ---- */

/* false: the answer says why not. */
bool sim_failover_admit(const struct sim_ask *ask, struct sim_answer *answer);
/* The request that is executed may pass names on. */
bool sim_failover_passes(void);
uint64_t sim_failover_fence(uint64_t next);
/* How long a look counts. */
int64_t sim_failover_lasts_ns(void);

/* ---- failover_client.c ---- */

/* Where n questions go from the plugin: as sim_net_exchange, to a server that the client takes for
 * the master. */
struct sim_session;
enum dlock_status sim_store_ask(struct sim_session *session, struct sim_ask *asks, size_t n,
                                struct sim_answer *answers, int64_t deadline_ns);

/* ---- tether.c ---- */

/* The run has leases that live in the sessions of clients. */
static inline bool sim_is_tethered(void)
{
    return sim_world.profile->tethered;
}

void sim_tether_begin(void);

/* At the server: something of that incarnation arrived; it said that its session ends. */
void sim_tether_heard(int32_t pid);
void sim_tether_closed(int32_t pid);

/* At the client: the token of this request may hold something, and core asks no more for it. */
void sim_tether_leave(const struct dlock_request *req);

/* The fiber that removes what was left. */
void sim_tether_link(void *arg);

/* ---- net.c ---- */

#define SIM_ASKS_MOST    16
#define SIM_BATCH_MOST   64
#define SIM_KEEPALIVE_MS 1000 /* until who waits in the server hears that a connection is gone */

/* Sends n questions in one message and waits for the answers until deadline_ns of the host's
 * clock. OK; UNAVAILABLE: not sent, or refused; UNKNOWN; CANCELED: *interrupted. */
struct sim_session;
enum dlock_status sim_net_exchange(struct sim_session *session, struct sim_ask *asks, size_t n,
                                   struct sim_answer *answers, int64_t deadline_ns,
                                   struct sim_waiter *interruptible);

/* These questions were not answered as they should have been: written down. */
void sim_net_fault(const struct sim_ask *asks, size_t n);

/* The end of a connection, seen by the server sooner or later. */
void sim_net_hang_up(struct sim_process *process, const struct sim_ask *ask);

/* A connection is made: OK or UNAVAILABLE. */
enum dlock_status sim_net_connect(int64_t deadline_ns);

/* From the store: somebody who waits is granted; a name was released. */
void sim_net_granted(const struct sim_ask *ask, const struct sim_answer *answer);
void sim_net_released(uint32_t name);

/* The process is gone: who waits for an answer waits no more. */
void sim_net_forget(struct sim_process *process);

/* Cut off from the server now. */
bool sim_net_is_cut(const struct sim_process *process);

/* After a run: frees what is still on its way. */
void sim_net_end(void);

/* ---- backend.c, wait.c ---- */

struct sim_session {
    struct sim_session *next;
    uint64_t id;
    bool open, busy, broken;
    int64_t request_ns, reply_ns;    /* nothing overtakes within a connection */
    const struct dlock_request *req; /* SESSION: whom it serves */
    struct sim_seen seen;
    int64_t looked_ns; /* host's clock */
};

const struct dlock_plugin *sim_plugin(void);

/* The ttls that the store gives in this profile. */
void sim_info_fill(struct dlock_session_info *info);

/* [FAI-1] What failed is not used for an attempt. */
void sim_fresh_check(const struct sim_session *session);

/* The beginning and end of a slot that talks to the store. */
void sim_slot_enter(struct sim_session *session, const struct dlock_request *req);
enum dlock_status sim_slot_leave(struct sim_session *session, enum dlock_status status,
                                 struct dlock_error *err);
void sim_ask_make(struct sim_ask *ask, enum sim_verb verb, const struct sim_session *session,
                  const struct dlock_request *req);

void sim_waiter_list(const struct dlock_request *req);
void sim_waiter_unlist(const struct dlock_request *req);
void sim_waiter_grant(struct sim_process *process, const unsigned char *token,
                      const struct dlock_grant *grant, uint64_t promotion);
void sim_waiters_poke(struct sim_process *process, uint32_t name);

enum dlock_status sim_slot_watch(void *self, const struct dlock_request *req,
                                 struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status sim_slot_lock(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status sim_slot_wait_any(void *self, uint32_t *waiters, size_t *count,
                                    int64_t deadline_ns, struct dlock_error *err);
void sim_slot_interrupt(void *self, const struct dlock_request *req);

/* ---- keep.c ---- */

/* Names are kept in this profile, and the store can. */
bool sim_keeps(void);
/* For how long the handle keeps what it releases. */
void sim_keep_choose(struct sim_handle *handle, struct dlock_options *options);
/* A new acquisition, which may keep for another time than its handle. */
void sim_keep_acquired(struct sim_handle *handle, struct dlt_record *record);
void sim_keep_change(struct sim_handle *handle);

/* ---- inspect.c ---- */

/* The names have data, and the store shows them. */
bool sim_publishes(void);
/* What the handle is to publish. */
void sim_inspect_publish(struct sim_handle *handle, struct dlock_options *options);
/* A task inspects a name now and then. */
void sim_inspect_name(struct sim_handle *handle);

enum dlock_status sim_slot_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err);

/* ---- process.c, task.c ---- */

void sim_process_start(struct sim_process *process);
/* It ends: with a word (closing its client) or without. */
void sim_process_end(struct sim_process *process, bool killed);
void sim_task_start(struct sim_handle *handle);
/* For sets: the answer to a lock; a look at the handle; how long to hold; the bound of an
 * exchange; the moment in so many ms on the clock of the process. */
/* Begins an attempt. NULL: the history is not recorded. */
struct dlt_record *sim_task_attempt(struct sim_handle *handle);
void sim_task_ret_lock(struct sim_handle *handle, enum dlock_status status);
void sim_task_stamp(struct sim_handle *handle);
int64_t sim_task_hold_ms(const struct sim_handle *handle);
int64_t sim_task_op_timeout_ms(const struct sim_handle *handle);
int64_t sim_in_ms(int64_t ms);
/* One fiber of the process less. */
void sim_process_done(struct sim_process *process, unsigned *count);

/* ---- call.c ---- */

/* Makes the call, or the operation, and returns how it ended. on_done, if not NULL, is called once
 * before anything that the process is told later. */
enum dlock_status sim_call(struct sim_handle *handle, enum dlock_op op, int64_t timeout_ms,
                           sim_done_fn *on_done);

/* The fiber that takes the notices of the process arg, and what it does with a loss. */
void sim_call_listen(void *arg);
void sim_call_lost(void *arg, const struct dlock_notice *notice);

/* An operation of a process that is deaf ends without a DONE. */
void sim_call_watch(struct sim_handle *handle);

/* ---- record.c ---- */

/* NULL: that process writes nothing any more. */
struct dlt_record *sim_record(struct sim_handle *handle, enum dlt_event event);
void sim_record_nemesis(enum dlt_event event, int32_t pid, uint32_t name);
void sim_record_lost(struct sim_handle *handle, const struct dlock_notice *event);

/* The handle that uses this request now; NULL: none. */
struct sim_handle *sim_handle_of(struct sim_process *process, const struct dlock_request *req);

/* Writes down what has become of the turns and leases of a process. */
void sim_record_changes(struct sim_host *host);

/* ---- nemesis.c, world.c ---- */

void sim_nemesis_start(void);
/* The process is over: another one takes its place, unless the run is. */
void sim_process_over(struct sim_process *process);

struct sim_run {
    uint64_t seed;
    const struct sim_profile *profile;
    int kind; /* enum sim_kind; -1: the seed chooses */
    uint64_t calls;
    bool async;
};

/* NULL: it ended by itself and nothing was misused. The history is in sim_world until the next. */
const char *sim_world_run(const struct sim_run *run);
void sim_world_end(void);

#endif
