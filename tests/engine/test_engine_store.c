/* SPDX-License-Identifier: MIT */
/* C8, C13: does an acquire wait for a store that refuses, is not there or does not answer, and does
 * it say which of them it was? Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

#define NAME  "job"
#define GUARD "the server was started 4 s ago; see restart_guard"

static struct dlt_engine engine;

/* The hooked plugin with a guard time: until then it refuses all locks, and says why. */
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;
static _Atomic int64_t guard_ms;

static enum dlock_status guarded_trylock(void *self, const struct dlock_request *req,
                                         struct dlock_grant *grant, struct dlock_error *err)
{
    int64_t left_ms = guard_ms - dlt_engine_ms(&engine);

    if (left_ms <= 0)
        return dlock_plugin_memory_hooked()->ops->trylock(self, req, grant, err);
    grant->holder_ms = left_ms;
    return dlock_fail(err, "guarded", DLOCK_BUSY, 0, GUARD);
}

static void begin_guarded(int64_t ms)
{
    plugin = *dlock_plugin_memory_limited("store", DLOCK_CAP_WATCH);
    ops = *plugin.ops;
    ops.trylock = guarded_trylock;
    plugin.ops = &ops;
    guard_ms = ms;
    dlt_engine_open(&engine, "store", &(struct dlt_setup){.plugin = &plugin});
}

static unsigned logged_times(const char *text)
{
    unsigned count = 0;

    for (const char *at = strstr(engine.log, text); at != NULL; at = strstr(at + 1, text))
        count++;
    return count;
}

/* ---- a store that refuses for a time, and says why ---- */

Test(store, TRY_8_one_attempt_is_told_why_the_store_refuses)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock *lock;

    begin_guarded(5000);
    lock = dlt_engine_lock(&engine, NAME, NULL);
    cr_assert_eq(dlock_trylock(lock, &err), DLOCK_BUSY);
    cr_assert_str_eq(err.message, GUARD);
    cr_assert_eq(err.status, DLOCK_BUSY);
    cr_assert_eq(logged_times("waiting:"), 0, "nobody waits");
    dlock_free(lock);
    dlt_engine_close(&engine);
}

Test(store, C13_TRY_8_a_wait_for_a_store_that_refuses_is_logged_once_and_told_at_the_end)
{
    struct dlt_call call;
    struct dlock *lock;

    begin_guarded(5000);
    lock = dlt_engine_lock(&engine, NAME, NULL);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 3000);
    cr_assert_eq(dlt_call_finish(&call, 3200), DLOCK_TIMEOUT);
    cr_assert_str_eq(call.err.message, GUARD);
    cr_assert_eq(logged_times("waiting: " GUARD), 1);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 10000);
    cr_assert_eq(dlt_call_finish(&call, 10000), DLOCK_OK);
    cr_assert_lt(dlt_engine_ms(&engine), 6000);
    cr_assert_eq(logged_times("waiting: " GUARD), 2, "once for each acquire");
    dlock_free(lock);
    dlt_engine_close(&engine);
}

Test(store, TRY_8_a_holder_needs_no_text)
{
    struct dlock_client *rival;
    struct dlock *theirs, *lock;
    struct dlt_call call;

    begin_guarded(0);
    rival = dlt_engine_rival(&engine);
    theirs = dlt_rival_hold(rival, NAME, DLOCK_EXCLUSIVE);
    lock = dlt_engine_lock(&engine, NAME, NULL);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 300);
    cr_assert_eq(dlt_call_finish(&call, 500), DLOCK_TIMEOUT);
    cr_assert_str_eq(call.err.message, dlock_status_text(DLOCK_TIMEOUT));
    cr_assert_eq(logged_times("waiting:"), 0);
    dlock_free(lock);
    dlock_free(theirs);
    dlock_client_close(rival);
    dlt_engine_close(&engine);
}
