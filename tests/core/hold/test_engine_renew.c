/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/renewer.c core/hold/renew_schedule.c
 */
/* Does the renewer renew when it should, and as long as it should (C14)? Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

#define VALID_MS 27000

static struct dlt_engine engine;

/* The hooked plugin with a renew that writes down what it was asked. */
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;
static struct {
    size_t n;
    int64_t at_ns, deadline_ns;
} asked[4096];
static unsigned asked_count;

static _Atomic bool swallow;
static _Atomic int64_t round_trip_ns;

/* UNKNOWN at the deadline. */
static enum dlock_status swallowed(struct dlock_lease_op *const *op, size_t n, int64_t deadline_ns)
{
    dlt_engine_sleep_until(&engine, deadline_ns);
    for (size_t i = 0; i < n; i++)
        op[i]->status = DLOCK_UNKNOWN;
    return DLOCK_OK;
}

static enum dlock_status spying_renew(void *self, struct dlock_lease_op *const *op, size_t n,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    if (asked_count < sizeof asked / sizeof asked[0]) {
        asked[asked_count].n = n;
        asked[asked_count].at_ns = engine.now_ns;
        asked[asked_count++].deadline_ns = deadline_ns;
    }
    if (swallow || deadline_ns < engine.now_ns + round_trip_ns)
        return swallowed(op, n, deadline_ns);
    dlt_engine_sleep_until(&engine, engine.now_ns + round_trip_ns);
    return dlock_plugin_memory_hooked()->ops->renew(self, op, n, deadline_ns, err);
}

static void set_up(void)
{
    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.renew = spying_renew;
    plugin.ops = &ops;
    dlt_engine_open(&engine, "renew", &(struct dlt_setup){.plugin = &plugin, .callback = 1});
}

static void tear_down(void)
{
    struct dlt_call call;

    memory_hooks_reset(engine.store);
    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
}

TestSuite(renew, .init = set_up, .fini = tear_down);

static struct dlock_handle *take(const char *name, struct dlock_options options)
{
    struct dlock_handle *lock;

    options.struct_size = sizeof options;
    options.wait_ms = DLOCK_AS_OPTIONS;
    lock = dlt_engine_lock(&engine, name, &options);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    return lock;
}

Test(renew, C14_at_a_third_of_the_ttl)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){0});

    for (unsigned i = 0; i < 5; i++) {
        dlt_engine_advance(&engine, 9999);
        cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), i);
        dlt_engine_advance(&engine, 1);
        cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), i + 1);
        cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
        cr_assert_eq(dlock_remaining_ms(lock), VALID_MS);
    }
    dlock_free(lock);
}

Test(renew, C14_many_leases_in_one_call)
{
    struct dlock_handle *locks[100];
    struct memory_seen last;

    for (int i = 0; i < 100; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = take(name, (struct dlock_options){0});
    }
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_assert_eq(memory_hooks_last(engine.store, MEMORY_RENEW, &last), 1);
    cr_assert_eq(last.ops, 100);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(dlock_remaining_ms(locks[i]), VALID_MS);
        dlock_free(locks[i]);
    }
}

/* A hundredth of its time early, if there is an exchange anyway: here 100 ms. */
Test(renew, C14_what_is_due_soon_is_renewed_in_the_same_call)
{
    struct dlock_handle *first = take("first", (struct dlock_options){0});
    struct dlock_handle *soon, *later;
    struct memory_seen last;

    dlt_engine_advance(&engine, 90);
    soon = take("soon", (struct dlock_options){0});
    dlt_engine_advance(&engine, 20);
    later = take("later", (struct dlock_options){0});
    dlt_engine_advance(&engine, 9889);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0, "only if there is one anyway");
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_assert(memory_hooks_last(engine.store, MEMORY_RENEW, &last));
    cr_assert_eq(last.ops, 2);
    cr_assert_eq(dlock_remaining_ms(first), VALID_MS);
    cr_assert_eq(dlock_remaining_ms(soon), VALID_MS);
    cr_assert_eq(dlock_remaining_ms(later), VALID_MS - 9890);
    dlt_engine_advance(&engine, 110);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 2);
    cr_assert(memory_hooks_last(engine.store, MEMORY_RENEW, &last));
    cr_assert_eq(last.ops, 1);
    cr_assert_eq(dlock_remaining_ms(later), VALID_MS);
    dlock_free(first);
    dlock_free(soon);
    dlock_free(later);
}

/* Who has less left than others may be early has been renewed in vain all the time. */
Test(renew, C14_none_is_renewed_twice_in_one_call)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){.ttl_ms = 600000});
    struct memory_seen last;

    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 1000000});
    for (int i = 0; i < 6000 && dlock_state(lock) != DLOCK_STATE_LOST; i++) {
        dlt_engine_advance(&engine, 100);
        if (memory_hooks_last(engine.store, MEMORY_RENEW, &last))
            cr_assert_eq(last.ops, 1);
    }
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    dlock_free(lock);
}

/* Nobody is hurried by a neighbour whose exchanges are short. */
Test(renew, C14_who_would_cut_an_exchange_short_does_not_join)
{
    struct dlock_handle *a = take("a", (struct dlock_options){0}), *b;

    dlt_engine_advance(&engine, 50);
    b = take("b", (struct dlock_options){.op_timeout_ms = 10});
    dlt_engine_advance(&engine, 9950);
    cr_assert_eq(asked_count, 1);
    cr_assert_eq(asked[0].n, 1);
    cr_assert_eq(asked[0].deadline_ns - asked[0].at_ns, INT64_C(2000) * DLT_MS);
    dlock_free(a);
    dlock_free(b);
}

/* Retries are spread on purpose: first's would be due a few ms after second. */
Test(renew, C14_a_retry_is_not_early)
{
    struct dlock_handle *first = take("first", (struct dlock_options){0}), *second;

    dlt_engine_advance(&engine, 101);
    second = take("second", (struct dlock_options){0});
    dlt_engine_advance(&engine, 9898);
    cr_assert_eq(asked_count, 0);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .ms = 101});
    dlt_engine_run(&engine, 200);
    cr_assert_geq(asked_count, 3);
    cr_assert_eq(asked[1].n, 1, "second");
    cr_assert_eq(asked[2].n, 1, "first");
    dlock_free(first);
    dlock_free(second);
}

/* What may be renewed early may also be nobody's to renew just now. */
Test(renew, C14_a_busy_one_that_is_due_soon_is_let_be)
{
    struct dlock_handle *first = take("first", (struct dlock_options){0});
    struct dlock_handle *soon;
    struct dlt_call call;

    dlt_engine_advance(&engine, 50);
    soon = take("soon", (struct dlock_options){0});
    dlt_engine_advance(&engine, 9949);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_SLOW, (struct memory_fault){.ms = 20});
    dlt_call_start(&call, &engine, DLT_RENEW, soon, 0);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlock_remaining_ms(first), VALID_MS);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_OK);
    cr_assert_eq(dlock_state(soon), DLOCK_STATE_HELD);
    dlt_engine_advance(&engine, 10000);
    cr_assert_geq(dlock_remaining_ms(soon), VALID_MS - 100, "renewed at its time again");
    dlock_free(first);
    dlock_free(soon);
}

Test(renew, C14_more_than_a_batch_is_renewed_too)
{
    struct dlock_handle *locks[300];

    for (int i = 0; i < 300; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = take(name, (struct dlock_options){0});
    }
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 3);
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(dlock_remaining_ms(locks[i]), VALID_MS);
        dlock_free(locks[i]);
    }
}

Test(renew, C14_one_loss_in_a_batch_is_no_other_ones)
{
    struct dlock_handle *a = take("a", (struct dlock_options){0});
    struct dlock_handle *b = take("b", (struct dlock_options){0});
    struct dlock_handle *c = take("c", (struct dlock_options){0});

    cr_assert_eq(dlock_client_break(engine.client, "b", 1, NULL, NULL), DLOCK_OK);
    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_state(b), DLOCK_STATE_LOST);
    cr_assert_eq(dlock_state(c), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_remaining_ms(a), VALID_MS);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(engine.losses[0].lock, b);
    dlock_free(a);
    dlock_free(b);
    dlock_free(c);
}

/* The store swallows everything: each exchange lasts as long as it may. */
static void expect_two_full_retries(const char *name, int64_t ttl_ms)
{
    struct dlock_handle *lock =
        take(name, (struct dlock_options){.ttl_ms = ttl_ms, .op_timeout_ms = ttl_ms});
    unsigned full = 0;

    asked_count = 0;
    swallow = true;
    while (dlock_state(lock) != DLOCK_STATE_LOST)
        dlt_engine_advance(&engine, ttl_ms < 10000 ? 1 : 10);
    swallow = false;
    for (unsigned i = 0; i < asked_count; i++)
        full += asked[i].deadline_ns - asked[i].at_ns >= ttl_ms * (DLT_MS / 6);
    cr_assert_geq(full, 3, "%u of ttl %lld", full, (long long)ttl_ms);
    cr_assert_eq(dlt_do(&engine, DLT_FREE, lock, 0), DLOCK_OK);
}

Test(renew, C14_two_full_retries_before_the_end)
{
    expect_two_full_retries("a", 30000);
    expect_two_full_retries("b", 1000);
}

Test(renew, C14_keeps_trying_until_the_end_and_recovers)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){0});

    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 100000});
    for (int ms = 0; ms < 26000; ms += 10)
        dlt_engine_advance(&engine, 10);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    cr_assert_geq(dlt_calls(&engine, MEMORY_RENEW), 16, "at least once a second");
    memory_hooks_heal(engine.store, MEMORY_RENEW);
    for (int ms = 0; ms < 1010; ms += 10)
        dlt_engine_advance(&engine, 10);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_assert_gt(dlock_remaining_ms(lock), 25900);
    cr_assert_eq(dlt_engine_losses(&engine), 0);
    dlock_free(lock);
}

Test(renew, C14_never_after_unlock)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){0});

    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 60000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
    cr_assert_eq(dlt_engine_losses(&engine), 0);
    dlock_free(lock);
}

Test(renew, C14_a_release_leaves_after_the_renewal_has_ended)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){0});
    struct dlt_call call;

    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_engine_advance(&engine, 10000);
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&call, 100), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE, "the renewal brought it back");
    dlt_engine_advance(&engine, 60000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_assert_eq(dlt_engine_losses(&engine), 0);
    dlock_free(lock);
}

Test(renew, C14_off_means_off)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){.renew = DLOCK_OFF});

    dlt_engine_advance(&engine, 60000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
    dlock_free(lock);
}

Test(renew, C14_not_beyond_max_hold)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){.max_hold_ms = 15000});

    dlt_engine_advance(&engine, 10000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0, "the store keeps it beyond max_hold anyway");
    cr_assert_eq(dlock_remaining_ms(lock), 5000);
    dlock_free(lock);
}

Test(renew, to_a_longer_ttl_and_the_renewer_keeps_to_it)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){0});
    struct memory_seen last;

    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 60000), DLOCK_OK);
    cr_assert_eq(dlock_remaining_ms(lock), 60000 - 6000);
    dlt_engine_advance(&engine, 19999);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 2);
    cr_assert_eq(memory_hooks_last(engine.store, MEMORY_RENEW, &last), 1);
    cr_assert_eq(last.ttl_ms, 60000);
    cr_assert_eq(dlock_remaining_ms(lock), 60000 - 6000);

    /* The next acquisition begins with the handle's own. */
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_remaining_ms(lock), VALID_MS);
    dlock_free(lock);
}

/* Not UNAVAILABLE, which says "certainly not executed". */
Test(renew, C3_an_answer_too_late_to_be_of_use_is_unknown)
{
    struct dlock_handle *lock = take(
        "a", (struct dlock_options){.ttl_ms = 1000, .op_timeout_ms = 1000, .renew = DLOCK_OFF});

    dlt_fault(&engine, MEMORY_RENEW, MEMORY_SLOW, (struct memory_fault){.ms = 850});
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    dlock_free(lock);
}

Test(renew, to_a_shorter_ttl_shortens_nothing_granted)
{
    struct dlock_handle *lock = take("a", (struct dlock_options){0});

    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 3000), DLOCK_OK);
    cr_assert_geq(dlock_remaining_ms(lock), VALID_MS);
    for (int i = 0; i < 400; i++) {
        dlt_engine_advance(&engine, 100);
        cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD, "%d", i);
    }
    cr_assert_leq(dlock_remaining_ms(lock), 3000);
    dlock_free(lock);
}

Test(renew, refuses_what_is_not_held)
{
    struct dlock_handle *lock = dlt_engine_lock(&engine, "a", NULL);

    cr_assert_eq(dlock_renew(lock, 0, NULL), DLOCK_NOT_HELD);
    cr_assert_eq(dlock_renew(lock, 49, NULL), DLOCK_INVALID);
    cr_assert_eq(dlock_renew(lock, -1, NULL), DLOCK_INVALID);
    cr_assert_eq(dlock_renew(lock, INT64_MAX, NULL), DLOCK_INVALID);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
    dlock_free(lock);
}

/* What one lease is due for soon is no reason to hurry another one's exchange. */
Test(renew, C14_neighbours_do_not_cut_an_exchange_short)
{
    struct dlock_handle *a = take("a", (struct dlock_options){0}), *b;

    dlt_engine_advance(&engine, 101); /* too late for both in one */
    b = take("b", (struct dlock_options){0});
    dlt_engine_advance(&engine, 9899);
    cr_assert_eq(asked_count, 1);
    cr_assert_eq(asked[0].n, 1);
    cr_assert_eq(asked[0].deadline_ns - asked[0].at_ns, INT64_C(2000) * DLT_MS, "%lld ns",
                 (long long)(asked[0].deadline_ns - asked[0].at_ns));
    dlock_free(a);
    dlock_free(b);
}

Test(renew, C5_a_hung_renewal_does_not_delay_the_news_of_another_loss)
{
    struct dlock_handle *a = take("a", (struct dlock_options){0});
    struct dlock_handle *b;
    int64_t end_ms;

    dlt_engine_advance(&engine, 9000);
    b = take("b", (struct dlock_options){.ttl_ms = 1500, .renew = DLOCK_OFF});
    end_ms = dlt_engine_ms(&engine) + dlock_remaining_ms(b);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LATE_REPLY, (struct memory_fault){.times = 1000});
    while (dlock_state(b) == DLOCK_STATE_HELD)
        dlt_engine_advance(&engine, 1);
    cr_assert_eq(dlt_engine_ms(&engine), end_ms);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(engine.losses[0].lock, b);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_HELD);
    dlock_free(a);
    dlock_free(b);
}

/* The renewer is in an exchange for a when b comes due: b must not starve. */
Test(renew, C14_a_hung_exchange_leaves_others_time_to_be_renewed)
{
    struct dlock_handle *a = take("a", (struct dlock_options){0});
    struct dlock_handle *b;

    dlt_engine_advance(&engine, 9950);
    b = take("b", (struct dlock_options){.ttl_ms = 300});
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LATE_REPLY, (struct memory_fault){0});
    dlt_engine_run(&engine, 1000);
    cr_assert_eq(dlock_state(b), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_engine_losses(&engine), 0);
    dlock_free(a);
    dlock_free(b);
}

Test(renew, C5_giving_a_late_renewal_back_does_not_delay_the_news_either)
{
    struct dlock_handle *a = take("a", (struct dlock_options){0});
    struct dlock_handle *b;

    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_engine_advance(&engine, 10000);
    dlt_engine_advance(&engine, VALID_MS - 10000);
    b = take("b", (struct dlock_options){.ttl_ms = 1000, .renew = DLOCK_OFF});
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LATE_REPLY, (struct memory_fault){0});
    memory_hooks_go(engine.store);
    dlt_engine_run(&engine, 988);
    cr_assert_eq(dlock_state(b), DLOCK_STATE_LOST);
    cr_assert_eq(dlt_engine_losses(&engine), 2);
    dlock_free(a);
    dlock_free(b);
}

/* Locks that nobody renews, as rate limits are made, end one after the other. */
Test(renew, C14_leases_that_end_on_purpose_leave_time_for_the_others)
{
    struct dlock_handle *kept = take("a", (struct dlock_options){.ttl_ms = 6000});
    struct dlock_handle *marks[300];

    round_trip_ns = 80 * DLT_MS;
    for (int i = 0; i < 300; i++) { /* one each 25 ms */
        char name[16];

        (void)snprintf(name, sizeof name, "m%d", i);
        marks[i] = take(name, (struct dlock_options){.ttl_ms = 1000, .renew = DLOCK_OFF});
        dlt_engine_advance(&engine, 25);
    }
    cr_assert_eq(dlock_state(kept), DLOCK_STATE_HELD);
    round_trip_ns = 0;
    for (int i = 0; i < 300; i++)
        dlock_free(marks[i]);
    dlock_free(kept);
}
