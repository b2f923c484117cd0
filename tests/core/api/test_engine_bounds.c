/* SPDX-License-Identifier: MIT */
/* Tests: core/api/api.c core/api/query.c core/api/set.c */
/* Does every call end in its time when the store is slow, hung or gone (C8)? Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>
#include <string.h>

#define GRACE_MS 100

static struct dlt_engine engine;
static struct dlock_handle *lock;

static void begin(const char *options)
{
    dlt_engine_open(&engine, "bounds", &(struct dlt_setup){.options = options});
    lock = dlt_engine_lock(&engine, "job", NULL);
}

static void end(void)
{
    memory_hooks_reset(engine.store);
    cr_assert_eq(dlt_do(&engine, DLT_FREE, lock, 0), DLOCK_OK);
    dlt_engine_close(&engine);
}

/* Every answer of the slot comes at its deadline. */
static void hang(enum memory_slot slot)
{
    dlt_fault(&engine, slot, MEMORY_LATE_REPLY, (struct memory_fault){.times = 1000000});
}

static void expect_within(enum dlt_kind kind, int64_t arg, int64_t bound_ms)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, kind, lock, arg);
    cr_assert_neq(dlt_call_finish(&call, bound_ms + 1000), DLT_STUCK);
    cr_assert_leq(dlt_call_ms(&call), bound_ms, "%lld ms, bound %lld",
                  (long long)dlt_call_ms(&call), (long long)bound_ms);
}

Test(bounds, C8_trylock_by_op_timeout)
{
    begin(NULL);
    hang(MEMORY_TRYLOCK);
    expect_within(DLT_TRYLOCK, 0, 2000 + GRACE_MS);
    end();
    begin("op_timeout=300ms");
    hang(MEMORY_TRYLOCK);
    hang(MEMORY_UNLOCK);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY, (struct memory_fault){.ms = 300});
    expect_within(DLT_TRYLOCK, 0, 300 + GRACE_MS);
    end();
}

Test(bounds, C8_timedlock_by_its_timeout)
{
    static const int64_t timeouts[] = {1, 50, 1999, 2500};

    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        struct dlock_handle *other;

        begin(NULL);
        other = dlt_engine_lock(&engine, "job", NULL);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
        hang(MEMORY_TRYLOCK);
        hang(MEMORY_WATCH);
        hang(MEMORY_UNLOCK);
        expect_within(DLT_TIMEDLOCK, timeouts[i], timeouts[i] + GRACE_MS);
        memory_hooks_reset(engine.store);
        dlock_free(other);
        end();
    }
}

Test(bounds, C8_timedlock_when_nothing_is_answered)
{
    begin(NULL);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REQUEST,
              (struct memory_fault){.ms = 25, .times = 1000000});
    hang(MEMORY_UNLOCK);
    expect_within(DLT_TIMEDLOCK, 500, 500 + GRACE_MS);
    expect_within(DLT_TIMEDLOCK, 6000, 6000 + GRACE_MS); /* with the clean-up */
    end();
}

Test(bounds, C8_unlock_by_op_timeout)
{
    begin(NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    hang(MEMORY_UNLOCK);
    expect_within(DLT_UNLOCK, 0, 2000 + GRACE_MS);
    end();
}

Test(bounds, C8_unlock_behind_a_hung_renewal)
{
    begin(NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    hang(MEMORY_RENEW);
    dlt_engine_advance(&engine, 10000);
    expect_within(DLT_UNLOCK, 0, 2000 + GRACE_MS);
    end();
}

Test(bounds, C8_renew_by_op_timeout)
{
    begin(NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    hang(MEMORY_RENEW);
    expect_within(DLT_RENEW, 0, 2000 + GRACE_MS);
    end();
}

Test(bounds, C8_free_by_op_timeout)
{
    begin(NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    hang(MEMORY_UNLOCK);
    expect_within(DLT_FREE, 0, 2000 + GRACE_MS);
    lock = dlt_engine_lock(&engine, "job", NULL);
    end();
}

Test(bounds, C8_queries_by_op_timeout)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    begin(NULL);
    dlt_fault(&engine, MEMORY_BREAK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 1000000});
    cr_assert_eq(dlock_client_break(engine.client, "job", 3, NULL, &err), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_calls(&engine, MEMORY_BREAK), 2, "once more, for a stale connection");
    end();
}

static bool ignored(void *arg, const struct dlock_holder *holder)
{
    (void)arg;
    (void)holder;
    return false;
}

/* For the build with UBSan: the longest time of each public argument. */
static void takes_forever(int64_t timeout_ms)
{
    struct dlock_options options = DLOCK_OPTIONS_INIT;
    const char *const names[] = {"job", "other"};
    struct dlock_set *set = NULL;
    struct dlock_handle *limited, *started;

    options.max_hold_ms = timeout_ms;
    options.wait_ms = timeout_ms;
    begin(NULL);
    limited = dlt_engine_lock(&engine, "limited", &options);
    started = dlt_engine_lock(&engine, "started", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TIMEDLOCK, lock, timeout_ms), DLOCK_OK);
    cr_assert_eq(dlock_client_observe(engine.client, "job", 3, 0, timeout_ms, ignored, NULL, NULL),
                 DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_acquire(limited, DLOCK_EXCLUSIVE, DLOCK_AS_OPTIONS, NULL), DLOCK_OK);
    cr_assert_eq(dlock_op_start(started, DLOCK_OP_LOCK, timeout_ms, NULL), DLOCK_OK);
    cr_assert_eq(dlock_set_new(engine.client, names, NULL, 2, NULL, &set, NULL), DLOCK_OK);
    cr_assert_eq(dlock_set_acquire(set, DLOCK_EXCLUSIVE, timeout_ms, NULL), DLOCK_OK);
    dlt_engine_run(&engine, 11000);
    cr_assert_eq(dlock_state(limited), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_set_state(set), DLOCK_STATE_HELD);
    dlock_set_free(set);
    dlock_free(limited);
    dlock_free(started);
    end();
}

Test(bounds, C8_a_time_that_is_too_long_to_count_is_forever)
{
    takes_forever(INT64_MAX);
    takes_forever(INT64_MAX / DLT_MS);
    takes_forever(INT64_MAX / DLT_MS - 1);
}
