/* SPDX-License-Identifier: MIT */
/* Waiters who die, stop or give up delay the others by what is promised, and no more. */
#include "child.h"
#include "conformance.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>

#define NEVER_MS 30000
#define SOON_MS  6000

/* The lease of a waiter that dies: waiters that live keep theirs on a slow machine, too. */
static int64_t brief_ms(const struct dlt_run *run)
{
    return 2000 + 5 * run->slack_ms;
}

/* What a waiter who is gone may cost the others: his place, or the lease that was granted to it,
 * and one look of the next one. Where both live in the session of his client: as long as that. */
static int64_t delay_most(const struct dlt_run *run, struct dlock_client *client,
                          const struct dlt_text *lease, int64_t lease_ms)
{
    int64_t place_ms = dlt_waiter_lease_ms(lease, lease_ms);

    return dlt_death_ms(run, client, place_ms * 4 / 3) + 2000 + run->slack_ms;
}

#define LINE    20
#define HEAD    0
#define MIDDLE  9
#define GRANTEE 14 /* dies when it is granted the lock */

static void line_start(struct dlt_child *parties, const struct dlt_run *run,
                       const struct dlt_text *lease, struct dlock_client *client)
{
    struct dlt_name name = dlt_name(run, "x");

    for (int i = 0; i < LINE; i++) {
        dlt_child_start(&parties[i], run, lease->text);
        dlt_child_want(&parties[i], "OK", "new 0 %sx 30000 1", run->prefix);
        dlt_child_want(&parties[i], "OK", "wait 0 x 60000 %d", i == GRANTEE - 1 ? -1 : 0);
        dlt_waiters_await(client, &name, (uint32_t)i + 1, (uint32_t)i + 1);
    }
}

/* Stops it, but not in the middle of a change to the store, which might be all the others' stop. */
static void halt_outside(const struct dlt_child *child, const struct dlt_run *run,
                         struct dlock_client *client)
{
    struct dlock_handle *probe = dlt_lock(run, client, "probe", 0);

    dlt_child_signal(child, SIGSTOP);
    for (int i = 0; dlock_trylock(probe, &dlt_err) != DLOCK_OK; i++) {
        DLT_CHECK(i < 5, "5 calls in a row got no answer from the store: %s", dlt_err.message);
        dlt_child_signal(child, SIGCONT);
        dlt_sleep_ms(5);
        dlt_child_signal(child, SIGSTOP);
    }
    dlock_free(probe);
}

/* Stopped, so that the grant finds it unable to take it; then killed. */
static int64_t grantee_kill(struct dlt_child *parties, const struct dlt_run *run,
                            struct dlock_client *client, const struct dlt_name *name)
{
    int64_t granted_ns = 0;

    halt_outside(&parties[GRANTEE], run, client);
    granted_ns = dlt_now_ns();
    dlt_child_want(&parties[GRANTEE - 1], "OK", "unlock 0");
    dlt_waiters_await(client, name, LINE - GRANTEE - 1, LINE - GRANTEE - 1);
    dlt_child_kill(&parties[GRANTEE]);
    return granted_ns;
}

void dlt_case_queue_with_the_dead(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, brief_ms(run));
    struct dlock_client *client = dlt_client(run, NULL);
    int64_t most = delay_most(run, client, &lease, brief_ms(run));
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_child parties[LINE];
    int64_t unlocked_ns = 0, granted_ns = 0, before_ns = 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    line_start(parties, run, &lease, client);
    dlt_child_kill(&parties[HEAD]);
    dlt_child_kill(&parties[MIDDLE]);
    unlocked_ns = before_ns = dlt_now_ns();
    DLT_OK(dlock_unlock(lock, &dlt_err));
    for (int i = 0; i < LINE; i++) {
        struct dlt_waited waited;

        if (i == HEAD || i == MIDDLE || i == GRANTEE)
            continue;
        waited = dlt_child_waited(&parties[i], "OK");
        if (i == GRANTEE - 1)
            before_ns = granted_ns = grantee_kill(parties, run, client, &name);
        DLT_BETWEEN(i > GRANTEE ? granted_ns : unlocked_ns, waited.done_ns,
                    most * (i > MIDDLE && i < GRANTEE ? 2 : 1) + i * run->slack_ms,
                    "waiter %d got it", i);
    }
    for (int i = 0; i < LINE; i++) {
        if (i != HEAD && i != MIDDLE && i != GRANTEE)
            dlt_child_stop(&parties[i]);
    }
    dlock_free(lock);
    dlock_client_close(client);
}

/* The head stands still when it is its turn, and later goes on: it has a turn like any other. */
void dlt_case_queue_with_the_stopped(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, brief_ms(run));
    struct dlock_client *client = dlt_client(run, NULL);
    int64_t most = delay_most(run, client, &lease, brief_ms(run));
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_child parties[2];
    struct dlt_waited first, second;
    int64_t unlocked_ns = 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    for (uint32_t i = 0; i < 2; i++) {
        dlt_child_start(&parties[i], run, lease.text);
        dlt_child_want(&parties[i], "OK", "new 0 %sx 30000 1", run->prefix);
        dlt_child_want(&parties[i], "OK", "wait 0 x 60000 -1");
        dlt_waiters_await(client, &name, i + 1, i + 1);
    }
    halt_outside(&parties[0], run, client);
    unlocked_ns = dlt_now_ns();
    DLT_OK(dlock_unlock(lock, &dlt_err));
    second = dlt_child_waited(&parties[1], "OK");
    DLT_BETWEEN(unlocked_ns, second.done_ns, most, "the second got it too late");
    dlt_child_signal(&parties[0], SIGCONT);
    dlt_sleep_ms(200);
    dlt_child_want(&parties[1], "HELD", "state 0");
    unlocked_ns = dlt_now_ns();
    dlt_child_want(&parties[1], "OK", "unlock 0");
    first = dlt_child_waited(&parties[0], "OK");
    DLT_CHECK(first.done_ns > unlocked_ns,
              "the stopped waiter and the next one held the lock at once");
    DLT_CHECK(first.fence == 0 || first.fence > second.fence,
              "fence %" PRIu64 " came after %" PRIu64, first.fence, second.fence);
    dlt_child_want(&parties[0], "HELD", "state 0");
    dlt_child_stop(&parties[0]);
    dlt_child_stop(&parties[1]);
    dlock_free(lock);
    dlock_client_close(client);
}

/* A holder, and waiters with a client each. */
struct bench {
    const struct dlt_run *run;
    struct dlt_name name;
    struct dlock_client *client, *clients[4];
    struct dlock_handle *holder, *locks[4];
    struct dlt_waiter waiters[4];
};

static void bench_open(struct bench *bench, const struct dlt_run *run, int64_t lease_ms)
{
    struct dlt_text lease = dlt_waiter_lease(run, lease_ms);

    bench->run = run;
    bench->name = dlt_name(run, "x");
    bench->client = dlt_client(run, NULL);
    bench->holder = dlt_lock(run, bench->client, "x", 0);
    for (int i = 0; i < 4; i++) {
        bench->clients[i] = dlt_client(run, lease.text);
        bench->locks[i] = dlt_lock(run, bench->clients[i], "x", 0);
    }
}

static void bench_close(struct bench *bench)
{
    for (int i = 0; i < 4; i++) {
        dlock_free(bench->locks[i]);
        dlock_client_close(bench->clients[i]);
    }
    dlock_free(bench->holder);
    dlock_client_close(bench->client);
}

static void bench_fill(struct bench *bench, int count)
{
    DLT_OK(dlock_timedlock(bench->holder, 10000, &dlt_err));
    for (int i = 0; i < count; i++) {
        dlt_waiter_enter(&bench->waiters[i], bench->locks[i], DLOCK_EXCLUSIVE, 20000, 0);
        dlt_waiters_await(bench->client, &bench->name, (uint32_t)i + 1, (uint32_t)i + 1);
    }
}

void dlt_case_queue_with_the_cancelled(struct dlt_run *run)
{
    struct bench bench;

    bench_open(&bench, run, NEVER_MS);
    bench_fill(&bench, 4);
    dlock_cancel(bench.locks[0]);
    dlock_cancel(bench.locks[2]);
    DLT_STATUS(dlt_waiter_join(&bench.waiters[0]), DLOCK_CANCELED);
    DLT_STATUS(dlt_waiter_join(&bench.waiters[2]), DLOCK_CANCELED);
    dlt_waiters_await(bench.client, &bench.name, 2, 2);
    DLT_OK(dlock_unlock(bench.holder, &dlt_err));
    DLT_OK(dlt_waiter_join_within(&bench.waiters[1], SOON_MS));
    DLT_OK(dlt_waiter_join_within(&bench.waiters[3], SOON_MS));
    DLT_CHECK(bench.waiters[3].done_ns > bench.waiters[1].done_ns,
              "the last waiter acquired before an earlier one");
    bench_close(&bench);
}

#define ROUNDS 40

/* Who is not woken looks after a third of NEVER_MS. */
static int64_t slow_ms(const struct dlt_run *run)
{
    return 200 + 4 * run->slack_ms;
}

/* The grant and the end of the wait, as close together as can be, in either order. */
static void grant_and_cancel(struct bench *bench, int round)
{
    bench_fill(bench, 2);
    if (round % 2 == 0)
        dlock_cancel(bench->locks[0]);
    if (round % 4 > 1)
        dlt_sleep_until(dlt_now_ns() + round % 8 * INT64_C(10000));
    DLT_OK(dlock_unlock(bench->holder, &dlt_err));
    if (round % 2 != 0)
        dlock_cancel(bench->locks[0]);
}

/* Did it take long until the next one had it? A machine that stands still once may add to most_ms.
 */
static int next_is_slow(struct bench *bench, int round, enum dlock_status status, int64_t start_ns,
                        int64_t most_ms)
{
    (void)printf("# round %d: %s\n", round, dlock_status_name((int)status));
    DLT_OK(dlt_waiter_join_within(&bench->waiters[1], 3 * most_ms));
    return bench->waiters[1].done_ns - start_ns > slow_ms(bench->run) * DLT_NS_PER_MS;
}

void dlt_case_queue_cancelled_at_the_grant(struct dlt_run *run)
{
    struct bench bench;
    int slow = 0;

    bench_open(&bench, run, NEVER_MS);
    for (int i = 0; i < ROUNDS; i++) {
        enum dlock_status status = DLOCK_INTERNAL;
        int64_t start_ns = 0;

        grant_and_cancel(&bench, i);
        start_ns = dlt_now_ns();
        status = dlt_waiter_join(&bench.waiters[0]);
        DLT_CHECK(status == DLOCK_OK || status == DLOCK_CANCELED,
                  "round %d: the call is %s, want OK or what was asked for", i,
                  dlock_status_name((int)status));
        slow += next_is_slow(&bench, i, status, start_ns, SOON_MS);
        dlock_cancel_reset(bench.locks[0]); /* it may have come when the wait was over */
    }
    DLT_CHECK(slow < ROUNDS / 10, "in %d of %d rounds the next waiter was not woken", slow, ROUNDS);
    bench_close(&bench);
}

#define TIMED_ROUNDS 15

/* Long enough for this machine to enter the queue, and to leave it. */
static int64_t short_wait_ms(struct bench *bench)
{
    int64_t start_ns = dlt_now_ns();

    for (int i = 0; i < 4; i++) {
        DLT_OK(dlock_timedlock(bench->holder, 10000, &dlt_err));
        DLT_OK(dlock_unlock(bench->holder, &dlt_err));
    }
    return 40 + (int64_t)dlt_ms_since(start_ns) * 2;
}

static void grant_and_timeout(struct bench *bench, int round, int64_t timeout_ms)
{
    int64_t deadline_ns = 0;

    DLT_OK(dlock_timedlock(bench->holder, 10000, &dlt_err));
    deadline_ns = dlt_now_ns() + timeout_ms * DLT_NS_PER_MS;
    dlt_waiter_enter(&bench->waiters[0], bench->locks[0], DLOCK_EXCLUSIVE, timeout_ms, 0);
    dlt_sleep_ms(5);
    dlt_waiter_enter(&bench->waiters[1], bench->locks[1], DLOCK_EXCLUSIVE, 20000, 0);
    dlt_sleep_until(deadline_ns - 300000 + round % 16 * INT64_C(60000));
    DLT_OK(dlock_unlock(bench->holder, &dlt_err));
}

/* Past its deadline a call has little time for giving up its place; what it could not give up ends
 * with the waiter's lease. */
void dlt_case_queue_timed_out_at_the_grant(struct dlt_run *run)
{
    const int64_t lease_ms = 2000;
    struct dlt_text lease = dlt_waiter_lease(run, lease_ms);
    struct bench bench;
    int64_t timeout_ms = 0;
    int64_t most_ms = 0;
    int slow = 0;

    bench_open(&bench, run, lease_ms);
    most_ms = delay_most(run, bench.client, &lease, lease_ms);
    timeout_ms = short_wait_ms(&bench);
    for (int i = 0; i < TIMED_ROUNDS; i++) {
        enum dlock_status status = DLOCK_INTERNAL;
        int64_t start_ns = 0;

        grant_and_timeout(&bench, i, timeout_ms);
        start_ns = dlt_now_ns();
        status = dlt_waiter_join(&bench.waiters[0]);
        DLT_CHECK(status == DLOCK_OK || dlt_ran_out(status),
                  "round %d: the call is %s, want OK or what was asked for", i,
                  dlock_status_name((int)status));
        slow += next_is_slow(&bench, i, status, start_ns, most_ms);
    }
    DLT_CHECK(slow < TIMED_ROUNDS / 2, "in %d of %d rounds the next waiter was not woken", slow,
              TIMED_ROUNDS);
    bench_close(&bench);
}

#define FIFTY 50

/* A holder that dies when it is told to: a process, or, where there is one only, a handle that is
 * not renewed any more. */
struct mortal {
    struct dlock_client *client;
    struct dlock_handle *lock;
    struct dlt_child child;
};

static void mortal_start(struct mortal *mortal, const struct dlt_run *run)
{
    *mortal = (struct mortal){0};
    if (run->is_private) {
        mortal->client = dlt_client(run, NULL);
        mortal->lock = dlt_lease(run, mortal->client, "x", dlt_kept_ttl_ms(run));
        DLT_TAKE(mortal->lock);
        return;
    }
    dlt_child_start(&mortal->child, run, NULL);
    dlt_child_want(&mortal->child, "OK", "new 0 %sx %" PRId64 " 1", run->prefix,
                   dlt_kept_ttl_ms(run));
    dlt_child_want(&mortal->child, "OK", "lock 0 15000");
}

static void mortal_tend(struct mortal *mortal)
{
    if (mortal->lock != NULL)
        DLT_OK(dlock_renew(mortal->lock, 0, &dlt_err));
}

static void mortal_kill(struct mortal *mortal)
{
    if (mortal->lock == NULL)
        dlt_child_kill(&mortal->child);
}

static void mortal_bury(struct mortal *mortal)
{
    dlock_free(mortal->lock);
    dlock_client_close(mortal->client);
}

void dlt_case_queue_of_fifty_behind_the_dead(struct dlt_run *run)
{
    static struct dlt_waiter waiters[FIFTY];
    struct dlt_text lease = dlt_waiter_lease(run, NEVER_MS);
    struct dlock_client *watcher = dlt_client(run, NULL), *clients[FIFTY];
    struct dlt_name name = dlt_name(run, "x");
    struct mortal mortal;
    int64_t dead_ns = 0, ttl_ms = dlt_ttl(watcher, dlt_kept_ttl_ms(run));
    int64_t most_ms = dlt_death_ms(run, watcher, ttl_ms) + SOON_MS;

    mortal_start(&mortal, run);
    for (uint32_t i = 0; i < FIFTY; i++) {
        clients[i] = dlt_client(run, lease.text);
        dlt_waiter_enter(&waiters[i], dlt_lock(run, clients[i], "x", 0), DLOCK_EXCLUSIVE, 60000, 0);
        dlt_waiters_await(watcher, &name, i + 1, i + 1);
        mortal_tend(&mortal);
    }
    mortal_kill(&mortal);
    dead_ns = dlt_now_ns();
    for (int i = 0; i < FIFTY; i++) {
        DLT_OK(dlt_waiter_join(&waiters[i]));
        DLT_CHECK(i == 0 || waiters[i].done_ns > waiters[i - 1].done_ns,
                  "waiter %d got it before waiter %d", i, i - 1);
        DLT_BETWEEN(dead_ns, waiters[i].done_ns, most_ms + i * run->slack_ms,
                    "waiter %d got it after the death", i);
        dlock_free(waiters[i].lock);
        dlock_client_close(clients[i]);
    }
    mortal_bury(&mortal);
    dlock_client_close(watcher);
}
