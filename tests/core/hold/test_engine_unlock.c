/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/unlock.c core/hold/release_fsm.c */
/* Does a release end as C4 says, whatever becomes of its messages? Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

#define NAME "job"

static struct dlt_engine engine;
static struct dlock_handle *lock;

static void set_up(void)
{
    dlt_engine_open(&engine, "unlock", NULL);
    lock = dlt_engine_lock(&engine, NAME, NULL);
    if (dlt_do(&engine, DLT_TRYLOCK, lock, 0) != DLOCK_OK)
        abort();
}

static void tear_down(void)
{
    (void)dlt_do(&engine, DLT_FREE, lock, 0);
    dlt_engine_close(&engine);
}

TestSuite(unlock, .init = set_up, .fini = tear_down);

static struct memory_seen seen(enum memory_slot slot)
{
    struct memory_seen last;

    cr_assert_eq(memory_hooks_last(engine.store, slot, &last), 1);
    return last;
}

Test(unlock, C4_a_lost_reply_is_asked_again_and_gone_is_ok)
{
    struct memory_seen took = seen(MEMORY_TRYLOCK);

    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LOST_REPLY, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 2);
    cr_assert_eq(memcmp(took.token, seen(MEMORY_UNLOCK).token, DLOCK_TOKEN_SIZE), 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 2);
}

/* For the one that hangs already it has to wait, and may still send its release then. */
Test(unlock, C8_waits_for_one_renewal_and_lets_no_other_begin)
{
    struct dlt_call hung, next, unlock;

    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LATE_REPLY, (struct memory_fault){.times = 10});
    dlt_call_start(&hung, &engine, DLT_RENEW, lock, 0);
    dlt_call_start(&next, &engine, DLT_RENEW, lock, 0);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&unlock, 10000), DLOCK_OK);
    cr_assert_leq(dlt_call_ms(&unlock), 2000 + 100);
    cr_assert_eq(dlt_call_finish(&hung, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&next, 0), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
}

Test(unlock, C4_no_answer_is_unknown_and_may_be_repeated)
{
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LOST_REPLY,
              (struct memory_fault){.ms = 5000, .times = 2});
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE, "the claim ends at entry");
    cr_assert_eq(dlock_remaining_ms(lock), 0);
    cr_assert_eq(dlt_call_finish(&call, 6000), DLOCK_UNKNOWN);
    cr_assert_eq(call.err.status, DLOCK_UNKNOWN);
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK, "gone is OK");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
}

Test(unlock, C4_a_definite_failure_may_be_repeated_too)
{
    char hex[DLOCK_TOKEN_CHARS];
    struct memory_seen seen;
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE, (struct memory_fault){.status = DLOCK_AUTH});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_AUTH);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 10000});
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 6000), DLOCK_UNAVAILABLE);
    cr_assert_eq(memory_hooks_last(engine.store, MEMORY_UNLOCK, &seen), 1);
    cr_assert_leq(seen.deadline_ns, call.start_ns + 2100 * DLT_MS,
                  "C8"); /* pauses are in real time */
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_str_eq(dlt_owner(&engine, NAME, hex), "");
}

/* Nothing was kept then, and OK would say that something was. */
Test(unlock, C22_a_lease_that_ended_before_a_release_was_executed_is_lost)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .keep_ms = 600000};
    struct dlock_handle *keeper = dlt_engine_lock(&engine, "kept", &options);
    struct dlt_call call;

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, keeper, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE, (struct memory_fault){.status = DLOCK_AUTH});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_AUTH);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 0, "the attempt goes on: it may be repeated");
    dlt_engine_advance(&engine, 60000);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_NOT_HELD);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, keeper, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LOST_REPLY,
              (struct memory_fault){.ms = 5000, .times = 2});
    dlt_call_start(&call, &engine, DLT_UNLOCK, keeper, 0);
    cr_assert_eq(dlt_call_finish(&call, 6000), DLOCK_UNKNOWN);
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_OK, "it may have been executed");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, keeper, 0), DLOCK_BUSY, "and it was");
    dlock_free(keeper);
}

/* What the plugin has of the attempt may carry the lease: it stays until the unlock is executed, or
 * nobody can repeat it any more. */
static struct dlock_handle *kept_in_vain(void)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .keep_ms = 600000};
    struct dlock_handle *keeper = dlt_engine_lock(&engine, "kept", &options);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, keeper, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE, (struct memory_fault){.status = DLOCK_AUTH});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_AUTH);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 0);
    return keeper;
}

Test(unlock, UNL_4_C22_an_attempt_ends_with_the_unlock_that_is_repeated)
{
    struct dlock_handle *keeper = kept_in_vain();

    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_OK);
    dlock_free(keeper);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 0, "[UNL-4] the unlock was the last call");
}

Test(unlock, FGT_1_C22_an_attempt_ends_when_its_handle_acquires_again)
{
    struct dlock_handle *keeper = kept_in_vain();

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, keeper, 0), DLOCK_BUSY, "its old lease");
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 2, "the old attempt, and the new one");
    dlock_free(keeper);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 2);
}

Test(unlock, FGT_1_C22_an_attempt_ends_with_its_handle)
{
    dlock_free(kept_in_vain());
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
}

Test(unlock, FGT_1_C22_an_attempt_ends_with_its_client)
{
    struct dlock_client *rival = dlt_engine_rival(&engine); /* keeps the store */
    struct dlock_handle *keeper = kept_in_vain();

    cr_assert_eq(dlt_do(&engine, DLT_CLOSE, NULL, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
    dlock_free(keeper);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
    dlock_client_close(rival);
}

/* Nothing is left to be kept. */
Test(unlock, FGT_1_C22_an_attempt_ends_with_the_time_that_it_was_to_keep)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .keep_ms = 1000};
    struct dlock_handle *keeper = dlt_engine_lock(&engine, "kept", &options);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, keeper, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 2000);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE, (struct memory_fault){.status = DLOCK_AUTH});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_AUTH);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 0, "[UNL-4] the unlock was the last call");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, keeper, 0), DLOCK_OK);
    dlock_free(keeper);
}

Test(unlock, every_refusal_is_told_as_it_is_and_ends_the_claim)
{
    static const enum dlock_status refusals[] = {DLOCK_AUTH,        DLOCK_PROTOCOL, DLOCK_CONFIG,
                                                 DLOCK_UNSUPPORTED, DLOCK_INVALID,  DLOCK_NOMEM,
                                                 DLOCK_INTERNAL};

    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct dlt_call call;

        dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
                  (struct memory_fault){.status = refusals[i]});
        dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 10), refusals[i]);
        cr_assert_str_eq(call.err.message, "refused by a test");
        cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    }
}

Test(unlock, C4_a_late_release_never_touches_a_later_hold)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, NAME, NULL);
    enum dlock_status last = DLOCK_INTERNAL;

    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LATE_REQUEST, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
    cr_assert_eq(memory_hooks_deliver(engine.store, &last), 1);
    cr_assert_eq(last, DLOCK_LOST);
    dlt_engine_advance(&engine, 10001);
    cr_assert_eq(dlock_state(other), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, other, 0), DLOCK_OK);

    /* The same handle, a new hold. */
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LATE_REQUEST, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(memory_hooks_deliver(engine.store, &last), 1);
    cr_assert_eq(last, DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    dlock_free(other);
}

Test(unlock, a_lock_that_was_taken_away_unseen_is_lost)
{
    cr_assert_eq(dlock_client_break(engine.client, NAME, strlen(NAME), NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

Test(unlock, of_an_expired_lease_acknowledges_and_sends_nothing)
{
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){.times = 10000});
    dlt_engine_advance(&engine, 27000);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
}

Test(unlock, C4_an_unanswered_release_may_be_followed_by_an_acquire)
{
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LOST_REQUEST, (struct memory_fault){.ms = 5000});
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_BUSY, "an old token was used again");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
    dlt_engine_advance(&engine, 30000);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
}

/* Two threads release: the second finds the store's lock gone, and so is what it asked for. */
Test(unlock, C4_a_second_thread_may_repeat_it_at_once)
{
    struct dlt_call first, second;

    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LOST_REPLY, (struct memory_fault){.ms = 5000});
    dlt_call_start(&first, &engine, DLT_UNLOCK, lock, 0);
    dlt_call_start(&second, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&first, 6000), DLOCK_UNKNOWN);
    cr_assert_eq(dlt_call_finish(&second, 6000), DLOCK_OK);
}

Test(unlock, free_releases_what_is_held)
{
    char hex[DLOCK_TOKEN_CHARS];

    cr_assert_eq(dlt_do(&engine, DLT_FREE, lock, 0), DLOCK_OK);
    cr_assert_str_eq(dlt_owner(&engine, NAME, hex), "");
    lock = dlt_engine_lock(&engine, NAME, NULL);
}
