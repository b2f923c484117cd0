/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/local_waiter.c core/acquire/acquire.c */
/* Do threads and clients that wait get the lock in their order, and at what cost? Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>

static struct dlt_engine engine;
static struct dlock_client *rival;

static void set_up(void)
{
    dlt_engine_open(&engine, "queue", NULL);
    rival = dlt_engine_rival(&engine);
}

static void tear_down(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    dlock_client_close(rival);
}

TestSuite(queue, .init = set_up, .fini = tear_down);

enum { WAITERS = 4 };

struct line {
    struct dlock_handle *locks[WAITERS];
    struct dlt_call calls[WAITERS];
};

/* Threads that wait for "a", one after the other. kinds: 'w', 'r'. */
static void line_up(struct line *line, const char *kinds)
{
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        line->locks[i] = dlt_engine_lock(&engine, "a", NULL);
        dlt_call_start(&line->calls[i], &engine, kinds[i] == 'r' ? DLT_RDLOCK : DLT_LOCK,
                       line->locks[i], 0);
    }
}

static void got_it(struct line *line, size_t i)
{
    cr_assert_eq(dlt_call_finish(&line->calls[i], 2000), DLOCK_OK, "waiter %zu", i);
}

static void give(struct dlock_handle *lock)
{
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
}

static void free_line(struct line *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)dlt_do(&engine, DLT_FREE, line->locks[i], 0);
}

Test(queue, C13_threads_of_one_client_get_it_in_their_order)
{
    struct dlock_handle *held = dlt_engine_lock(&engine, "a", NULL);
    struct line line;

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, held, 0), DLOCK_OK);
    line_up(&line, "www");
    give(held);
    for (size_t i = 0; i < 3; i++) {
        got_it(&line, i);
        for (size_t later = i + 1; later < 3; later++)
            cr_assert_eq(line.calls[later].done, 0, "%zu before %zu", later, i);
        give(line.locks[i]);
    }
    free_line(&line, 3);
    dlock_free(held);
}

Test(queue, only_the_head_of_the_line_talks_to_the_store)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct line line;

    line_up(&line, "wwww");
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 2, "the rival's and the head's");
    dlock_free(held);
    got_it(&line, 0);
    free_line(&line, 4);
}

Test(queue, trylock_does_not_pass_those_who_wait_and_asks_nobody)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *hasty = dlt_engine_lock(&engine, "a", NULL);
    struct line line;
    unsigned before;

    line_up(&line, "w");
    before = dlt_calls(&engine, MEMORY_TRYLOCK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, hasty, 0), DLOCK_BUSY);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), before);
    cr_assert_eq(dlock_state(hasty), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, hasty, 0), DLOCK_BUSY, "not ALREADY");
    free_line(&line, 1);
    dlock_free(hasty);
    dlock_free(held);
}

Test(queue, a_cancel_that_came_first_is_told_to_one_attempt_behind_others)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *hasty = dlt_engine_lock(&engine, "a", NULL);
    struct line line;

    line_up(&line, "w");
    dlock_cancel(hasty);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, hasty, 0), DLOCK_CANCELED);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, hasty, 0), DLOCK_BUSY, "it is told once");
    free_line(&line, 1);
    dlock_free(hasty);
    dlock_free(held);
}

Test(queue, C8_timedlock_behind_others_ends_at_its_deadline)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *timed = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call call;
    struct line line;

    line_up(&line, "w");
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, timed, 250);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_TIMEOUT);
    cr_assert_eq(call.err.status, DLOCK_TIMEOUT);
    cr_assert_geq(dlt_call_ms(&call), 250);
    cr_assert_leq(dlt_call_ms(&call), 350);
    free_line(&line, 1);
    dlock_free(timed);
    dlock_free(held);
}

Test(queue, cancel_free_and_shutdown_end_a_wait_in_line)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct line line;
    struct dlt_call freeing;

    line_up(&line, "wwww");
    dlock_cancel(line.locks[2]);
    cr_assert_eq(dlt_call_finish(&line.calls[2], 0), DLOCK_CANCELED);
    dlt_call_start(&freeing, &engine, DLT_FREE, line.locks[1], 0);
    cr_assert_eq(dlt_call_finish(&freeing, 10), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&line.calls[1], 0), DLOCK_CANCELED);
    dlock_client_shutdown(engine.client);
    cr_assert_eq(dlt_call_finish(&line.calls[0], 100), DLOCK_CLOSED);
    cr_assert_eq(dlt_call_finish(&line.calls[3], 100), DLOCK_CLOSED);
    cr_assert_eq(line.calls[3].err.status, DLOCK_CLOSED);
    dlock_free(line.locks[0]);
    dlock_free(line.locks[2]);
    dlock_free(line.locks[3]);
    dlock_free(held);
}

Test(queue, readers_at_the_head_pass_together_and_not_past_a_writer)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct line line;

    line_up(&line, "rrwr");
    dlock_free(held);
    got_it(&line, 0);
    got_it(&line, 1);
    dlt_engine_run(&engine, 5000);
    cr_assert_eq(line.calls[2].done, 0);
    cr_assert_eq(line.calls[3].done, 0);
    give(line.locks[0]);
    give(line.locks[1]);
    got_it(&line, 2);
    cr_assert_eq(line.calls[3].done, 0);
    give(line.locks[2]);
    got_it(&line, 3);
    free_line(&line, 4);
}

Test(queue, a_place_costs_one_refresh_a_second)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct line line;

    line_up(&line, "w");
    dlt_engine_run(&engine, 10000);
    cr_assert_leq(dlt_calls(&engine, MEMORY_TRYLOCK), 2 + 13);
    cr_assert_geq(dlt_calls(&engine, MEMORY_TRYLOCK), 2 + 9);
    dlock_free(held);
    got_it(&line, 0);
    free_line(&line, 1);
}

Test(queue, C13_a_lost_grant_costs_one_refresh)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct line line;
    int64_t freed_ms;

    dlt_fault(&engine, MEMORY_WATCH, MEMORY_LOST_REPLY, (struct memory_fault){.times = 100});
    line_up(&line, "w");
    dlt_engine_run(&engine, 1500);
    dlock_free(held);
    freed_ms = dlt_engine_ms(&engine);
    got_it(&line, 0);
    cr_assert_leq(dlt_engine_ms(&engine) - freed_ms, 1100);
    free_line(&line, 1);
}

Test(queue, DEQ_2_who_gives_up_leaves_the_store_too)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *other;
    struct line line;

    line_up(&line, "w");
    dlock_cancel(line.locks[0]);
    cr_assert_eq(dlt_call_finish(&line.calls[0], 100), DLOCK_CANCELED);
    cr_assert_eq(dlt_calls(&engine, MEMORY_LEAVE), 1);
    dlock_free(held);
    other = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE); /* nobody's place is in the way */
    dlock_free(other);
    free_line(&line, 1);
}

Test(queue, DEQ_3_a_leave_that_got_lost_is_repeated)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *other;
    struct line line;

    dlt_fault(&engine, MEMORY_LEAVE, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE});
    line_up(&line, "w");
    dlock_cancel(line.locks[0]);
    cr_assert_eq(dlt_call_finish(&line.calls[0], 1000), DLOCK_CANCELED);
    cr_assert_eq(dlt_calls(&engine, MEMORY_LEAVE), 2);
    dlock_free(held);
    other = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    dlock_free(other);
    free_line(&line, 1);
}

/* A store that fails is asked by the first in line alone, and told to those whose time is over. */
Test(queue, C8_a_store_that_fails_is_waited_for_until_each_ones_deadline)
{
    struct dlock_handle *timed = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call call;
    struct line line;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 1000});
    line_up(&line, "w");
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, timed, 3000);
    cr_assert_eq(dlt_call_finish(&call, 3010), DLOCK_UNAVAILABLE);
    cr_assert_geq(dlt_call_ms(&call), 3000);
    cr_assert_str_eq(call.err.message, "the store did not answer the thread before this one");
    memory_hooks_heal("queue", MEMORY_TRYLOCK);
    got_it(&line, 0);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, timed, 100);
    cr_assert_eq(dlt_call_finish(&call, 200), DLOCK_TIMEOUT, "the store is well again");
    dlock_free(timed);
    free_line(&line, 1);
}

Test(queue, C8_a_place_that_cannot_be_left_ends_the_wait_nevertheless)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *timed = dlt_engine_lock(&engine, "a", NULL);
    struct memory_seen leave;
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_LEAVE, MEMORY_LOST_REPLY, (struct memory_fault){.times = 10});
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, timed, 300);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_TIMEOUT);
    cr_assert_eq(memory_hooks_last("queue", MEMORY_LEAVE, &leave), 1);
    cr_assert_leq(leave.deadline_ns, call.start_ns + 380 * DLT_MS); /* pauses are in real time */
    dlock_free(timed);
    dlock_free(held);
}

Test(queue, a_lease_of_a_queue_is_soon_extended_to_the_ttl)
{
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct line line;

    line_up(&line, "w");
    dlock_free(held);
    got_it(&line, 0);
    cr_assert_leq(dlock_remaining_ms(line.locks[0]), 3000);
    dlt_engine_run(&engine, 60);
    cr_assert_geq(dlock_remaining_ms(line.locks[0]), 26500);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    give(line.locks[0]);
    free_line(&line, 1);
}

Test(queue, without_a_renewer_it_is_extended_before_it_is_handed_out)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .renew = DLOCK_OFF};
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *lock = dlt_engine_lock(&engine, "a", &options);
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_LOCK, lock, 0);
    dlock_free(held);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_OK);
    cr_assert_geq(dlock_remaining_ms(lock), 26500);
    dlock_free(lock);
}

Test(queue, off_means_no_place_in_the_store)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .queue = DLOCK_OFF};
    struct dlock_handle *held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    struct dlock_handle *lock = dlt_engine_lock(&engine, "a", &options);
    struct memory_seen seen;
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_LOCK, lock, 0);
    cr_assert_eq(memory_hooks_last("queue", MEMORY_TRYLOCK, &seen), 1);
    cr_assert_eq(seen.flags, 0);
    dlock_free(held);
    cr_assert_eq(dlt_call_finish(&call, 1100), DLOCK_OK);
    dlock_free(lock);
}
