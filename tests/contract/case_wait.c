/* SPDX-License-Identifier: MIT */
/* Do waiters get what they wait for, when it is there, and can they be called off? */
#include "child.h"
#include "conformance.h"

#include <inttypes.h>

/* Rounds of unlock here, acquire there. poll_max is far longer than the answer may take, so that
 * looking now and then cannot be what wakes the waiter. */
static void hand_over(const struct dlt_run *run, struct dlock_client *from, struct dlock_client *to)
{
    struct dlock_handle *a = dlt_lock(run, from, "x", 60000), *b = dlt_lock(run, to, "x", 60000);
    struct dlt_best best = {0};

    for (int i = 0; i < 5; i++) {
        struct dlt_waiter waiter;
        int64_t start_ns = 0;

        DLT_OK(dlock_trylock(a, &dlt_err));
        dlt_waiter_start(&waiter, b, 30000);
        start_ns = dlt_now_ns();
        DLT_OK(dlock_unlock(a, &dlt_err));
        DLT_OK(dlt_waiter_join(&waiter));
        dlt_best_take(&best, start_ns, waiter.done_ns);
        DLT_BETWEEN(start_ns, waiter.done_ns, 5000, "the waiter polled");
        DLT_OK(dlock_unlock(b, &dlt_err));
    }
    DLT_BETWEEN(best.begin_ns, best.end_ns, run->slack_ms, "the waiter got it, at best");
    dlock_free(a);
    dlock_free(b);
}

void dlt_case_wait_ends_by_unlock(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, "poll_max=20s"),
                        *two = dlt_client(run, "poll_max=20s");

    hand_over(run, one, two);
    dlock_client_close(one);
    dlock_client_close(two);
}

/* In one client no store is needed to wake the next. */
void dlt_case_wait_ends_by_unlock_in_one_client(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "poll_max=20s");

    hand_over(run, client, client);
    dlock_client_close(client);
}

void dlt_case_wait_ends_by_unlock_elsewhere(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "poll_max=20s");
    struct dlock_handle *lock = dlt_lock(run, client, "x", 60000);
    struct dlt_child child;
    struct dlt_best best = {0};

    dlt_child_start(&child, run, NULL);
    dlt_child_want(&child, "OK", "new 0 %sx 60000 1", run->prefix);
    for (int i = 0; i < 5; i++) {
        struct dlt_waiter waiter;
        int64_t start_ns = 0;

        dlt_child_want(&child, "OK", "try 0");
        dlt_waiter_start(&waiter, lock, 30000);
        start_ns = dlt_now_ns();
        dlt_child_want(&child, "OK", "unlock 0");
        DLT_OK(dlt_waiter_join(&waiter));
        dlt_best_take(&best, start_ns, waiter.done_ns);
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    DLT_BETWEEN(best.begin_ns, best.end_ns, run->slack_ms, "the waiter got it, at best");
    dlt_child_stop(&child);
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_wait_ends_by_break(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, NULL), *two = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lease(run, one, "x", 60000);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_waiter waiter;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    dlt_waiter_start(&waiter, dlt_lock(run, two, "x", 0), 20000);
    dlt_break(run, one, &name);
    DLT_OK(dlt_waiter_join(&waiter));
    DLT_STATUS(dlock_unlock(holder, &dlt_err), DLOCK_LOST);
    dlock_free(waiter.lock);
    dlock_free(holder);
    dlock_client_close(one);
    dlock_client_close(two);
}

/* Waits for the end of a short lease of another client: the waiter has it 2000 ms after it at most.
 */
static void expiry_waited(const struct dlt_run *run, struct dlock_client *one,
                          struct dlock_client *two)
{
    struct dlock_handle *holder = dlt_lease(run, one, "x", 900);
    struct dlt_waiter waiter;
    int64_t ttl_ms = dlt_ttl(one, 900), earliest_ns = 0, end_ns = 0;

    earliest_ns = dlt_now_ns() + ttl_ms * DLT_NS_PER_MS;
    DLT_TAKE(holder);
    end_ns = dlt_now_ns() + ttl_ms * DLT_NS_PER_MS;
    dlt_waiter_start(&waiter, dlt_lock(run, two, "x", 0), 20000);
    DLT_OK(dlt_waiter_join(&waiter));
    /* The claim is shorter than the lease. */
    if (dlt_ends_with_claim(one))
        earliest_ns -= dlt_margin_ms(ttl_ms) * DLT_NS_PER_MS;
    DLT_CHECK(waiter.done_ns >= earliest_ns, "the waiter acquired %.1f ms before the lease ran out",
              (double)(earliest_ns - waiter.done_ns) / 1e6);
    dlock_free(waiter.lock);
    dlock_free(holder);
    DLT_BETWEEN(end_ns, waiter.done_ns, 2000, "the waiter acquired after the end of the lease");
}

/* Nobody tells the waiter that a lease ran out. */
void dlt_case_wait_ends_by_expiry(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, NULL), *two = dlt_client(run, NULL);

    expiry_waited(run, one, two);
    dlock_client_close(one);
    dlock_client_close(two);
}

/* A holder that is killed: not before the expiry that inspect shows, and soon after it; where its
 * session was the lock, soon after its death. Where the lease lives in the session of its client,
 * inspect cannot know the end: not before the lease that the child asked for, and not later than
 * the end of a session. */
void dlt_case_wait_for_the_dead(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_holder holder;
    struct dlt_child child;
    int64_t taken_ns = 0, before_ns = 0, after_ns = 0, now_ns = 0;
    int64_t late_ms = 1900 + run->slack_ms, ttl_ms = dlt_ttl(client, dlt_kept_ttl_ms(run));

    dlt_child_start(&child, run, NULL);
    dlt_child_want(&child, "OK", "new 0 %sx %" PRId64 " 1 ttl", run->prefix, ttl_ms);
    taken_ns = dlt_now_ns();
    dlt_child_want(&child, "OK", "try 0");
    dlt_sleep_ms(ttl_ms * 7 / 15); /* it has been renewed by now */
    dlt_child_kill(&child);
    before_ns = dlt_now_ns();
    holder = dlt_inspect(client, &name);
    after_ns = dlt_now_ns();
    if (dlt_session_lives(client)) /* the server may see the end of it before or after we look */
        holder.info.remaining_ms = 0;
    else
        DLT_CHECK(holder.count == 1, "the dead holder's lease is gone at once");
    if (dlt_is_tethered(client)) {
        holder.info.remaining_ms =
            ttl_ms - dlt_margin_ms(ttl_ms) - (before_ns - taken_ns) / DLT_NS_PER_MS;
        late_ms = dlt_death_ms(run, client, 0) - holder.info.remaining_ms + 1000 + run->slack_ms;
    }
    DLT_OK(dlock_timedlock(lock, 20000, &dlt_err));
    now_ns = dlt_now_ns();
    /* inspect rounds to milliseconds. */
    DLT_CHECK(now_ns - before_ns >= (holder.info.remaining_ms - 1) * DLT_NS_PER_MS,
              "taken before the %" PRId64 " ms that were left at the death were over",
              holder.info.remaining_ms);
    DLT_BETWEEN(after_ns, now_ns, holder.info.remaining_ms + late_ms,
                "taken after the death, with %" PRId64 " ms left", holder.info.remaining_ms);
    dlock_free(lock);
    dlock_client_close(client);
}

#define HERD 12

static void *herd_member(void *arg)
{
    struct dlock_handle *lock = arg;

    DLT_OK(dlock_timedlock(lock, 60000, &dlt_err));
    dlt_sleep_ms(2);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    return NULL;
}

void dlt_case_wait_leaves_nobody_behind(struct dlt_run *run)
{
    struct dlock_client *clients[3];
    struct dlock_handle *holder = NULL, *locks[HERD];
    pthread_t threads[HERD];

    for (int i = 0; i < 3; i++)
        clients[i] = dlt_client(run, NULL);
    holder = dlt_lock(run, clients[0], "x", 0);
    DLT_OK(dlock_trylock(holder, &dlt_err));
    for (int i = 0; i < HERD; i++) {
        locks[i] = dlt_lock(run, clients[i % 3], "x", 0);
        threads[i] = dlt_thread(herd_member, locks[i]);
    }
    dlt_sleep_ms(100);
    DLT_OK(dlock_unlock(holder, &dlt_err));
    for (int i = 0; i < HERD; i++) {
        (void)dlt_join(threads[i]);
        dlock_free(locks[i]);
    }
    dlock_free(holder);
    for (int i = 0; i < 3; i++)
        dlock_client_close(clients[i]);
}

void dlt_case_wait_can_be_cancelled(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client_patient(run), *two = dlt_client_patient(run);
    struct dlock_handle *holder = dlt_lock(run, one, "x", 0);
    struct dlock_handle *locks[2] = {dlt_lock(run, one, "x", 0), dlt_lock(run, two, "x", 0)};
    struct dlt_waiter waiter;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    for (int i = 0; i < 6; i++) {
        int64_t start_ns = 0;

        dlt_waiter_start(&waiter, locks[i % 2], DLOCK_FOREVER);
        start_ns = dlt_now_ns();
        dlock_cancel(locks[i % 2]);
        DLT_STATUS(dlt_waiter_join(&waiter), DLOCK_CANCELED);
        DLT_BETWEEN(start_ns, waiter.done_ns, DLT_PATIENT_MS, "dlock_cancel ended the wait");
    }
    dlock_cancel(holder);
    DLT_STATE(holder, DLOCK_STATE_HELD, "after dlock_cancel on a lock that is held");
    DLT_OK(dlock_unlock(holder, &dlt_err));
    dlock_cancel(locks[0]); /* nobody waits: the next one is told */
    DLT_STATUS(dlock_timedlock(locks[0], 10000, &dlt_err), DLOCK_CANCELED);
    dlock_cancel(locks[0]);
    dlock_cancel_reset(locks[0]);
    DLT_OK(dlock_timedlock(locks[0], 10000, &dlt_err));
    DLT_OK(dlock_unlock(locks[0], &dlt_err));
    dlock_free(holder);
    dlock_free(locks[0]);
    dlock_free(locks[1]);
    dlock_client_close(one);
    dlock_client_close(two);
}

/* 1: it was free. 0: not at once, but before long. */
static int free_at_once(struct dlock_handle *lock)
{
    enum dlock_status status = dlock_trylock(lock, &dlt_err);

    if (status != DLOCK_BUSY)
        DLT_STATUS(status, DLOCK_OK);
    else
        DLT_OK(dlock_timedlock(lock, 10000, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    return status == DLOCK_OK;
}

/* Who gave up leaves nothing behind that keeps others waiting, as a rule: on a busy machine a call
 * that is past its deadline has little time for it. */
void dlt_case_wait_given_up_leaves_no_trace(struct dlt_run *run)
{
    struct dlock_client *one = dlt_client(run, NULL), *two = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, one, "x", 0), *lock = dlt_lock(run, two, "x", 4000);
    struct dlock_handle *third = dlt_lock(run, one, "x", 4000);
    int traces = 0, none = 0, traces_most = 4 + (int)(run->slack_ms / 100);

    while (none < 5) {
        DLT_OK(dlock_trylock(holder, &dlt_err));
        DLT_CHECK(dlt_ran_out(dlock_timedlock(lock, 250, &dlt_err)),
                  "a waiter acquired a lock that is held");
        DLT_CHECK(dlt_ran_out(dlock_timedlock(third, 150, &dlt_err)),
                  "a waiter acquired a lock that is held");
        DLT_OK(dlock_unlock(holder, &dlt_err));
        if (free_at_once(third))
            none++;
        else
            traces++;
        if (free_at_once(lock))
            none++;
        else
            traces++;
        DLT_CHECK(traces < traces_most,
                  "%d times of %d the name was not free at once after waiters timed out", traces,
                  traces + none);
    }
    dlock_free(holder);
    dlock_free(lock);
    dlock_free(third);
    dlock_client_close(one);
    dlock_client_close(two);
}
