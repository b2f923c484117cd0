/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/renewer.c core/hold/held.c */
/*
 * What becomes of a lease that a renewal brings when the handle has lost it already (C5, C8)? It is
 * given back, once, by whoever unlocks or by the renewer, and nobody waits for himself. Virtual
 * time.
 */
#include "engine.h"

#include <criterion/criterion.h>

#define TTL_MS  3000
#define LATE_MS 3400 /* the answer; the lease ends at 2700 */

static struct dlt_engine engine;
static struct dlock_handle *first, *second;
static enum dlock_status unlocked[2];

static struct dlock_handle *take(const char *name)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = TTL_MS,
                                    .op_timeout_ms = 600};
    struct dlock_handle *lock = dlt_engine_lock(&engine, name, &options);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    return lock;
}

/* Asked at 1000, to be answered by 1600. */
static void begin(struct dlt_setup setup)
{
    dlt_engine_open(&engine, "late", &setup);
    first = take("first");
    second = take("second");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_LATE_REPLY,
              (struct memory_fault){.ms = LATE_MS - 1600});
}

static void end(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 10000), DLOCK_OK);
    dlock_free(first);
    dlock_free(second);
}

/* The names are free, though the store was told to keep them. */
static void expect_given_back(unsigned calls)
{
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), calls);
    dlock_free(take("first"));
    dlock_free(take("second"));
}

static void unlock_all(struct dlt_engine *of, const struct dlock_notice *event)
{
    (void)of;
    (void)event;
    unlocked[0] = dlock_unlock(first, NULL);
    unlocked[1] = dlock_unlock(second, NULL);
}

Test(late, C5_a_callback_may_unlock_it_and_others)
{
    begin((struct dlt_setup){.callback = 1, .own = unlock_all});
    dlt_engine_run(&engine, LATE_MS + 1000);
    cr_assert_eq(unlocked[0], DLOCK_LOST);
    cr_assert_eq(unlocked[1], DLOCK_LOST);
    cr_assert_eq(dlt_engine_losses(&engine), 1, "the other one was acknowledged before");
    expect_given_back(2);
    end();
}

Test(late, C5_who_unlocks_meanwhile_gives_it_back)
{
    struct dlt_call call;

    begin((struct dlt_setup){0});
    dlt_engine_run(&engine, 3000);
    dlt_call_start(&call, &engine, DLT_UNLOCK, first, 0);
    cr_assert_eq(dlt_call_finish(&call, 2000), DLOCK_LOST);
    dlt_engine_run(&engine, 1000);
    expect_given_back(2);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, second, 0), DLOCK_LOST);
    end();
}

Test(late, C5_the_renewer_gives_it_back_for_who_does_not)
{
    unsigned calls;

    begin((struct dlt_setup){.callback = 1});
    dlt_engine_run(&engine, LATE_MS + 1000);
    cr_assert_eq(dlt_engine_losses(&engine), 2);
    expect_given_back(2);
    calls = dlt_calls(&engine, MEMORY_UNLOCK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, first, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, second, 0), DLOCK_LOST);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), calls, "once each");
    end();
}
