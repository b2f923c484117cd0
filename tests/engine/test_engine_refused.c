/* SPDX-License-Identifier: MIT */
/* A store that lets a client have no further connection: does whoever wants one get one of those
 * that there are? (C8, C13) */
#include "engine.h"

#include <criterion/criterion.h>

static struct dlt_engine engine;

static void begin(const char *options)
{
    dlt_engine_open(
        &engine, "refused",
        &(struct dlt_setup){.plugin = dlock_plugin_memory_limited("refused", DLOCK_CAP_CONCURRENT),
                            .options = options});
}

static void end(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), dlt_calls(&engine, MEMORY_CLOSE));
}

/* The one connection that there is hangs until memory_hooks_go, and so many times another one
 * is refused, ms later. */
static void make_scarce(struct dlt_call *hung, int64_t ms, unsigned times)
{
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){.times = 1});
    dlt_call_start(hung, &engine, DLT_TRYLOCK, dlt_engine_lock(&engine, "hung", NULL), 0);
    dlt_fault(&engine, MEMORY_OPEN, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .ms = ms, .times = times});
}

Test(refused, whoever_is_refused_a_further_connection_waits_for_one)
{
    struct dlock *held, *fresh;
    struct dlt_call hung, try, unlock;

    begin(NULL);
    held = dlt_engine_lock(&engine, "held", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, held, 0), DLOCK_OK);
    fresh = dlt_engine_lock(&engine, "fresh", NULL);
    make_scarce(&hung, 0, 10000);
    dlt_call_start(&try, &engine, DLT_TRYLOCK, fresh, 0);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    cr_assert_eq(try.done + unlock.done, 0, "it failed though there is a connection");
    cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), 2, "one asked the store");
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&hung, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&unlock, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&try, 0), DLOCK_OK);
    dlock_free(held);
    dlock_free(hung.lock);
    dlock_free(fresh);
    end();
}

Test(refused, one_that_came_back_while_a_further_one_was_refused_will_do)
{
    struct dlock *fresh;
    struct dlt_call hung, try;

    begin(NULL);
    fresh = dlt_engine_lock(&engine, "fresh", NULL);
    make_scarce(&hung, 100, 1);
    dlt_call_start(&try, &engine, DLT_TRYLOCK, fresh, 0);
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&hung, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&try, 100), DLOCK_OK, "%s", try.err.message);
    dlock_free(hung.lock);
    dlock_free(fresh);
    end();
}

Test(refused, a_store_that_refuses_more_is_asked_each_second_by_one_for_all)
{
    struct dlt_call hung, waits[3];

    begin("op_timeout=30s");
    make_scarce(&hung, 0, 10000);
    for (int i = 0; i < 3; i++)
        dlt_call_start(&waits[i], &engine, DLT_LOCK,
                       dlt_engine_lock(&engine, (const char *[]){"a", "b", "c"}[i], NULL), 0);
    for (unsigned asked = 2; asked < 6; asked++) {
        dlt_engine_advance(&engine, 999);
        cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), asked);
        dlt_engine_advance(&engine, 1);
    }
    memory_hooks_heal(engine.store, MEMORY_OPEN);
    dlt_engine_advance(&engine, 1000);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_call_finish(&waits[i], 0), DLOCK_OK, "%s", waits[i].err.message);
        dlock_free(waits[i].lock);
    }
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&hung, 1), DLOCK_OK);
    dlock_free(hung.lock);
    end();
}
