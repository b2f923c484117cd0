/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/local_waiter.c core/hold/unlock.c */
/* Does a lease go from thread to thread safely, and within its bounds (C13)? Virtual time. */
#include "engine.h"
#include "notices.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_engine engine;
static struct dlock_handle *giver, *taker;
static struct dlt_call wait;

static void begin(const struct dlt_setup *setup)
{
    dlt_engine_open(&engine, "handoff", setup);
    giver = dlt_engine_lock(&engine, "a", NULL);
    taker = dlt_engine_lock(&engine, "a", NULL);
}

static void tear_down(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    dlock_free(giver);
    dlock_free(taker);
}

TestSuite(handoff, .fini = tear_down);

/* giver holds it and taker waits for it. */
static void hold_and_wait(void)
{
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, giver, 0), DLOCK_OK);
    dlt_call_start(&wait, &engine, DLT_LOCK, taker, 0);
}

/* One turn: taker has it afterwards, and the two have changed roles. */
static void turn(void)
{
    struct dlock_handle *was = giver;

    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    giver = taker;
    taker = was;
    dlt_call_start(&wait, &engine, DLT_LOCK, taker, 0);
}

Test(handoff, C6_it_costs_no_exchange_and_the_fence_rises)
{
    uint64_t fence;

    begin(NULL);
    hold_and_wait();
    fence = dlock_fence(giver);
    turn();
    cr_assert_eq(dlock_fence(giver), fence + 1);
    cr_assert_eq(dlock_state(taker), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
}

Test(handoff, C7_a_lease_whose_token_was_shown_stays)
{
    char before[DLOCK_TOKEN_CHARS], after[DLOCK_TOKEN_CHARS];

    begin(NULL);
    hold_and_wait();
    cr_assert_eq(dlock_token(giver, before, sizeof before), 32);
    turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlock_token(giver, after, sizeof after), 32);
    cr_assert_str_neq(before, after);
}

static void data_stay(const char *of_giver, const char *of_taker)
{
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS};

    begin(NULL);
    dlock_free(giver);
    dlock_free(taker);
    options.data = of_giver;
    options.data_len = strlen(of_giver);
    giver = dlt_engine_lock(&engine, "a", &options);
    options.data = of_taker;
    options.data_len = strlen(of_taker);
    taker = dlt_engine_lock(&engine, "a", &options);
    hold_and_wait();
    turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

/* The store would show the data of the thread before. */
Test(handoff, C24_a_lease_with_data_is_not_handed_on)
{
    data_stay("giver", "");
}

Test(handoff, C24_a_handle_with_data_gets_no_lease)
{
    data_stay("", "taker");
}

Test(handoff, C24_also_if_the_data_are_the_same)
{
    data_stay("both", "both");
}

/* Its answer will be applied to the handle that sent it. */
Test(handoff, C14_not_while_a_renewal_is_under_way)
{
    begin(&(struct dlt_setup){.options = "ttl=9s"});
    hold_and_wait();
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_SLOW, (struct memory_fault){.ms = 300});
    for (int i = 0; i < 6000 && dlt_calls(&engine, MEMORY_RENEW) == 0; i++)
        dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlock_state(taker), DLOCK_STATE_HELD);
}

/* What the store may yet have of the receiver's would stay there. */
Test(handoff, C4_not_to_who_has_something_unknown_in_the_store)
{
    begin(NULL);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, giver, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LATE_REQUEST, (struct memory_fault){.times = 1});
    dlt_call_start(&wait, &engine, DLT_LOCK, taker, 0);
    dlt_engine_run(&engine, 15);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 2);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
}

Test(handoff, C7_the_giver_can_do_nothing_to_it_any_more)
{
    begin(NULL);
    hold_and_wait();
    turn();
    dlock_cancel(taker);
    cr_assert_eq(dlt_call_finish(&wait, 100), DLOCK_CANCELED);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, taker, 0), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, taker, 0), DLOCK_NOT_HELD);
    cr_assert_eq(dlock_state(giver), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

Test(handoff, C1_the_lease_that_is_handed_on_is_what_was_left_of_it)
{
    begin(&(struct dlt_setup){.options = "renew=off"});
    hold_and_wait();
    dlt_engine_advance(&engine, 4);
    turn();
    cr_assert_leq(dlock_remaining_ms(giver), 30000 - 3000 - 4);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1);
}

Test(handoff, the_store_gets_it_back_after_so_many_turns)
{
    begin(&(struct dlt_setup){.options = "handoff=3"});
    hold_and_wait();
    for (int i = 0; i < 3; i++)
        turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 2);
}

Test(handoff, C6_fences_rise_over_every_kind_of_turn)
{
    uint64_t last = 0;

    begin(&(struct dlt_setup){.options = "handoff=2"});
    hold_and_wait();
    for (int i = 0; i < 12; i++) {
        cr_assert_gt(dlock_fence(giver), last);
        last = dlock_fence(giver);
        turn();
    }
}

Test(handoff, off_sends_every_release_to_the_store)
{
    begin(&(struct dlt_setup){.options = "handoff=0"});
    hold_and_wait();
    turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

Test(handoff, another_ttl_is_another_lease)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 10000};

    begin(NULL);
    dlock_free(taker);
    taker = dlt_engine_lock(&engine, "a", &options);
    hold_and_wait();
    turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_leq(dlock_remaining_ms(giver), 10000);
}

Test(handoff, others_who_wait_in_the_store_are_not_kept_waiting)
{
    struct dlock_client *rival;
    struct dlock_handle *theirs = NULL;
    struct dlt_call waits;

    begin(NULL);
    rival = dlt_engine_rival(&engine);
    cr_assert_eq(dlock_new(rival, "a", 1, NULL, &theirs, NULL), DLOCK_OK);
    hold_and_wait();
    dlt_call_start(&waits, &engine, DLT_LOCK, theirs, 0);
    dlt_engine_advance(&engine, 10); /* our head asks for a place, and learns of the other */
    turn();
    cr_assert_eq(waits.done, 0, "within 20 ms it may still go round here");
    dlt_engine_advance(&engine, 25);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&waits, 100), DLOCK_OK);
    cr_assert_eq(wait.done, 0);
    dlock_free(theirs);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    dlock_client_close(rival);
}

/* As if the store knew nothing of waiters. */
static enum dlock_status untold_trylock(void *self, const struct dlock_request *req,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = dlock_plugin_memory_hooked()->ops->trylock(self, req, grant, err);

    grant->waiters = UINT32_MAX;
    return status;
}

static void hand_on_until_others_may_wait(void)
{
    hold_and_wait();
    for (int i = 0; i < 4; i++) {
        dlt_engine_advance(&engine, i < 3 ? 49 : 50);
        turn();
    }
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    dlt_engine_advance(&engine, 3);
    turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1, "200 ms are over");
}

Test(handoff, C13_others_may_wait_where_the_store_does_not_say)
{
    static struct dlock_backend_ops ops;
    static struct dlock_plugin plugin;

    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.trylock = untold_trylock;
    plugin.ops = &ops;
    begin(&(struct dlt_setup){.plugin = &plugin, .options = "queue=off"});
    hand_on_until_others_may_wait();
}

/* Who takes no place is not counted, and others may do the same. */
Test(handoff, C13_others_may_wait_without_a_place)
{
    begin(&(struct dlt_setup){.options = "queue=off"});
    hand_on_until_others_may_wait();
}

/* What a renewal says of the queue is no better. */
Test(handoff, C13_others_may_wait_without_a_place_whatever_a_renewal_says)
{
    begin(&(struct dlt_setup){.options = "queue=off"});
    hold_and_wait();
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, giver, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 250);
    turn();
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

Test(handoff, DEQ_2_the_place_of_who_is_handed_it_is_left)
{
    begin(NULL);
    hold_and_wait();
    dlt_engine_advance(&engine, 100);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 2, "a place was asked for");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(dlt_calls(&engine, MEMORY_LEAVE), 1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, taker, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, giver, 0), DLOCK_OK, "nothing is left behind");
}

Test(handoff, C5_a_loss_is_told_of_the_handle_that_has_it_now)
{
    struct dlock_notice event = {.struct_size = sizeof event};
    char token[DLOCK_TOKEN_CHARS];

    begin(NULL);
    hold_and_wait();
    turn();
    (void)dlock_token(giver, token, sizeof token);
    cr_assert_eq(dlock_client_break(engine.client, "a", 1, token, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, giver, 0), DLOCK_LOST);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 1);
    cr_assert_eq(event.lock, giver);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 0);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK, "and its waiter gets on");
}

Test(handoff, C14_a_lease_that_was_handed_on_is_renewed)
{
    begin(NULL);
    hold_and_wait();
    turn();
    for (int i = 0; i < 1200; i++)
        dlt_engine_advance(&engine, 100);
    cr_assert_eq(dlock_state(giver), DLOCK_STATE_HELD);
    cr_assert_geq(dlt_calls(&engine, MEMORY_RENEW), 10);
}

Test(handoff, more_than_half_of_the_lease_has_to_be_left)
{
    begin(&(struct dlt_setup){.options = "renew=off&ttl=10s"});
    hold_and_wait();
    dlt_engine_run(&engine, 5100);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

Test(handoff, a_store_without_fences_has_hand_offs_too)
{
    begin(&(struct dlt_setup){.plugin = dlock_plugin_memory_limited("handoff", DLOCK_CAP_FENCE)});
    hold_and_wait();
    turn();
    cr_assert_eq(dlock_fence(giver), 0);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
}

Test(handoff, a_reader_is_handed_nothing)
{
    begin(NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, giver, 0), DLOCK_OK);
    dlt_call_start(&wait, &engine, DLT_RDLOCK, taker, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
}

/* Another client holds the name since, and OK must not come after its OK. */
Test(handoff, C5_a_lease_that_may_have_been_broken_is_not_handed_on)
{
    struct dlock_client *rival;
    struct dlock_handle *theirs;

    begin(NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, giver, 0), DLOCK_OK);
    rival = dlt_engine_rival(&engine);
    dlt_engine_run(&engine, 1100);
    cr_assert_eq(dlock_client_break(rival, "a", 1, NULL, NULL), DLOCK_OK);
    theirs = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    dlt_call_start(&wait, &engine, DLT_LOCK, taker, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, giver, 0), DLOCK_LOST);
    cr_assert_eq(dlt_call_finish(&wait, 500), DLT_STUCK, "the name is another client's");
    dlock_free(theirs);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    dlock_client_close(rival);
}
