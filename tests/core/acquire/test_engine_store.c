/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/acquire_steps.c core/acquire/acquire.c */
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
    struct dlock_handle *lock;

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
    struct dlock_handle *lock;

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
    struct dlock_handle *theirs, *lock;
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

/* ---- a store that is not there, or does not answer ---- */

static void begin(const char *options)
{
    dlt_engine_open(&engine, "store", &(struct dlt_setup){.options = options});
}

static void fail_all(enum memory_slot slot, enum dlock_status status)
{
    dlt_fault(&engine, slot, MEMORY_REFUSE,
              (struct memory_fault){.status = status, .times = 1000000});
}

static void end(struct dlock_handle *lock)
{
    (void)dlt_do(&engine, DLT_FREE, lock, 0);
    dlt_engine_close(&engine);
}

/* A lazy client of a store that begins to answer 3 s after the call. */
static void await_the_start(const char *options, enum dlock_status before)
{
    struct dlock_handle *lock;
    struct dlt_call call;

    begin(options);
    cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), 0, "lazy");
    cr_assert_str_eq(dlock_client_server(engine.client), "");
    cr_assert_neq(dlock_client_caps(engine.client) & DLOCK_CAP_FENCE, 0, "what the plugin can do");
    fail_all(MEMORY_OPEN, before);
    lock = dlt_engine_lock(&engine, NAME, NULL);
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 10000);
    dlt_engine_run(&engine, 3000);
    cr_assert_not(call.done);
    memory_hooks_heal(engine.store, MEMORY_OPEN);
    cr_assert_eq(dlt_call_finish(&call, 2000), DLOCK_OK);
    cr_assert_eq(logged_times("waiting: refused by a test"), 1, "what it waited for");
    cr_assert_neq(dlock_fence(lock), 0);
    cr_assert_str_neq(dlock_client_server(engine.client), "");
    end(lock);
}

Test(store, C13_a_store_that_starts_3_s_after_the_call_is_waited_for)
{
    await_the_start("open=lazy", DLOCK_UNAVAILABLE);
}

Test(store, C13_so_is_one_whose_nodes_are_too_few_at_first)
{
    await_the_start("open=lazy", DLOCK_NO_QUORUM);
}

Test(store, C8_one_attempt_at_a_store_that_is_not_there_is_told_at_once)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock;

    begin("open=lazy");
    fail_all(MEMORY_OPEN, DLOCK_UNAVAILABLE);
    lock = dlt_engine_lock(&engine, NAME, NULL);
    cr_assert_eq(dlock_trylock(lock, &err), DLOCK_UNAVAILABLE);
    cr_assert_str_eq(err.message, "refused by a test");
    cr_assert_eq(logged_times("waiting:"), 0, "nobody waits");
    cr_assert_eq(dlock_client_inspect(engine.client, NAME, strlen(NAME), NULL, NULL, &err),
                 DLOCK_INVALID);
    end(lock);
}

Test(store, C8_what_does_not_pass_by_itself_ends_a_wait_at_once)
{
    static const enum dlock_status final[] = {DLOCK_AUTH, DLOCK_CONFIG, DLOCK_PROTOCOL,
                                              DLOCK_INVALID};

    begin("open=lazy");
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++) {
        struct dlock_handle *lock = dlt_engine_lock(&engine, NAME, NULL);
        struct dlt_call call;

        memory_hooks_reset(engine.store);
        fail_all(MEMORY_OPEN, final[i]);
        dlt_call_start(&call, &engine, DLT_LOCK, lock, 0);
        cr_assert_eq(dlt_call_finish(&call, 10), final[i]);
        cr_assert_str_eq(call.err.message, "refused by a test");
        dlock_free(lock);
    }
    dlt_engine_close(&engine);
}

Test(store, C6_a_lazy_client_finds_out_later_that_there_are_no_fences)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .fence = DLOCK_ON};
    struct dlock_handle *lock;

    plugin = *dlock_plugin_memory_hooked();
    (void)dlock_plugin_memory_limited("store", DLOCK_CAP_FENCE); /* sessions have none */
    dlt_engine_open(&engine, "store",
                    &(struct dlt_setup){.plugin = &plugin, .options = "open=lazy"});
    lock = dlt_engine_lock(&engine, NAME, &options);
    cr_assert_eq(dlt_do(&engine, DLT_TIMEDLOCK, lock, 1000), DLOCK_UNSUPPORTED);
    end(lock);
}

/* C8: at the deadline, and it says which it was. */
Test(store, C8_the_deadline_alone_ends_a_wait_for_a_store_that_fails)
{
    static const enum dlock_status failures[] = {DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM, DLOCK_UNKNOWN};

    begin(NULL);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        struct dlock_handle *lock = dlt_engine_lock(&engine, NAME, NULL);
        struct dlt_call call;

        memory_hooks_reset(engine.store);
        fail_all(MEMORY_TRYLOCK, failures[i]);
        dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 5000);
        cr_assert_eq(dlt_call_finish(&call, 5200), failures[i]);
        cr_assert_geq(dlt_call_ms(&call), 4900);
        cr_assert_leq(dlt_call_ms(&call), 5100);
        cr_assert_str_eq(call.err.message, "refused by a test");
        dlock_free(lock);
    }
    dlt_engine_close(&engine);
}

/* Each request is lost; an exchange is given up after op_timeout, the wait is not. */
Test(store, C8_a_silent_store_is_asked_again_with_the_same_token)
{
    struct memory_seen first, last;
    struct dlock_handle *lock;
    struct dlt_call call;

    begin(NULL);
    lock = dlt_engine_lock(&engine, NAME, NULL);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = 2000, .times = 1000});
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 30000);
    (void)memory_hooks_last(engine.store, MEMORY_TRYLOCK, &first);
    dlt_engine_run(&engine, 7000);
    cr_assert_not(call.done);
    cr_assert_geq(dlt_calls(&engine, MEMORY_TRYLOCK), 3);
    memory_hooks_heal(engine.store, MEMORY_TRYLOCK);
    cr_assert_eq(dlt_call_finish(&call, 4000), DLOCK_OK);
    (void)memory_hooks_last(engine.store, MEMORY_TRYLOCK, &last);
    cr_assert_eq(memcmp(first.token, last.token, DLOCK_TOKEN_SIZE), 0);
    end(lock);
}

static int64_t open_by_ns;

static enum dlock_status timed_open(void *self, const struct dlock_host *host,
                                    const struct dlock_target *target, int64_t deadline_ns,
                                    struct dlock_session_info *info, struct dlock_error *err)
{
    open_by_ns = deadline_ns;
    return dlock_plugin_memory_hooked()->ops->open(self, host, target, deadline_ns, info, err);
}

Test(store, C8_opening_takes_no_longer_than_a_lock_is_waited_for)
{
    static const struct {
        const char *options;
        int64_t ms;
    } cases[] = {{"wait=700ms", 700},
                 {"wait=70s", 5000},
                 {"connect_timeout=1s", 1000},
                 {"wait=0", 5000}}; /* one attempt */

    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.open = timed_open;
    plugin.ops = &ops;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dlt_engine_open(&engine, "store",
                        &(struct dlt_setup){.plugin = &plugin, .options = cases[i].options});
        cr_assert_eq(open_by_ns - engine.now_ns, cases[i].ms * DLT_MS, "%s", cases[i].options);
        dlt_engine_close(&engine);
    }
}
