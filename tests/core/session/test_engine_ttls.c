/* SPDX-License-Identifier: MIT */
/* Tests: core/session/ttl_grid.c core/session/session_pool.c core/session/dispatch.c
 * core/hold/handle.c core/hold/unlock.c core/hold/renewer.c core/acquire/acquire.c
 * core/acquire/acquire_fsm.c core/api/adopt.c core/api/query.c */
/* Does core use the ttl that the store gives, and not the ttl that was asked for? */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_engine engine;
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;

/* What sessions and probes report from now on, and the last request that they saw. */
static int64_t least_ms, most_ms, step_ms;
static int64_t seen_ttl_ms, seen_renew_ttl_ms, seen_op_timeout_ms;

static const struct dlock_backend_ops *hooked(void)
{
    return dlock_plugin_memory_hooked()->ops;
}

static void info_fill(struct dlock_session_info *info)
{
    info->ttl_least_ms = least_ms;
    info->ttl_most_ms = most_ms;
    info->ttl_step_ms = step_ms;
}

static enum dlock_status grid_open(void *self, const struct dlock_host *host,
                                   const struct dlock_target *target, int64_t deadline_ns,
                                   struct dlock_session_info *info, struct dlock_error *err)
{
    info_fill(info);
    return hooked()->open(self, host, target, deadline_ns, info, err);
}

static enum dlock_status grid_probe(void *self, int64_t deadline_ns,
                                    struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                    struct dlock_error *err)
{
    info_fill(info);
    return hooked()->probe(self, deadline_ns, info, fn, arg, err);
}

static enum dlock_status grid_trylock(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    seen_ttl_ms = req->ttl_ms;
    seen_op_timeout_ms = req->op_timeout_ms;
    return hooked()->trylock(self, req, grant, err);
}

static enum dlock_status grid_renew(void *self, struct dlock_lease_op *const *op, size_t n,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    seen_renew_ttl_ms = op[0]->req->ttl_ms;
    return hooked()->renew(self, op, n, deadline_ns, err);
}

static void begin(const char *options)
{
    dlt_engine_open(&engine, "ttls", &(struct dlt_setup){.plugin = &plugin, .options = options});
}

static struct dlock_handle *lock_of(int64_t ttl_ms)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = ttl_ms};

    return dlt_engine_lock(&engine, "a", &options);
}

static void set_up(void)
{
    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.open = grid_open;
    ops.probe = grid_probe;
    ops.trylock = grid_trylock;
    ops.renew = grid_renew;
    plugin.ops = &ops;
    least_ms = 2000;
    step_ms = 1000;
}

static void tear_down(void)
{
    dlt_engine_close(&engine);
}

TestSuite(ttls, .init = set_up, .fini = tear_down);

Test(ttls, C2_50_ms_become_2_s)
{
    struct dlock_handle *lock;

    begin("renew=off");
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 50), 2000);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 0), 30000);
    lock = lock_of(50);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(seen_ttl_ms, 2000);
    cr_expect_eq(seen_op_timeout_ms, 500, "a quarter of what it became");
    cr_expect_eq(dlock_remaining_ms(lock), 2000 - 200);
    dlt_engine_advance(&engine, 1799);
    cr_expect_eq(dlock_state(lock), DLOCK_STATE_HELD);
    dlt_engine_advance(&engine, 2);
    cr_expect_eq(dlock_state(lock), DLOCK_STATE_LOST);
    dlock_free(lock);
}

Test(ttls, C14_the_renewer_renews_at_a_third_of_what_it_became)
{
    struct dlock_handle *lock;

    begin(NULL);
    lock = lock_of(50);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 660);
    cr_expect_eq(dlt_calls(&engine, MEMORY_RENEW), 0);
    dlt_engine_advance(&engine, 7);
    cr_expect_eq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_expect_eq(seen_renew_ttl_ms, 2000);
    cr_expect_eq(dlock_state(lock), DLOCK_STATE_HELD);
    dlock_free(lock);
}

Test(ttls, an_op_timeout_that_is_given_stays)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 50,
                                    .op_timeout_ms = 33};
    struct dlock_handle *lock;

    begin(NULL);
    lock = dlt_engine_lock(&engine, "a", &options);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(seen_op_timeout_ms, 33);
    dlock_free(lock);
}

/* A lazy client knows the grid with its first session, and the handle is older. */
Test(ttls, a_lazy_client_rounds_with_the_first_request)
{
    struct dlock_handle *lock;

    begin("open=lazy&renew=off");
    lock = lock_of(50);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 50), 50, "nothing is known");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 50), 2000);
    cr_expect_eq(seen_ttl_ms, 2000);
    cr_expect_eq(seen_op_timeout_ms, 500);
    cr_expect_eq(dlock_remaining_ms(lock), 2000 - 200);
    dlock_free(lock);
}

/* Its exchange has a quarter of the ttl that it became, not 12 ms. */
Test(ttls, C8_a_lazy_client_waits_for_as_long_as_a_connected_one)
{
    struct dlt_call call;
    struct dlock_handle *lock;

    begin("open=lazy&renew=off");
    lock = lock_of(50);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_SLOW, (struct memory_fault){.ms = 300});
    dlt_call_start(&call, &engine, DLT_TRYLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_OK);
    cr_expect_eq(dlt_call_ms(&call), 300);
    dlock_free(lock);
}

Test(ttls, a_lazy_client_refuses_with_the_first_session)
{
    struct dlt_call call;
    struct dlock_handle *lock;

    most_ms = 10000;
    begin("open=lazy");
    lock = lock_of(0);
    dlt_call_start(&call, &engine, DLT_LOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_CONFIG);
    cr_expect(strstr(call.err.message, "at most 10 s") != NULL, "%s", call.err.message);
    cr_expect_eq(seen_ttl_ms, 0, "no request was sent");
    dlock_free(lock);
}

Test(ttls, C14_renew_rounds_another_ttl)
{
    struct dlock_handle *lock;

    most_ms = 60000;
    begin("renew=off");
    lock = lock_of(2000);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 90000), DLOCK_CONFIG,
                 "whether it is held or not");
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 3100), DLOCK_OK);
    cr_expect_eq(seen_renew_ttl_ms, 4000);
    cr_expect_eq(dlock_remaining_ms(lock), 4000 - 400);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 60001), DLOCK_CONFIG);
    cr_expect_eq(dlock_state(lock), DLOCK_STATE_HELD, "a refusal costs nothing");
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_OK);
    cr_expect_eq(seen_renew_ttl_ms, 4000, "the refused ttl is forgotten");
    dlock_free(lock);
}

Test(ttls, more_than_the_most_is_CONFIG)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 39001};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;

    most_ms = 39999;
    begin(NULL);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 39001), 0, "40 s, rounded up");
    cr_assert_eq(dlock_new(engine.client, "a", 1, &options, &lock, &err), DLOCK_CONFIG);
    cr_expect_null(lock);
    cr_expect_str_eq(err.origin, "core");
    cr_expect(strstr(err.message, "at most 39 s") != NULL, "%s", err.message);
    options.ttl_ms = 39000;
    cr_assert_eq(dlock_new(engine.client, "a", 1, &options, &lock, &err), DLOCK_OK);
    cr_expect_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    dlock_free(lock);
}

Test(ttls, C13_a_lease_goes_on_where_the_rounded_ttl_is_the_same)
{
    struct dlock_handle *locks[3];
    struct dlt_call wait;

    begin(NULL);
    locks[0] = lock_of(50);
    locks[1] = lock_of(1900);
    locks[2] = lock_of(2100);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, locks[0], 0), DLOCK_OK);
    for (int i = 0; i < 2; i++) {
        dlt_call_start(&wait, &engine, DLT_LOCK, locks[i + 1], 0);
        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, locks[i], 0), DLOCK_OK);
        cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
        cr_expect_eq(dlt_calls(&engine, MEMORY_UNLOCK), i == 0 ? 0 : 1, "turn %d", i);
    }
    cr_expect_eq(seen_ttl_ms, 3000);
    for (int i = 0; i < 3; i++)
        dlock_free(locks[i]);
}

Test(ttls, adopt_rounds)
{
    char token[DLOCK_TOKEN_CHARS];
    struct dlock_handle *giver, *heir;

    begin("open=lazy&renew=off");
    giver = lock_of(30000);
    heir = lock_of(2500);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, giver, 0), DLOCK_OK);
    cr_assert_eq(dlock_token(giver, token, sizeof token), 32);
    cr_assert_eq(dlock_adopt(heir, token, NULL), DLOCK_OK);
    cr_expect_eq(seen_renew_ttl_ms, 3000);
    dlock_free(heir);
    dlock_free(giver);
}

/* A client that was never connected learns the grid from the query that adopt begins with. */
Test(ttls, adopt_refuses_what_is_too_long)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    char token[DLOCK_TOKEN_CHARS];
    struct dlock_client *rival;
    struct dlock_handle *giver, *heir;

    most_ms = 10000;
    begin("open=lazy");
    rival = dlt_engine_rival(&engine);
    giver = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    cr_assert_eq(dlock_token(giver, token, sizeof token), 32);
    heir = lock_of(10001);
    cr_assert_eq(dlock_adopt(heir, token, &err), DLOCK_CONFIG);
    cr_expect_eq(dlock_state(heir), DLOCK_STATE_FREE);
    cr_expect_eq(dlock_state(giver), DLOCK_STATE_HELD);
    dlock_free(heir);
    dlock_free(giver);
    dlock_client_close(rival);
}

static bool check_note(void *arg, const struct dlock_check *check)
{
    char *text = arg;

    if (strcmp(check->name, "ttl") == 0) {
        (void)snprintf(text, 64, "%s", check->found);
        cr_expect_null(check->advice);
        cr_expect_eq(check->clears, 0u);
    }
    return false;
}

/* The server was set up anew: renewals under way and new locks go by the probe. */
Test(ttls, TTL_2_a_probe_narrows_the_grid)
{
    struct dlock_handle *lock;

    begin("renew=off");
    lock = lock_of(2000);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    least_ms = 5000;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, NULL), DLOCK_OK);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 2000), 5000);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_OK);
    cr_expect_eq(seen_renew_ttl_ms, 5000);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(seen_ttl_ms, 5000);
    least_ms = step_ms = 0;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, NULL), DLOCK_OK);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 2000), 5000, "never wider again");
    dlock_free(lock);
}

/* A held lock does not fall to a new limit. */
Test(ttls, TTL_2_a_held_lock_stays_when_the_most_becomes_less)
{
    struct dlock_handle *lock;

    begin(NULL);
    lock = lock_of(30000);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    most_ms = 10000;
    cr_assert_eq(dlock_client_probe(engine.client, NULL, NULL, NULL), DLOCK_OK);
    cr_expect_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_OK);
    cr_expect_eq(seen_renew_ttl_ms, 30000);
    cr_expect_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_expect_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_CONFIG);
    dlock_free(lock);
}

Test(ttls, a_probe_tells_of_the_ttls)
{
    char text[64] = "";

    begin(NULL);
    cr_assert_eq(dlock_client_probe(engine.client, check_note, text, NULL), DLOCK_OK);
    cr_expect_str_eq(text, "whole seconds, at least 2 s");
    dlt_engine_close(&engine);
    text[0] = '\0';
    ops.probe = NULL;
    begin("open=lazy");
    cr_assert_eq(dlock_client_probe(engine.client, check_note, text, NULL), DLOCK_UNSUPPORTED);
    dlt_engine_close(&engine);
    begin(NULL);
    cr_assert_eq(dlock_client_probe(engine.client, check_note, text, NULL), DLOCK_UNSUPPORTED);
    cr_expect_str_eq(text, "whole seconds, at least 2 s");
    dlt_engine_close(&engine);
    text[0] = '\0';
    ops.probe = grid_probe;
    least_ms = step_ms = 0;
    begin(NULL);
    cr_assert_eq(dlock_client_probe(engine.client, check_note, text, NULL), DLOCK_OK);
    cr_expect_str_eq(text, "", "any ttl needs no words");
}

Test(ttls, a_grid_without_a_ttl_is_the_plugins_mistake)
{
    static struct dlt_engine other;
    struct dlock_error err = DLOCK_ERROR_INIT;

    begin(NULL);
    most_ms = 1999;
    cr_expect_eq(dlt_engine_try_open(&other, "ttls", &(struct dlt_setup){.plugin = &plugin}, &err),
                 DLOCK_INTERNAL);
    cr_expect(strstr(err.message, "open reports ttls that none fits") != NULL, "%s", err.message);
    cr_expect_eq(dlock_client_probe(engine.client, NULL, NULL, &err), DLOCK_INTERNAL);
    cr_expect(strstr(err.message, "probe reports ttls that none fits") != NULL, "%s", err.message);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 2000), 2000, "and is not taken over");
}

Test(ttls, what_no_lock_can_have_is_0)
{
    begin(NULL);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, 49), 0);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, -1), 0);
    cr_expect_eq(dlock_client_ttl_ms(engine.client, INT64_C(7) * 24 * 3600 * 1000 + 1), 0);
    cr_expect_eq(dlock_client_ttl_ms(NULL, 1000), 0);
}
