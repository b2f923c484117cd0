/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/acquire.c core/acquire/acquire_steps.c */
/* Does an acquire end as C3 and C4 say, whatever becomes of its messages? Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

#define NAME "job"

static struct dlt_engine engine;
static struct dlock_handle *lock;

static void set_up(void)
{
    dlt_engine_open(&engine, "acquire", NULL);
    lock = dlt_engine_lock(&engine, NAME, NULL);
}

static void tear_down(void)
{
    if (lock != NULL)
        (void)dlt_do(&engine, DLT_FREE, lock, 0);
    dlt_engine_close(&engine);
}

TestSuite(acquire, .init = set_up, .fini = tear_down);

static struct memory_seen seen(enum memory_slot slot)
{
    struct memory_seen last;

    cr_assert_eq(memory_hooks_last(engine.store, slot, &last), 1);
    return last;
}

Test(acquire, one_round_trip_takes_and_one_gives_back)
{
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 0);
    cr_assert_eq(dlt_calls(&engine, MEMORY_WATCH), 0);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
    cr_assert_eq(seen(MEMORY_UNLOCK).flags, 0);
}

Test(acquire, C1_validity_counts_from_before_the_request)
{
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_SLOW, (struct memory_fault){.ms = 1000});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_OK);
    cr_assert_eq(dlt_call_ms(&call), 1000);
    cr_assert_eq(dlock_remaining_ms(lock), 30000 - 3000 - 1000);
}

Test(acquire, C7_each_attempt_has_a_token_of_its_own)
{
    struct memory_seen first, second;

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    first = seen(MEMORY_TRYLOCK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(memcmp(first.token, seen(MEMORY_UNLOCK).token, DLOCK_TOKEN_SIZE), 0);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    second = seen(MEMORY_TRYLOCK);
    cr_assert_neq(memcmp(first.token, second.token, DLOCK_TOKEN_SIZE), 0);
}

Test(acquire, C4_a_lost_request_is_repeated_with_the_same_token)
{
    struct memory_seen first;
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REQUEST, (struct memory_fault){0});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    first = seen(MEMORY_TRYLOCK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1);
    cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 2);
    cr_assert_eq(memcmp(first.token, seen(MEMORY_TRYLOCK).token, DLOCK_TOKEN_SIZE), 0);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
}

Test(acquire, C4_a_lost_reply_is_found_again_by_its_token)
{
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 2);
    cr_assert_neq(dlock_fence(lock), 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
}

Test(acquire, C4_no_answer_at_all_is_unknown_and_cleaned_up_with_the_same_token)
{
    char hex[DLOCK_TOKEN_CHARS];
    struct memory_seen tried, returned;
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY,
              (struct memory_fault){.times = 1000, .ms = 10});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_UNKNOWN);
    cr_assert_leq(dlt_call_ms(&call), 2100, "C8");
    cr_assert_eq(call.err.status, DLOCK_UNKNOWN);
    cr_assert_neq(call.err.message[0], '\0');
    tried = seen(MEMORY_TRYLOCK);
    returned = seen(MEMORY_UNLOCK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(memcmp(tried.token, returned.token, DLOCK_TOKEN_SIZE), 0);
    cr_assert_eq(tried.req, returned.req, "one attempt, one request at one address");
    cr_assert_str_eq(dlt_owner(&engine, NAME, hex), "");
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
}

Test(acquire, C4_after_unknown_busy_is_not_believed)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, NAME, NULL);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REQUEST, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlock_state(other), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, other, 0), DLOCK_OK, "the clean-up took a lock away");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlock_free(other);
}

Test(acquire, C4_after_unknown_nothing_definite_comes_out)
{
    for (int status = DLOCK_UNAVAILABLE; status <= DLOCK_INTERNAL; status++) {
        enum dlock_status answer = (enum dlock_status)status;

        memory_hooks_reset(engine.store);
        dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY, (struct memory_fault){0});
        dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_REFUSE,
                  (struct memory_fault){.status = answer, .times = 1000});
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_UNKNOWN, "%s",
                     dlock_status_name(status));
        cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1, "%s", dlock_status_name(status));
    }
}

Test(acquire, C4_a_refusal_is_told_as_it_is)
{
    static const enum dlock_status refusals[] = {
        DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM, DLOCK_AUTH,  DLOCK_PROTOCOL, DLOCK_CONFIG,
        DLOCK_UNSUPPORTED, DLOCK_INVALID,   DLOCK_NOMEM, DLOCK_INTERNAL};

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct dlt_call call;
        bool may_hold = refusals[i] == DLOCK_PROTOCOL || refusals[i] == DLOCK_INTERNAL;

        memory_hooks_reset(engine.store);
        dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_REFUSE,
                  (struct memory_fault){.status = refusals[i], .times = 1000});
        dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 5000), refusals[i]);
        cr_assert_leq(dlt_call_ms(&call), 2100);
        cr_assert_str_eq(call.err.message, "refused by a test");
        cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), may_hold);
        cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), !may_hold);
    }
}

Test(acquire, C4_a_late_request_never_touches_a_later_hold)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, NAME, NULL);
    enum dlock_status last = DLOCK_INTERNAL;
    char before[DLOCK_TOKEN_CHARS], after[DLOCK_TOKEN_CHARS];

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LATE_REQUEST, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
    (void)dlt_owner(&engine, NAME, before);
    cr_assert_eq(memory_hooks_deliver(engine.store, &last), 1);
    cr_assert_eq(last, DLOCK_BUSY);
    cr_assert_str_eq(dlt_owner(&engine, NAME, after), before);
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlock_state(other), DLOCK_STATE_HELD);
    dlock_free(other);
}

Test(acquire, C4_a_late_request_after_unlock_belongs_to_nobody)
{
    enum dlock_status last = DLOCK_INTERNAL;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LATE_REQUEST, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(memory_hooks_deliver(engine.store, &last), 1);
    cr_assert_eq(last, DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_BUSY, "one token a handle?");
    dlt_engine_advance(&engine, 30000);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
}

Test(acquire, C3_a_late_grant_is_given_back)
{
    char hex[DLOCK_TOKEN_CHARS];
    struct dlt_call call;

    /* 27 s late: less than a tenth of the lease is left. */
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LATE_REPLY, (struct memory_fault){.ms = 25000});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    dlt_engine_advance(&engine, 27000);
    cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_TIMEOUT);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_str_eq(dlt_owner(&engine, NAME, hex), "");
}

Test(acquire, C3_a_waiter_takes_it_again_after_a_late_grant)
{
    struct memory_seen late;
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LATE_REPLY, (struct memory_fault){.ms = 25000});
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 60000);
    late = seen(MEMORY_TRYLOCK);
    dlt_engine_advance(&engine, 27000);
    cr_assert_eq(dlt_call_finish(&call, 5000), DLOCK_OK);
    cr_assert_neq(memcmp(late.token, seen(MEMORY_TRYLOCK).token, DLOCK_TOKEN_SIZE), 0);
    cr_assert_gt(dlock_remaining_ms(lock), 26500);
}

Test(acquire, C3_just_enough_is_enough)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .renew = DLOCK_OFF};
    struct dlock_handle *still = dlt_engine_lock(&engine, NAME, &options);
    struct dlt_call call;

    /* At 23999 ms, 3001 of 27000 are left, and 3000 would be too little. */
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LATE_REPLY, (struct memory_fault){.ms = 21999});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, still, 0);
    dlt_engine_advance(&engine, 23999);
    cr_assert_eq(dlt_call_finish(&call, 0), DLOCK_OK);
    cr_assert_eq(dlock_remaining_ms(still), 3001);
    dlock_free(still);
}

Test(acquire, C4_a_held_reply_that_comes_in_time_is_good)
{
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    dlt_engine_advance(&engine, 500);
    cr_assert_eq(memory_hooks_held(engine.store), 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE, "held before it was granted");
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&call, 10), DLOCK_OK);
    cr_assert_eq(dlock_remaining_ms(lock), 30000 - 3000 - 500);
}

Test(acquire, a_second_acquire_on_the_handle_is_already)
{
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    cr_assert_eq(dlock_trylock(lock, NULL), DLOCK_ALREADY);
    cr_assert_eq(dlock_unlock(lock, NULL), DLOCK_ALREADY);
    cr_assert_eq(dlock_renew(lock, 0, NULL), DLOCK_NOT_HELD);
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&call, 10), DLOCK_OK);
    cr_assert_eq(dlock_trylock(lock, NULL), DLOCK_ALREADY);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1);
}

Test(acquire, C13_a_lost_notification_costs_a_second_at_most)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, NAME, NULL);
    struct dlt_call call;

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_WATCH, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 1000});
    dlt_call_start(&call, &engine, DLT_LOCK, lock, 0);
    dlt_engine_run(&engine, 3000);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, other, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&call, 1001), DLOCK_OK);
    dlock_free(other);
}

/* What is granted to a waiter is short, and nobody will renew it. */
Test(acquire, C8_making_a_short_lease_longer_does_not_last_longer)
{
    struct dlock_client *rival = dlt_engine_rival(&engine);
    struct dlock_handle *theirs = dlt_rival_hold(rival, NAME, DLOCK_EXCLUSIVE);
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .renew = DLOCK_OFF};
    struct dlock_handle *still = dlt_engine_lock(&engine, NAME, &options);
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, still, 300);
    dlt_engine_run(&engine, 200);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LATE_REPLY, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, theirs, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&call, 10000), DLOCK_OK);
    cr_assert_leq(dlt_call_ms(&call), 400, "%lld ms", (long long)dlt_call_ms(&call));
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    dlock_free(still);
    dlock_free(theirs);
    dlock_client_close(rival);
}

Test(acquire, C7_nobody_renews_what_is_still_being_acquired)
{
    struct dlock_client *rival = dlt_engine_rival(&engine);
    struct dlock_handle *theirs = dlt_rival_hold(rival, NAME, DLOCK_EXCLUSIVE);
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .renew = DLOCK_OFF};
    struct dlock_handle *still = dlt_engine_lock(&engine, NAME, &options);
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_LOCK, still, 0);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, theirs, 0), DLOCK_OK);
    dlt_settle();
    cr_assert_eq(memory_hooks_held(engine.store), 1, "granted, and being made longer");
    cr_assert_eq(dlock_renew(still, 0, NULL), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&call, 10), DLOCK_OK);
    dlock_free(still);
    dlock_free(theirs);
    dlock_client_close(rival);
}

Test(acquire, C8_a_wait_ends_at_its_deadline)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, NAME, NULL);
    struct dlt_call call;

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 250);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_TIMEOUT);
    cr_assert_geq(dlt_call_ms(&call), 250);
    cr_assert_leq(dlt_call_ms(&call), 350);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
    dlock_free(other);
}
