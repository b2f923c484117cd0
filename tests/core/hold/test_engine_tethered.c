/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/held.c core/hold/renewer.c core/hold/renew_schedule.c core/hold/unlock.c
 * core/api/adopt.c */
/*
 * A lease that lives in the client's session does not end by its time: is it given back, once, when
 * its claim has run out ([TET-1] to [TET-4], C14)? The store is the memory plugin, and its clock
 * stands still. Virtual time.
 */
#include "engine.h"
#include "tethered.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define STORE "tethered"
#define NAME  "job"
#define TTL   3000
/* Of a ttl of 3 s: 3000 less 10 %. */
#define VALID_MS 2700
#define MANY     100

static struct dlt_engine engine;
static void begin(const char *options, struct dlt_setup setup)
{
    setup.plugin = dlt_tethered_plugin(STORE);
    setup.options = options;
    dlt_engine_open(&engine, STORE, &setup);
}

static void end(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
}

static struct dlock_handle *lock_new(const char *name, struct dlock_options options)
{
    options.struct_size = sizeof options;
    options.wait_ms = DLOCK_AS_OPTIONS;
    options.ttl_ms = TTL;
    return dlt_engine_lock(&engine, name, &options);
}

static struct dlock_handle *take(const char *name, struct dlock_options options)
{
    struct dlock_handle *lock = lock_new(name, options);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    return lock;
}

static const struct dlock_options unrenewed = {.renew = DLOCK_OFF};

static void expect_free(unsigned unlocks)
{
    char hex[DLOCK_TOKEN_CHARS];

    cr_assert_str_eq(dlt_owner(&engine, NAME, hex), "", "the store keeps it for ever");
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), unlocks);
}

static void expect_held(unsigned unlocks)
{
    char hex[DLOCK_TOKEN_CHARS];

    cr_assert_str_neq(dlt_owner(&engine, NAME, hex), "");
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), unlocks);
}

/* The loss is acknowledged, and the store hears nothing of it. */
static void acknowledge(struct dlock_handle *lock)
{
    unsigned unlocks = dlt_calls(&engine, MEMORY_UNLOCK);

    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), unlocks, "once");
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 0, "[UNL-4] the unlock was the last call");
}

static void runs_out(const char *options, bool callback, int64_t after_ms)
{
    struct dlock_handle *lock;

    begin(options, (struct dlt_setup){.callback = callback});
    lock = take(NAME, (struct dlock_options){0});
    dlt_engine_run(&engine, after_ms - 1);
    expect_held(0);
    dlt_engine_advance(&engine, 1);
    expect_free(1);
    cr_assert_eq(dlt_engine_losses(&engine), callback);
    acknowledge(lock);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlock_free(lock);
    end();
}

Test(tethered, TET_1_C14_a_lease_that_is_not_renewed_is_given_back_when_its_claim_has_run_out)
{
    runs_out("renew=off", true, VALID_MS);
}

Test(tethered, TET_1_C14_also_where_the_loss_is_read_from_a_descriptor)
{
    runs_out("renew=off", false, VALID_MS);
}

Test(tethered, TET_1_C14_also_at_max_hold)
{
    runs_out("max_hold=1500ms", true, 1500);
}

Test(tethered, TET_1_C5_also_when_renewals_failed)
{
    struct dlock_handle *lock;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, (struct dlock_options){0});
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){.times = 100000});
    dlt_engine_run(&engine, VALID_MS);
    expect_free(1);
    acknowledge(lock);
    dlock_free(lock);
    end();
}

/* The next holder is not touched by what the handle that lost it does later. */
Test(tethered, C5_the_unlock_after_it_leaves_the_next_holder_alone)
{
    struct dlock_handle *lock, *next;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, unrenewed);
    next = lock_new(NAME, unrenewed);
    dlt_engine_run(&engine, VALID_MS);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, next, 0), DLOCK_OK);
    acknowledge(lock);
    dlock_free(lock);
    expect_held(1);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, next, 0), DLOCK_OK);
    dlock_free(next);
    end();
}

Test(tethered, TET_3_what_failed_is_not_repeated)
{
    static const enum memory_fault_kind kinds[] = {MEMORY_LOST_REQUEST, MEMORY_REFUSE};

    for (size_t i = 0; i < 2; i++) {
        struct dlock_handle *lock;

        begin(NULL, (struct dlt_setup){.callback = 1});
        lock = take(NAME, unrenewed);
        dlt_fault(&engine, MEMORY_UNLOCK, kinds[i],
                  (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 100});
        for (int ms = 0; ms < 60000; ms += 100)
            dlt_engine_advance(&engine, 100);
        expect_held(1);
        acknowledge(lock);
        dlock_free(lock);
        cr_assert_eq(dlock_client_break(engine.client, NAME, strlen(NAME), NULL, NULL), DLOCK_OK);
        end();
        memory_hooks_reset(STORE);
    }
}

/* Meanwhile the plugin has removed what the first unlock may have left. */
Test(tethered, TET_3_C4_an_unlock_that_is_repeated_and_finds_nothing_is_ok)
{
    struct dlock_handle *lock;
    struct dlt_call call;

    begin(NULL, (struct dlt_setup){0});
    lock = take(NAME, (struct dlock_options){0});
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE});
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(dlock_client_break(engine.client, NAME, strlen(NAME), NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 2);
    dlock_free(lock);
    end();
}

/* The store answers after the lease has ended. */
static struct dlock_handle *hold_back_a_renewal(struct dlock_options options)
{
    struct dlock_handle *lock;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, options);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    return lock;
}

Test(tethered, C14_no_unlock_is_sent_while_the_renewer_renews)
{
    struct dlock_handle *lock = hold_back_a_renewal((struct dlock_options){0});

    dlt_engine_run(&engine, VALID_MS + 100);
    cr_assert_eq(memory_hooks_held(STORE), 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    memory_hooks_go(STORE);
    dlt_settle();
    expect_free(1);
    acknowledge(lock);
    dlock_free(lock);
    end();
}

Test(tethered, C14_nor_while_the_application_renews)
{
    struct dlock_handle *lock = hold_back_a_renewal(unrenewed);
    struct dlt_call renew;

    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    dlt_engine_run(&engine, VALID_MS + 100);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    memory_hooks_go(STORE);
    cr_assert_eq(dlt_call_finish(&renew, 10), DLOCK_LOST);
    expect_free(1);
    acknowledge(lock);
    dlock_free(lock);
    end();
}

/* The renewal of the application is not executed: the renewer gives the lease back after it. */
Test(tethered, TET_1_a_renewal_that_fails_after_the_end_of_the_lease)
{
    struct dlock_options options = {.renew = DLOCK_OFF, .op_timeout_ms = 5000};
    struct dlock_handle *lock;
    struct dlt_call renew;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, options);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .ms = VALID_MS + 100});
    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    dlt_engine_run(&engine, VALID_MS + 50);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(dlt_call_finish(&renew, 100), DLOCK_LOST);
    dlt_settle();
    expect_free(1);
    acknowledge(lock);
    dlock_free(lock);
    end();
}

/* No thread of dlock has run since the lease ended, as after SIGSTOP. */
static struct dlock_handle *pause_past_the_lease(void)
{
    struct dlock_handle *lock;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, unrenewed);
    dlt_settle();
    engine.now_ns += (VALID_MS + 1) * DLT_MS;
    return lock;
}

Test(tethered, TET_1_an_unlock_that_finds_the_loss_gives_the_lease_back)
{
    struct dlock_handle *lock = pause_past_the_lease();

    cr_assert_eq(dlock_unlock(lock, NULL), DLOCK_LOST);
    expect_free(1);
    dlt_engine_run(&engine, 10000);
    expect_free(1);
    cr_assert_eq(dlt_engine_losses(&engine), 0, "the status of the unlock was the report");
    dlock_free(lock);
    end();
}

Test(tethered, TET_1_so_does_free_and_so_does_close)
{
    struct dlock_handle *lock;

    dlock_free(pause_past_the_lease());
    expect_free(1);
    end();
    memory_hooks_reset(STORE);
    lock = pause_past_the_lease();
    dlock_client_close(engine.client);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    dlock_free(lock);
}

static enum dlock_status unlocked;

static void unlock_in_callback(struct dlt_engine *of, const struct dlock_notice *event)
{
    (void)of;
    unlocked = dlock_unlock(event->lock, NULL);
}

Test(tethered, TET_1_C5_a_callback_may_unlock_it)
{
    struct dlock_handle *lock;

    begin(NULL, (struct dlt_setup){.callback = 1, .own = unlock_in_callback});
    lock = take(NAME, unrenewed);
    dlt_engine_run(&engine, VALID_MS + 1000);
    cr_assert_eq(unlocked, DLOCK_LOST);
    expect_free(1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
    dlock_free(lock);
    end();
}

/* The unlock of the application comes while the renewer gives the lease back. */
Test(tethered, UNL_4_an_unlock_at_the_same_time_waits_and_sends_nothing)
{
    struct dlock_handle *lock;
    struct dlt_call call;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, unrenewed);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_engine_run(&engine, VALID_MS);
    cr_assert_eq(memory_hooks_held(STORE), 1);
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    dlt_engine_run(&engine, 10);
    cr_assert_eq(call.done, 0);
    memory_hooks_go(STORE);
    cr_assert_eq(dlt_call_finish(&call, 10), DLOCK_LOST);
    expect_free(1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 0);
    dlock_free(lock);
    end();
}

/* What the store has taken away is not there. */
Test(tethered, FGT_1_a_lease_that_was_broken_is_forgotten_and_not_unlocked)
{
    struct dlock_handle *lock;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, (struct dlock_options){0});
    cr_assert_eq(dlock_client_break(engine.client, NAME, strlen(NAME), NULL, NULL), DLOCK_OK);
    dlt_engine_run(&engine, TTL);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(engine.losses[0].reason, DLOCK_REASON_TAKEN);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
    dlock_free(lock);
    end();
}

Test(tethered, TET_1_many_that_end_together_are_all_given_back)
{
    struct dlock_handle *locks[MANY];
    char name[16];

    begin(NULL, (struct dlt_setup){0});
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        locks[i] = take(name, i % 2 == 0 ? unrenewed : (struct dlock_options){0});
    }
    dlt_engine_run(&engine, TTL);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), MANY / 2);
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(dlock_state(locks[i]), i % 2 == 0 ? DLOCK_STATE_LOST : DLOCK_STATE_HELD);
        dlock_free(locks[i]);
    }
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), MANY);
    end();
}

/* Each unlock of a recursive handle is told, and the store hears of one. */
Test(tethered, C15_a_recursive_handle)
{
    struct dlock_options options = {.renew = DLOCK_OFF, .recursive = DLOCK_ON};
    struct dlock_handle *lock;

    begin(NULL, (struct dlt_setup){.callback = 1});
    lock = take(NAME, options);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlt_engine_run(&engine, VALID_MS);
    expect_free(1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
    expect_free(1);
    dlock_free(lock);
    end();
}

Test(tethered, TET_4_C7_no_lease_is_adopted)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    char token[DLOCK_TOKEN_CHARS];
    struct dlock_handle *lock, *heir;

    for (int lazy = 0; lazy < 2; lazy++) { /* a lazy client learns of it by its first session */
        begin(lazy ? "open=lazy" : NULL, (struct dlt_setup){0});
        heir = lock_new(NAME, unrenewed);
        if (lazy) {
            cr_assert_eq(dlock_adopt(heir, "0123456789abcdef0123456789abcdef", &err),
                         DLOCK_UNSUPPORTED);
        } else {
            lock = take(NAME, unrenewed);
            cr_assert_eq(dlock_token(lock, token, sizeof token), DLOCK_TOKEN_CHARS - 1);
            cr_assert_eq(dlock_adopt(heir, token, &err), DLOCK_UNSUPPORTED);
            dlock_free(lock);
        }
        cr_assert_not_null(strstr(err.message, "live in the session of the client"), "%s",
                           err.message);
        cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
        cr_assert_eq(dlock_state(heir), DLOCK_STATE_FREE);
        dlock_free(heir);
        end();
    }
}

Test(tethered, C13_a_lease_goes_to_another_thread_of_the_client)
{
    struct dlock_handle *lock, *next;
    struct dlt_call call;

    begin(NULL, (struct dlt_setup){0});
    lock = take(NAME, unrenewed);
    next = lock_new(NAME, unrenewed);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, next, 1000);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&call, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1, "handed on");
    expect_held(0);
    dlt_engine_run(&engine, VALID_MS); /* and it is given back for the handle that has it now */
    cr_assert_eq(dlock_state(next), DLOCK_STATE_LOST);
    expect_free(1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, next, 0), DLOCK_LOST);
    dlock_free(lock);
    dlock_free(next);
    end();
}
