/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/renewer.c core/hold/renew_schedule.c */
/*
 * A renewal or a downgrade that the application asks for, of a store that does not answer: does the
 * renewer still have the time to keep the lock (C14)? Virtual time.
 */
#include "engine.h"

#include <criterion/criterion.h>

#define TTL_MS   1200 /* the lease ends at 1080 */
#define SIXTH_MS (TTL_MS / 6)

static struct dlt_engine engine;
static struct dlock_handle *lock;

static void begin(enum dlock_tri renew, int64_t op_timeout_ms)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = TTL_MS,
                                    .op_timeout_ms = op_timeout_ms,
                                    .renew = renew};

    dlt_engine_open(&engine, "asked", &(struct dlt_setup){.callback = 1});
    lock = dlt_engine_lock(&engine, "a", &options);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
}

static void tear_down(void)
{
    struct dlt_call call;

    memory_hooks_reset("asked");
    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    dlock_free(lock);
}

TestSuite(asked, .fini = tear_down);

/* The next `times` renewals get no answer in time. */
static void silence(unsigned times)
{
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_IN_TIME,
              (struct memory_fault){.ms = 10 * TTL_MS, .times = times});
}

/* The store answers again, and the lease that was granted at 0 would be over. */
static void expect_kept(void)
{
    dlt_engine_run(&engine, TTL_MS);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_engine_losses(&engine), 0);
}

static void expect_short(enum dlt_kind kind)
{
    struct dlt_call call;

    begin(DLOCK_ON, TTL_MS);
    silence(1);
    dlt_call_start(&call, &engine, kind, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 2 * TTL_MS), DLOCK_UNAVAILABLE);
    expect_kept();
    cr_assert_eq(dlt_call_ms(&call), SIXTH_MS);
}

Test(asked, C14_a_renewal_without_an_answer_leaves_the_renewer_time)
{
    expect_short(DLT_RENEW);
}

Test(asked, C14_so_does_a_downgrade_and_the_renewer_repeats_it)
{
    struct dlock_client *rival;

    expect_short(DLT_DOWNGRADE);
    rival = dlt_engine_rival(&engine);
    dlock_free(dlt_rival_hold(rival, "a", DLOCK_SHARED));
    dlock_client_close(rival);
}

/* One waits for the other. */
Test(asked, C14_two_threads_at_once)
{
    struct dlt_call first, second;

    begin(DLOCK_ON, TTL_MS);
    silence(2);
    dlt_call_start(&first, &engine, DLT_RENEW, lock, 0);
    dlt_call_start(&second, &engine, DLT_RENEW, lock, 0);
    cr_assert_eq(dlt_call_finish(&first, 2 * TTL_MS), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_call_finish(&second, 2 * TTL_MS), DLOCK_UNAVAILABLE);
    expect_kept();
}

Test(asked, without_the_renewer_it_has_all_of_op_timeout)
{
    struct dlt_call call;

    begin(DLOCK_OFF, 800);
    silence(1);
    dlt_call_start(&call, &engine, DLT_RENEW, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 2 * TTL_MS), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_call_ms(&call), 800);
}
