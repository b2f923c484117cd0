/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/held.c core/hold/claim.c core/client/events.c */
/* Is a loss told once, at its moment, and never taken back (C5)? Virtual time. */
#include "engine.h"
#include "notices.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define NAME "job"
/* Of a ttl of 30 s: 30000 less 10 %. */
#define VALID_MS 27000

static struct dlt_engine engine;
static struct dlock_handle *lock;
static int user;

static void begin(const struct dlt_setup *setup, struct dlock_options options)
{
    options.struct_size = sizeof options;
    options.wait_ms = DLOCK_AS_OPTIONS;
    options.user = &user;
    dlt_engine_open(&engine, "loss", setup);
    lock = dlt_engine_lock(&engine, NAME, &options);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
}

static void begin_callback(struct dlock_options options)
{
    begin(&(struct dlt_setup){.callback = 1}, options);
}

static void end(void)
{
    (void)dlt_do(&engine, DLT_FREE, lock, 0);
    dlt_engine_close(&engine);
}

/* One loss was told, and this one. */
static void expect_told(enum dlock_reason reason, uint64_t fence)
{
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(engine.losses[0].lock, lock);
    cr_assert_eq(engine.losses[0].user, &user);
    cr_assert_eq(engine.losses[0].reason, reason);
    cr_assert_eq(engine.losses[0].fence, fence);
}

static void expect_sticky(void)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
        cr_assert_eq(dlock_remaining_ms(lock), 0);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_LOST);
        cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_LOST);
        dlt_engine_advance(&engine, 40000);
    }
}

Test(loss, C5_by_expiry_at_the_moment_not_before_not_after)
{
    begin_callback((struct dlock_options){.renew = DLOCK_OFF});
    dlt_engine_advance(&engine, VALID_MS - 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_remaining_ms(lock), 1);
    cr_assert_eq(dlt_engine_losses(&engine), 0);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    expect_told(DLOCK_REASON_EXPIRED, dlock_fence(lock));
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
    expect_sticky();
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    end();
}

Test(loss, C5_by_break_when_the_renewer_asks)
{
    struct memory_seen last;

    begin_callback((struct dlock_options){0});
    cr_assert_eq(dlock_client_break(engine.client, NAME, strlen(NAME), NULL, NULL), DLOCK_OK);
    dlt_engine_advance(&engine, 9999);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    dlt_engine_advance(&engine, 1);
    expect_told(DLOCK_REASON_TAKEN, dlock_fence(lock));
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1, "C14: it stops at the first 'not owner'");
    expect_sticky();
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(memory_hooks_last(engine.store, MEMORY_FORGET, &last), 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_FORGET), 1);
    end();
}

Test(loss, C5_by_break_when_the_application_asks)
{
    begin_callback((struct dlock_options){.renew = DLOCK_OFF});
    cr_assert_eq(dlock_client_break(engine.client, NAME, strlen(NAME), NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_LOST);
    dlt_settle();
    expect_told(DLOCK_REASON_TAKEN, dlock_fence(lock));
    expect_sticky();
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    end();
}

/* For the record: who broke it, and who lost it, by the same owner token. */
Test(loss, a_break_is_logged_by_both_sides_with_name_and_owner)
{
    char owner[DLOCK_TOKEN_CHARS], line[128];

    begin(NULL, (struct dlock_options){.renew = DLOCK_OFF});
    (void)dlt_owner(&engine, NAME, owner);
    cr_assert_eq(dlock_client_break(engine.client, NAME, strlen(NAME), owner, NULL), DLOCK_OK);
    (void)snprintf(line, sizeof line, NAME ": broken: owner %s\n", owner);
    cr_assert(dlt_engine_logged(&engine, line), "%s", engine.log);
    cr_assert_not(dlt_engine_logged(&engine, "lost"), "nobody knows yet");
    dlt_engine_advance(&engine, 1500);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    dlt_settle();
    (void)snprintf(line, sizeof line,
                   NAME ": lock lost: it was broken, or the store forgot it; owner %s, fence ",
                   owner);
    cr_assert(dlt_engine_logged(&engine, line), "%s", engine.log);
    cr_assert(dlt_engine_logged(&engine, ", held for 1.500 s\n"), "%s", engine.log);
    end();
}

Test(loss, the_log_says_each_loss_once_with_its_reason)
{
    begin(NULL, (struct dlock_options){.renew = DLOCK_OFF});
    dlt_engine_advance(&engine, VALID_MS);
    dlt_settle();
    cr_assert(dlt_engine_logged(&engine, NAME ": lock lost: its lease ended before a renewal was "
                                              "confirmed; owner "));
    cr_assert(dlt_engine_logged(&engine, ", held for 27.000 s\n"), "%s", engine.log);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    dlt_settle();
    cr_assert_null(strstr(strstr(engine.log, "lock lost") + 1, "lock lost"), "once");
    end();
}

Test(loss, C5_by_max_hold)
{
    begin_callback((struct dlock_options){.max_hold_ms = 65000});
    dlt_engine_run(&engine, 100);
    for (int i = 0; i < 64; i++)
        dlt_engine_advance(&engine, 1000);
    dlt_engine_run(&engine, 899);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_remaining_ms(lock), 1);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    expect_told(DLOCK_REASON_MAX_HOLD, dlock_fence(lock));
    end();
}

Test(loss, C5_by_renewals_that_fail)
{
    begin_callback((struct dlock_options){0});
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){.times = 100000});
    dlt_engine_advance(&engine, 9999);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    for (int i = 0; i < 16999; i += 101)
        dlt_engine_advance(&engine, i + 101 < 16999 ? 101 : 16999 - i);
    cr_assert_eq(dlt_engine_ms(&engine), VALID_MS - 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    cr_assert_eq(dlock_remaining_ms(lock), 1);
    cr_assert_eq(dlt_engine_losses(&engine), 0);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    expect_told(DLOCK_REASON_EXPIRED, dlock_fence(lock));
    cr_assert_eq(engine.loss_ns[0], engine.now_ns);
    memory_hooks_heal(engine.store, MEMORY_RENEW);
    expect_sticky();
    end();
}

Test(loss, C4_a_renewal_without_answer_extends_nothing)
{
    begin_callback((struct dlock_options){.renew = DLOCK_OFF});
    dlt_engine_advance(&engine, 20000);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REPLY, (struct memory_fault){0});
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    cr_assert_eq(dlock_remaining_ms(lock), VALID_MS - 20000);
    dlt_engine_advance(&engine, VALID_MS - 20000);
    expect_told(DLOCK_REASON_EXPIRED, dlock_fence(lock));
    end();
}

Test(loss, C2_the_first_look_after_a_pause_sees_it)
{
    begin((struct dlt_setup[]){{.callback = 1}}, (struct dlock_options){0});
    dlt_settle();
    engine.now_ns += INT64_C(31000) * DLT_MS; /* nobody is woken, as after SIGSTOP */
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    cr_assert_eq(dlock_remaining_ms(lock), 0);
    dlt_engine_advance(&engine, 0);
    expect_told(DLOCK_REASON_EXPIRED, dlock_fence(lock));
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0, "what is lost is not renewed");
    end();
}

static int readable(void)
{
    struct pollfd fd = {.fd = dlock_client_fd(engine.client), .events = POLLIN};

    return poll(&fd, 1, 0);
}

Test(loss, C5_by_descriptor_and_next_event)
{
    struct dlock_notice event = {.struct_size = sizeof event};

    begin(NULL, (struct dlock_options){.renew = DLOCK_OFF});
    cr_assert_eq(readable(), 0);
    dlt_engine_advance(&engine, VALID_MS - 1);
    cr_assert_eq(readable(), 0);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(readable(), 1);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 1);
    cr_assert_eq(event.lock, lock);
    cr_assert_eq(event.user, &user);
    cr_assert_eq(event.reason, DLOCK_REASON_EXPIRED);
    cr_assert_eq(event.fence, dlock_fence(lock));
    cr_assert_eq(readable(), 0);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 0);
    dlt_engine_advance(&engine, 60000);
    cr_assert_eq(readable(), 0);
    end();
}

Test(loss, C5_no_event_after_it_was_acknowledged)
{
    struct dlock_notice event = {.struct_size = sizeof event};

    begin(NULL, (struct dlock_options){.renew = DLOCK_OFF});
    dlt_engine_advance(&engine, VALID_MS);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(readable(), 0);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 0);

    /* Acknowledged before the renewer saw it. */
    dlt_engine_advance(&engine, 3000);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    engine.now_ns += VALID_MS * DLT_MS;
    cr_assert_eq(dlock_unlock(lock, NULL), DLOCK_LOST);
    dlt_engine_advance(&engine, 60000);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 0);
    end();
}

Test(loss, C5_free_drops_the_event)
{
    struct dlock_notice event = {.struct_size = sizeof event};

    begin(NULL, (struct dlock_options){.renew = DLOCK_OFF});
    dlt_engine_advance(&engine, VALID_MS);
    cr_assert_eq(readable(), 1);
    dlock_free(lock);
    cr_assert_eq(readable(), 0);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 0);
    dlt_engine_close(&engine);
}

Test(loss, C5_each_acquisition_has_one_of_its_own)
{
    begin_callback((struct dlock_options){.renew = DLOCK_OFF});
    for (unsigned i = 1; i <= 5; i++) {
        dlt_engine_advance(&engine, VALID_MS);
        cr_assert_eq(dlt_engine_losses(&engine), i);
        cr_assert_eq(engine.losses[i - 1].fence, dlock_fence(lock));
        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
        dlt_engine_advance(&engine, 3000);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    }
    end();
}

/* The store renewed it, but we stopped believing before we knew. */
static void hold_back_a_renewal(void)
{
    begin_callback((struct dlock_options){0});
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(memory_hooks_held(engine.store), 1);
    dlt_engine_advance(&engine, VALID_MS - 10000);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
}

static void expect_given_back(void)
{
    char hex[DLOCK_TOKEN_CHARS];

    cr_assert_str_eq(dlt_owner(&engine, NAME, hex), "", "the store keeps it for another ttl");
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

Test(loss, C5_a_renewal_that_comes_too_late_is_given_back)
{
    hold_back_a_renewal();
    memory_hooks_go(engine.store);
    dlt_settle();
    expect_told(DLOCK_REASON_EXPIRED, dlock_fence(lock));
    expect_given_back();
    expect_sticky();
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    end();
}

Test(loss, C5_also_when_the_loss_was_acknowledged_meanwhile)
{
    struct dlt_call call;

    hold_back_a_renewal();
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&call, 10), DLOCK_LOST);
    dlt_settle();
    expect_given_back();
    cr_assert_eq(dlt_engine_losses(&engine), 0, "told after it was acknowledged");
    end();
}

Test(loss, C5_also_when_the_application_renewed)
{
    struct dlt_call call;

    begin_callback((struct dlock_options){.renew = DLOCK_OFF});
    dlt_engine_advance(&engine, 20000);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_call_start(&call, &engine, DLT_RENEW, lock, 0);
    dlt_engine_advance(&engine, 10000);
    expect_told(DLOCK_REASON_EXPIRED, dlock_fence(lock));
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&call, 10), DLOCK_LOST);
    expect_given_back();
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    end();
}
