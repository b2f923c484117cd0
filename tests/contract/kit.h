/* SPDX-License-Identifier: MIT */
/*
 * kit.h - what a conformance case is made of: one process that runs one case against one store,
 * through dlock.h alone.
 *
 * A check that fails prints where and why and ends the process with status 1; a case that returns
 * has passed. Checks may be made in any thread.
 */
#ifndef DLT_KIT_H
#define DLT_KIT_H

#include "ruler.h"

#include <dlock/dlock.h>
#include <pthread.h>
#include <stdio.h>

#define DLT_EXIT_FAILED  1
#define DLT_EXIT_USAGE   64
#define DLT_EXIT_SKIPPED 77
#define DLT_EXIT_VOID    79 /* the machine was too slow to judge a bound: ruler.h */
#define DLT_NS_PER_MS    INT64_C(1000000)

/* All locks of a client have one ttl: this one suits the cases. */
#define DLT_ONE_TTL_MS 3000
/* Steps of the store's clock by which a session with leases in it may end after their ttl. */
#define DLT_TICKS 4

/* What a case is given. */
struct dlt_run {
    const char *uri;
    const char *program; /* dlock-conformance, for processes with a role */
    uint64_t expected;   /* capabilities that the store has to have, no more and no less */
    int has_expected;
    int is_private;        /* the store lives in one process */
    int party_is_thread;   /* so is a second party, even if the store is not private: child.h */
    int64_t slack_ms;      /* what the machine may add to a time; 100 on an idle one */
    int64_t grid_ms;       /* the step of the store's clock: a lease may end so much later. 0: finer
                              than a second */
    int64_t op_timeout_ms; /* of the locks of a case; 0: 2 s */
    char prefix[40];       /* of lock names, different in every run of every case */
};

/* Begins a line of the library's log in the output of a case. */
#define DLT_LOG_LINE "dlock-log "

/* And one of the trace that DLOCK_TRACE asks for. */
#define DLT_TRACE_LINE "dlock-trace "

/* The detail of this thread's last failed call, for messages. */
extern _Thread_local struct dlock_error dlt_err;

_Noreturn __attribute__((format(printf, 3, 4))) void dlt_fail(const char *file, int line,
                                                              const char *format, ...);

/* The case cannot be tried here. The reason is shown. */
_Noreturn __attribute__((format(printf, 1, 2))) void dlt_skip(const char *format, ...);

#define DLT_CHECK(condition, ...)                      \
    do {                                               \
        if (!(condition))                              \
            dlt_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* end_ns, of dlt_now_ns, is at most most_ms after begin_ns: by the ruler. A void measurement ends
 * the process with DLT_EXIT_VOID: the runner runs the case again, up to DLT_JOB_RUNS times. The
 * rest is the text of a failure. */
#define DLT_BETWEEN(begin_ns, end_ns, most_ms, ...) \
    dlt_between(__FILE__, __LINE__, (begin_ns), (end_ns), (most_ms), __VA_ARGS__)
/* The same, until now. */
#define DLT_WITHIN(begin_ns, most_ms, ...) \
    DLT_BETWEEN((begin_ns), dlt_now_ns(), (most_ms), __VA_ARGS__)

/* The shortest of some measurements. Begins as {0}. */
struct dlt_best {
    int64_t begin_ns, end_ns;
};
void dlt_best_take(struct dlt_best *best, int64_t begin_ns, int64_t end_ns);

__attribute__((format(printf, 6, 7))) void dlt_between(const char *file, int line, int64_t begin_ns,
                                                       int64_t end_ns, int64_t most_ms,
                                                       const char *format, ...);

/* call, which should pass &dlt_err, has to answer `want`. */
#define DLT_STATUS(call, want) dlt_status(__FILE__, __LINE__, #call, (call), (want))
#define DLT_OK(call)           DLT_STATUS(call, DLOCK_OK)

/* Acquires a free name with a short lease: after an answer that comes too late it is tried again.
 */
#define DLT_TAKE(lock) DLT_OK(dlock_timedlock((lock), 15000, &dlt_err))

void dlt_status(const char *file, int line, const char *call, enum dlock_status got,
                enum dlock_status want);

/* The handle has to be in the state `want`; the text says when: "after the unlock". */
#define DLT_STATE(lock, want, ...) \
    dlt_state(__FILE__, __LINE__, dlock_state(lock), (want), __VA_ARGS__)

__attribute__((format(printf, 5, 6))) void dlt_state(const char *file, int line,
                                                     enum dlock_state got, enum dlock_state want,
                                                     const char *format, ...);

/* A loss has to have the reason `want`. */
#define DLT_REASON(got, want) dlt_reason(__FILE__, __LINE__, (int)(got), (int)(want))

void dlt_reason(const char *file, int line, int got, int want);

/* "HELD" */
const char *dlt_state_name(enum dlock_state state);

/* A prefix that no other run has. */
void dlt_run_init(struct dlt_run *run);

/* A client with `defaults` (NULL: none) in force, whose log goes to standard error. Close it with
 * dlock_client_close. */
struct dlock_client *dlt_client(const struct dlt_run *run, const char *defaults);

/* The ttl that a lock of the client gets from dlt_lock with ttl_ms: what a case has to compute
 * with.
 */
int64_t dlt_ttl(const struct dlock_client *client, int64_t ttl_ms);

/* One exchange with the store, unless a case says otherwise: longer than this machine may stand
 * still. */
int64_t dlt_op_timeout_ms(const struct dlt_run *run);

/* A ttl that a renewer keeps: renewals begin after a third of it, and for the other two thirds this
 * machine may stand still. */
int64_t dlt_kept_ttl_ms(const struct dlt_run *run);

/* ttl_ms, or DLT_TTL_MOST of the environment, if that is less: the runner found that the store
 * refuses more at the acquire. */
int64_t dlt_ttl_within(int64_t ttl_ms);

/* The ttl to ask for: ttl_ms, or 0, which is the client's own, if the store gives none so long. */
int64_t dlt_ttl_asked(const struct dlock_client *client, int64_t ttl_ms);
/* The step of the ttls that the store gives; 0: it is 1 ms, or there is one ttl. */
int64_t dlt_step_ms(const struct dlock_client *client);

/* prefix + suffix. */
struct dlt_name {
    char text[DLOCK_NAME_MAX + 1];
    size_t len;
};
struct dlt_name dlt_name(const struct dlt_run *run, const char *suffix);

/* A handle for prefix + suffix with this ttl (0: the default), renewed as by default. */
struct dlock_handle *dlt_lock(const struct dlt_run *run, struct dlock_client *client,
                              const char *suffix, int64_t ttl_ms);

/* The same, not renewed: it ends after its ttl. */
struct dlock_handle *dlt_lease(const struct dlt_run *run, struct dlock_client *client,
                               const char *suffix, int64_t ttl_ms);

struct dlock_handle *dlt_lock_with(const struct dlt_run *run, struct dlock_client *client,
                                   const char *suffix, const struct dlock_options *options);

/* CLOCK_BOOTTIME. */
int64_t dlt_now_ns(void);
double dlt_ms_since(int64_t start_ns);
void dlt_sleep_ms(int64_t ms);
void dlt_sleep_until(int64_t deadline_ns);

/* pthread_create and pthread_join that succeed. */
pthread_t dlt_thread(void *(*run)(void *arg), void *arg);
void *dlt_join(pthread_t thread);

/* What inspect says of a name. */
struct dlt_holder {
    unsigned count;           /* holders; the rest is of the last one */
    struct dlock_holder info; /* without its pointers */
    char owner[64];
    char label[256];
    char name[DLOCK_NAME_MAX];
};
struct dlt_holder dlt_inspect(struct dlock_client *client, const struct dlt_name *name);

/* False: the store has no inspect, which is optional. A case that calls dlt_inspect is skipped
 * then; a case for which inspect is only one of its checks asks here first. */
int dlt_can_inspect(struct dlock_client *client);

/* Non-zero: a lock lives in the session that took it, and ends with it or with the claim. */
int dlt_session_lives(struct dlock_client *client);

/* Non-zero: a lease lives in the session of its client, and ends with it or with the claim. */
int dlt_is_tethered(struct dlock_client *client);

/* Non-zero: one of the two. A thread of the library ends the lease when the claim has run out. */
int dlt_ends_with_claim(struct dlock_client *client);

/* The part of a lease that a client does not believe in (clock_margin). */
int64_t dlt_margin_ms(int64_t ttl_ms);

/* How long a lease, or a place in the queue, of a process that has died may last at most where
 * leases live in the sessions of clients; elsewhere other_ms. */
int64_t dlt_death_ms(const struct dlt_run *run, struct dlock_client *client, int64_t other_ms);

/* After the end of a lease: what inspect says. A session that carried it is ended by a thread,
 * which may come late, and is waited for. So is one step of a coarse clock of the store. */
struct dlt_holder dlt_inspect_expired(const struct dlt_run *run, struct dlock_client *client,
                                      const struct dlt_name *name);

/* Non-zero: status is UNSUPPORTED, and this store may lack the slot: it is none of ours, or keeps
 * its locks in sessions. */
int dlt_may_lack(const struct dlt_run *run, enum dlock_status status);

/* Non-zero: locks can be taken away from their holders. */
int dlt_can_break(const struct dlt_run *run, struct dlock_client *client);

/* Breaks the lock, whoever holds it; skips the case where that cannot be. */
void dlt_break(const struct dlt_run *run, struct dlock_client *client, const struct dlt_name *name);
void dlt_break_owner(const struct dlt_run *run, struct dlock_client *client,
                     const struct dlt_name *name, const char *owner);

/* Waits for a loss event; 0 when none came within timeout_ms. */
int dlt_event_await(struct dlock_client *client, struct dlock_notice *event, int64_t timeout_ms);

#endif
