/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/acquire_steps.c core/hold/renewal.c core/hold/handle.c */
/* A lease that is shorter than the ttl, as a queue grants it, or than an exchange of the renewer:
 * is it extended in time, and does that keep what acquiring promises? Virtual time. */
#include "engine.h"
#include "notices.h"
#include "tethered.h"

#include <criterion/criterion.h>

static struct dlt_engine engine;
static struct dlock_client *rival;
static struct dlock_handle *held, *lock;

static void begin(const char *options)
{
    dlt_engine_open(&engine, "short", &(struct dlt_setup){.options = options});
    rival = dlt_engine_rival(&engine);
    held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    lock = dlt_engine_lock(&engine, "a", NULL);
}

static void tear_down(void)
{
    struct dlt_call call;

    memory_hooks_reset("short");
    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    dlock_free(lock);
    dlock_client_close(rival);
}

TestSuite(short_lease, .fini = tear_down);

Test(short_lease, C8_the_extension_ends_with_the_wait)
{
    struct dlt_call wait;
    enum dlock_status status;

    begin("renew=off");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LATE_REPLY, (struct memory_fault){.times = 10});
    dlt_call_start(&wait, &engine, DLT_TIMEDLOCK, lock, 300);
    dlt_engine_run(&engine, 250);
    dlock_free(held);
    status = dlt_call_finish(&wait, 10000);
    cr_assert(status == DLOCK_OK || status == DLOCK_TIMEOUT || status == DLOCK_UNKNOWN, "%s",
              dlock_status_name((int)status));
    cr_assert_leq(dlt_call_ms(&wait), 400);
}

Test(short_lease, C3_what_is_left_of_it_is_of_use)
{
    struct dlt_call wait;
    enum dlock_status status;

    begin("renew=off&waiter_lease=500ms");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LOST_REQUEST, (struct memory_fault){.ms = 460});
    dlt_call_start(&wait, &engine, DLT_LOCK, lock, 0);
    dlock_free(held);
    status = dlt_call_finish(&wait, 10000);
    if (status == DLOCK_OK)
        cr_assert_gt(dlock_remaining_ms(lock), 50);
    else
        cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
}

Test(short_lease, C14_who_renews_meanwhile_does_so_after_it)
{
    struct dlt_call wait, renew;
    struct dlock_notice event = {.struct_size = sizeof event};

    begin("renew=off");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){.times = 1});
    dlt_call_start(&wait, &engine, DLT_LOCK, lock, 0);
    dlock_free(held);
    dlt_settle();
    cr_assert_eq(memory_hooks_held("short"), 1, "the extension is on its way");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){.times = 1});
    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    cr_assert_leq(dlt_calls(&engine, MEMORY_RENEW), 1, "two calls with one request");
    memory_hooks_go("short");
    cr_assert_eq(dlt_call_finish(&wait, 10), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&renew, 10), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 0);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
}

/* ---- the renewer is in an exchange of another lease, which gets no answer ---- */

static struct dlock_handle *other;

/* Made before the exchange begins, taken while it is under way. */
static struct dlock_handle *brief_lock(enum dlock_tri renew)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 1000, .renew = renew};

    return dlt_engine_lock(&engine, "c", &options);
}

static void begin_with_a_silent_renewal(void)
{
    other = dlt_engine_lock(&engine, "b", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LATE_REPLY, (struct memory_fault){0});
    dlt_engine_run(&engine, 10010);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
}

Test(short_lease, C14_a_grant_of_the_queue_does_not_wait_for_the_renewer)
{
    struct dlt_call wait;

    begin("waiter_lease=1s");
    begin_with_a_silent_renewal();
    dlt_call_start(&wait, &engine, DLT_LOCK, lock, 0);
    dlock_free(held);
    cr_assert_eq(dlt_call_finish(&wait, 10), DLOCK_OK);
    dlt_engine_run(&engine, 2100);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    dlock_free(other);
}

Test(short_lease, C14_a_lease_taken_during_an_exchange_is_renewed_in_time)
{
    struct dlock_handle *brief;

    begin(NULL);
    brief = brief_lock(DLOCK_DEFAULT);
    begin_with_a_silent_renewal();
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, brief, 0), DLOCK_OK);
    dlt_engine_run(&engine, 2100);
    cr_assert_eq(dlock_state(brief), DLOCK_STATE_HELD);
    dlock_free(held);
    dlock_free(brief);
    dlock_free(other);
}

Test(short_lease, C5_the_loss_of_a_lease_taken_during_an_exchange_is_told_in_time)
{
    struct dlock_notice event = {.struct_size = sizeof event};
    struct dlock_handle *brief;

    begin(NULL);
    brief = brief_lock(DLOCK_OFF);
    begin_with_a_silent_renewal();
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, brief, 0), DLOCK_OK);
    dlt_engine_run(&engine, 1000);
    cr_assert_eq(dlt_notice_take(engine.client, &event, NULL), 1);
    cr_assert_eq(event.lock, brief);
    dlock_free(held);
    dlock_free(brief);
    dlock_free(other);
}

/* ---- the store gives the rest of a lease, or of the session that carries it ---- */

#define REST_MS 80

static struct dlock_backend_ops resting_ops;
static struct dlock_plugin resting;
static const struct dlock_backend_ops *whole;
static unsigned rests; /* so many more grants and renewals are of a rest */

static void rest(enum dlock_status status, struct dlock_grant *grant)
{
    if (status != DLOCK_OK || rests == 0)
        return;
    rests--;
    grant->lease_ms = REST_MS;
}

static enum dlock_status resting_trylock(void *self, const struct dlock_request *req,
                                         struct dlock_grant *grant, struct dlock_error *err)
{
    enum dlock_status status = whole->trylock(self, req, grant, err);

    rest(status, grant);
    return status;
}

static enum dlock_status resting_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                       int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = whole->renew(self, ops, n, deadline_ns, err);

    for (size_t i = 0; i < n; i++)
        rest(ops[i]->status, &ops[i]->grant);
    return status;
}

static void begin_resting(bool tethered, unsigned count)
{
    resting = tethered ? *dlt_tethered_plugin("short") : *dlock_plugin_memory_hooked();
    whole = resting.ops;
    resting_ops = *whole;
    resting_ops.trylock = resting_trylock;
    resting_ops.renew = resting_renew;
    resting.ops = &resting_ops;
    rests = count;
    dlt_engine_open(&engine, "short", &(struct dlt_setup){.plugin = &resting});
    rival = dlt_engine_rival(&engine);
    lock = dlt_engine_lock(&engine, "a", NULL);
}

/* C3 of a ttl of 30 s. */
static void expect_lengthened(bool tethered)
{
    begin_resting(tethered, 1);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_gt(dlock_remaining_ms(lock), 3000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
}

Test(short_lease, C3_a_rest_below_a_tenth_of_the_ttl_is_lengthened_first)
{
    expect_lengthened(false);
}

Test(short_lease, C3_the_rest_of_a_session_is_lengthened_first)
{
    expect_lengthened(true);
}

Test(short_lease, C3_a_rest_that_stays_one_is_no_success)
{
    char hex[DLOCK_TOKEN_CHARS];

    begin_resting(true, 2);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_TIMEOUT);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_str_eq(dlt_owner(&engine, "a", hex), "", "it is given back");
}

Test(short_lease, C3_a_wait_goes_on_until_there_is_more_than_a_rest)
{
    begin_resting(true, 4);
    cr_assert_eq(dlt_do(&engine, DLT_TIMEDLOCK, lock, 1000), DLOCK_OK);
    cr_assert_gt(dlock_remaining_ms(lock), 3000);
    cr_assert_eq(rests, 0);
}

Test(short_lease, C3_a_renewal_that_gives_a_rest_is_no_success)
{
    int64_t left_ms;

    begin_resting(true, 0);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    left_ms = dlock_remaining_ms(lock);
    rests = 1;
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_DOUBTFUL);
    cr_assert_eq(dlock_remaining_ms(lock), left_ms, "the old validity stays");
    dlt_engine_run(&engine, 10);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD, "and it is renewed again, soon");
}

Test(short_lease, C3_a_fresh_grant_of_the_queue_costs_no_exchange_more)
{
    struct dlt_call wait;

    begin(NULL);
    dlt_call_start(&wait, &engine, DLT_LOCK, lock, 0);
    dlock_free(held);
    cr_assert_eq(dlt_call_finish(&wait, 10), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
    cr_assert_gt(dlock_remaining_ms(lock), 1000);
}
