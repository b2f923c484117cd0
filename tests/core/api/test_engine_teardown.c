/* SPDX-License-Identifier: MIT */
/* Tests: core/api/client.c core/api/handle.c core/hold/handle.c */
/* What is left when handles and clients go while others use them? Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

#define VALID_MS 27000

static struct dlt_engine engine;

static struct dlock_handle *take(const char *name)
{
    struct dlock_handle *lock = dlt_engine_lock(&engine, name, NULL);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    return lock;
}

static void close_client(int64_t most_ms)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, most_ms), DLOCK_OK);
}

static void expect_closed(struct dlock_handle *lock)
{
    cr_assert_eq(dlock_lock(lock, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_trylock(lock, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_timedlock(lock, 5, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_tryrdlock(lock, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_rdlock(lock, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_timedrdlock(lock, 5, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_unlock(lock, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_renew(lock, 0, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlock_remaining_ms(lock), 0);
    dlock_cancel(lock);
}

Test(teardown, close_unlocks_what_is_held_and_leaves_handles_closed)
{
    struct dlock_handle *locks[10], *fresh;
    unsigned unlocks;

    dlt_engine_open(&engine, "teardown", NULL);
    for (int i = 0; i < 10; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = take(name);
    }
    fresh = dlt_engine_lock(&engine, "fresh", NULL);
    close_client(10);
    unlocks = memory_hooks_calls("teardown", MEMORY_UNLOCK);
    cr_assert_eq(unlocks, 10);
    cr_assert_eq(memory_hooks_calls("teardown", MEMORY_CLOSE), 1);
    for (int i = 0; i < 10; i++) {
        expect_closed(locks[i]);
        dlock_free(locks[i]);
    }
    expect_closed(fresh);
    dlock_free(fresh);
    cr_assert_eq(memory_hooks_calls("teardown", MEMORY_UNLOCK), unlocks);
}

Test(teardown, C8_close_gives_each_release_its_op_timeout)
{
    struct dlock_handle *a, *b;

    dlt_engine_open(&engine, "teardown", NULL);
    a = take("a");
    b = take("b");
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LATE_REPLY, (struct memory_fault){.times = 2});
    close_client(4100);
    cr_assert_eq(memory_hooks_calls("teardown", MEMORY_UNLOCK), 2);
    dlock_free(a);
    dlock_free(b);
}

/* A store that says nothing: each further lock gets little time, and the leases end by themselves.
 */
Test(teardown, C8_close_is_bounded_as_a_whole)
{
    struct dlock_handle *locks[20];

    dlt_engine_open(&engine, "teardown", NULL);
    for (int i = 0; i < 20; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = take(name);
    }
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = 2000});
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = 200, .times = 1000});
    close_client(5100);
    cr_assert_leq(memory_hooks_calls("teardown", MEMORY_UNLOCK), 1 + 3000 / 200);
    cr_assert(dlt_engine_logged(&engine, "20 held locks were not unlocked"), "%s", engine.log);
    for (int i = 0; i < 20; i++)
        dlock_free(locks[i]);
}

/* A row that another transaction has locked, or one shard of many: the other names are released. */
Test(teardown, C8_close_goes_on_after_a_name_that_cannot_be_reached)
{
    static const enum dlock_status errors[] = {DLOCK_UNAVAILABLE, DLOCK_UNKNOWN, DLOCK_NO_QUORUM};
    static const char *const names[][3] = {{"a", "b", "c"}, {"d", "e", "f"}, {"g", "h", "i"}};

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct dlock_handle *locks[3];
        unsigned before = 0;

        dlt_engine_open(&engine, "teardown", NULL);
        for (int at = 0; at < 3; at++)
            locks[at] = take(names[i][at]);
        before = memory_hooks_calls("teardown", MEMORY_UNLOCK);
        dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
                  (struct memory_fault){.status = errors[i], .ms = 600, .times = 4});
        close_client(2700);
        cr_assert_eq(memory_hooks_calls("teardown", MEMORY_UNLOCK) - before, 4 + 2);
        cr_assert(dlt_engine_logged(&engine, "1 held locks were not unlocked"), "%s", engine.log);
        for (int at = 0; at < 3; at++)
            dlock_free(locks[at]);
    }
}

/* An error is an answer: it says nothing of the other locks. */
Test(teardown, close_goes_on_after_an_error_of_one_lock)
{
    static const enum dlock_status errors[] = {DLOCK_PROTOCOL, DLOCK_INTERNAL};
    static const char *const names[][3] = {{"a", "b", "c"}, {"d", "e", "f"}};

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct dlock_handle *locks[3];

        dlt_engine_open(&engine, "teardown", NULL);
        for (int at = 0; at < 3; at++)
            locks[at] = take(names[i][at]);
        dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
                  (struct memory_fault){.status = errors[i], .times = 1});
        close_client(10);
        cr_assert_eq(memory_hooks_calls("teardown", MEMORY_UNLOCK), 3 * (i + 1));
        cr_assert(dlt_engine_logged(&engine, "1 held locks were not unlocked"), "%s", engine.log);
        for (int at = 0; at < 3; at++)
            dlock_free(locks[at]);
    }
}

/* Renewals that hang one after the other hold it up no longer than one of them. */
Test(teardown, C8_close_waits_for_one_renewal_at_most)
{
    static struct dlock_handle *locks[1000];

    dlt_engine_open(&engine, "teardown", NULL);
    for (int i = 0; i < 1000; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = take(name);
    }
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = 2000, .times = 1000});
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = 2000, .times = 1000});
    dlt_engine_advance(&engine, 10000);
    close_client(7000);
    for (int i = 0; i < 1000; i++)
        dlock_free(locks[i]);
}

Test(teardown, close_acknowledges_losses)
{
    struct dlock_handle *lock;

    dlt_engine_open(&engine, "teardown", NULL);
    lock = take("a");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){.times = 1000});
    dlt_engine_advance(&engine, VALID_MS);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    close_client(10);
    cr_assert_eq(memory_hooks_calls("teardown", MEMORY_FORGET), 1);
    cr_assert_eq(memory_hooks_calls("teardown", MEMORY_UNLOCK), 0);
    expect_closed(lock);
    dlock_free(lock);
}

Test(teardown, shutdown_ends_waits_and_leaves_held_locks_held)
{
    struct dlock_handle *held, *waiting, *fresh;
    struct dlt_call wait;
    struct dlock_error err = DLOCK_ERROR_INIT;

    dlt_engine_open(&engine, "teardown", NULL);
    held = take("a");
    waiting = dlt_engine_lock(&engine, "a", NULL);
    dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
    dlock_client_shutdown(engine.client);
    cr_assert_eq(dlt_call_finish(&wait, 10), DLOCK_CLOSED);
    cr_assert_eq(wait.err.status, DLOCK_CLOSED);
    cr_assert_eq(dlock_trylock(waiting, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_new(engine.client, "b", 1, NULL, &fresh, NULL), DLOCK_CLOSED);
    cr_assert_eq(dlock_client_break(engine.client, "b", 1, NULL, &err), DLOCK_CLOSED);
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_assert_eq(dlock_renew(held, 0, NULL), DLOCK_OK);
    cr_assert_eq(dlock_state(held), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, held, 0), DLOCK_OK);
    dlock_free(held);
    dlock_free(waiting);
    close_client(10);
}

Test(teardown, close_waits_for_calls_in_progress)
{
    struct dlock_handle *acquiring, *releasing, *renewing;
    struct dlt_call acquire, release, renew, closing;

    dlt_engine_open(&engine, "teardown", NULL);
    releasing = take("b");
    renewing = take("c");
    acquiring = dlt_engine_lock(&engine, "a", NULL);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_call_start(&acquire, &engine, DLT_TRYLOCK, acquiring, 0);
    dlt_call_start(&release, &engine, DLT_UNLOCK, releasing, 0);
    dlt_call_start(&renew, &engine, DLT_RENEW, renewing, 0);
    dlt_call_start(&closing, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(closing.done, 0);
    cr_assert_eq(memory_hooks_held("teardown"), 3);
    memory_hooks_go("teardown");
    cr_assert_eq(dlt_call_finish(&closing, 100), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&acquire, 0), DLOCK_OK, "it was granted before it was cut");
    cr_assert_eq(dlt_call_finish(&release, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&renew, 0), DLOCK_OK);
    cr_assert_eq(memory_hooks_calls("teardown", MEMORY_UNLOCK), 3);
    dlock_free(acquiring);
    dlock_free(releasing);
    dlock_free(renewing);
}

Test(teardown, free_cancels_the_wait_and_waits_for_it)
{
    struct dlock_handle *held, *waiting;
    struct dlock_client *rival;
    struct dlt_call wait, freeing;

    dlt_engine_open(&engine, "teardown", NULL);
    rival = dlt_engine_rival(&engine);
    held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    waiting = dlt_engine_lock(&engine, "a", NULL);
    dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
    dlt_call_start(&freeing, &engine, DLT_FREE, waiting, 0);
    cr_assert_eq(dlt_call_finish(&freeing, 10), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 0), DLOCK_CANCELED);
    cr_assert_eq(dlt_calls(&engine, MEMORY_INTERRUPT), 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
    dlock_free(held);
    dlock_client_close(rival);
    close_client(10);
}

/* A renewal in the store, a release queued behind it, and the handle goes. */
Test(teardown, free_waits_for_calls_that_queue)
{
    struct dlock_handle *lock;
    struct dlt_call renew, unlock, freeing;

    dlt_engine_open(&engine, "teardown", NULL);
    lock = take("a");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    dlt_call_start(&freeing, &engine, DLT_FREE, lock, 0);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(freeing.done, 0);
    memory_hooks_go("teardown");
    cr_assert_eq(dlt_call_finish(&freeing, 10), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&renew, 0), DLOCK_OK);
    cr_assert(dlt_call_finish(&unlock, 0) == DLOCK_OK || unlock.status == DLOCK_NOT_HELD);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    close_client(10);
}

Test(teardown, cancel_ends_a_wait_and_nothing_else)
{
    struct dlock_handle *held, *waiting;
    struct dlt_call wait;

    dlt_engine_open(&engine, "teardown", NULL);
    held = take("a");
    dlock_cancel(held);
    cr_assert_eq(dlock_state(held), DLOCK_STATE_HELD);
    dlock_cancel_reset(held);
    waiting = dlt_engine_lock(&engine, "a", NULL);
    dlock_cancel(waiting); /* nobody waits: the next one is told */
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, waiting, 0), DLOCK_CANCELED);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1, "and nothing is asked");
    dlock_cancel(waiting);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, waiting, 0), DLOCK_CANCELED);
    dlock_cancel(waiting);
    dlock_cancel_reset(waiting);
    for (int i = 0; i < 3; i++) {
        dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
        cr_assert_eq(wait.done, 0);
        dlock_cancel(waiting);
        dlock_cancel(waiting);
        cr_assert_eq(dlt_call_finish(&wait, 0), DLOCK_CANCELED);
        cr_assert_eq(wait.err.status, DLOCK_CANCELED);
        dlock_cancel_reset(waiting); /* the second came when it was over, or not */
    }
    dlt_call_start(&wait, &engine, DLT_LOCK, waiting, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, held, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 10), DLOCK_OK);
    dlock_free(held);
    dlock_free(waiting);
    close_client(10);
}

/* ---- from inside a loss callback ---- */

static struct dlock_handle *other, *waiter;
static enum dlock_status told_unlock, told_other;
static enum dlock_state told_state;
static int64_t told_remaining;
static uint64_t told_fence;

static void do_what_is_allowed(struct dlt_engine *e, const struct dlock_notice *event)
{
    (void)e;
    told_state = dlock_state(event->lock);
    told_remaining = dlock_remaining_ms(event->lock);
    told_fence = dlock_fence(event->lock);
    dlock_cancel(waiter);
    told_unlock = dlock_unlock(event->lock, NULL);
    told_other = dlock_unlock(other, NULL);
}

Test(teardown, a_loss_callback_may_look_cancel_and_unlock)
{
    struct dlock_handle *lock, *blocker;
    struct dlt_call wait;

    dlt_engine_open(&engine, "teardown",
                    &(struct dlt_setup){.callback = 1, .own = do_what_is_allowed});
    lock = take("a");
    other = take("b");
    blocker = take("c");
    waiter = dlt_engine_lock(&engine, "c", NULL);
    dlt_call_start(&wait, &engine, DLT_LOCK, waiter, 0);
    cr_assert_eq(dlock_client_break(engine.client, "a", 1, NULL, NULL), DLOCK_OK);
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(told_state, DLOCK_STATE_LOST);
    cr_assert_eq(told_remaining, 0);
    cr_assert_neq(told_fence, 0);
    cr_assert_eq(told_unlock, DLOCK_LOST);
    cr_assert_eq(told_other, DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 10), DLOCK_CANCELED);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlock_free(lock);
    dlock_free(other);
    dlock_free(blocker);
    dlock_free(waiter);
    close_client(10);
}

static void do_what_is_refused(struct dlt_engine *e, const struct dlock_notice *event)
{
    dlock_free(event->lock);
    dlock_free(other);
    dlock_client_close(e->client);
}

Test(teardown, a_loss_callback_may_not_free_or_close)
{
    struct dlock_handle *lock;

    dlt_engine_open(&engine, "teardown",
                    &(struct dlt_setup){.callback = 1, .own = do_what_is_refused});
    lock = take("a");
    other = take("b");
    cr_assert_eq(dlock_client_break(engine.client, "a", 1, NULL, NULL), DLOCK_OK);
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert(dlt_engine_logged(&engine, "dlock_free in a loss callback"));
    cr_assert(dlt_engine_logged(&engine, "dlock_client_close in a loss callback"));
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    cr_assert_eq(dlock_state(other), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    dlock_free(lock);
    dlock_free(other);
    close_client(10);
}

static void hold_up(struct dlt_engine *e, const struct dlock_notice *event)
{
    (void)event;
    dlt_engine_sleep_until(e, e->now_ns + 5000 * DLT_MS);
}

Test(teardown, free_and_close_wait_for_the_callback_of_the_handle)
{
    struct dlock_handle *lock;
    struct dlt_call freeing;

    dlt_engine_open(&engine, "teardown", &(struct dlt_setup){.callback = 1, .own = hold_up});
    lock = take("a");
    cr_assert_eq(dlock_client_break(engine.client, "a", 1, NULL, NULL), DLOCK_OK);
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST, "others need not wait");
    dlt_call_start(&freeing, &engine, DLT_FREE, lock, 0);
    dlt_engine_advance(&engine, 4999);
    cr_assert_eq(freeing.done, 0);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlt_call_finish(&freeing, 0), DLOCK_OK);
    close_client(10);
}
