/* SPDX-License-Identifier: MIT */
/* Tests: core/session/session_pool.c core/session/wait.c */
/* Are sessions that serve one call at a time lent fairly, and what broke never used again (C9)? */
#include "engine.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_engine engine;

/* The hooked plugin as if a session were a connection, and renewals that a test can hold up. */
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    bool shut[128];                    /* by the first byte of the name */
    enum dlock_status instead_of[128]; /* what an element of a renewal answers */
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static unsigned forgets;
#define DURABLE (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE)
static bool durable; /* sessions say so */

static const struct dlock_backend_ops *hooked(void)
{
    return dlock_plugin_memory_hooked()->ops;
}

static enum dlock_status pooled_open(void *self, const struct dlock_host *host,
                                     const struct dlock_target *target, int64_t deadline_ns,
                                     struct dlock_session_info *info, struct dlock_error *err)
{
    enum dlock_status status = hooked()->open(self, host, target, deadline_ns, info, err);

    info->caps &= ~DLOCK_CAP_CONCURRENT;
    if (durable)
        info->caps |= DURABLE;
    return status;
}

static enum dlock_status pooled_renew(void *self, struct dlock_lease_op *const *op, size_t n,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status;

    (void)pthread_mutex_lock(&gate.mutex);
    while (gate.shut[op[0]->req->name[0]])
        (void)pthread_cond_wait(&gate.moved, &gate.mutex);
    (void)pthread_mutex_unlock(&gate.mutex);
    status = hooked()->renew(self, op, n, deadline_ns, err);
    for (size_t i = 0; i < n; i++)
        if (gate.instead_of[op[i]->req->name[0]] != DLOCK_OK)
            op[i]->status = gate.instead_of[op[i]->req->name[0]];
    return status;
}

/* [FGT-2]: without a session when none is open. */
static void pooled_forget(void *self, const struct dlock_request *req)
{
    forgets++;
    if (self != NULL)
        hooked()->forget(self, req);
    else
        dlock_plugin_memory()->ops->forget(NULL, req);
}

static void gate_set(char name, bool shut)
{
    (void)pthread_mutex_lock(&gate.mutex);
    gate.shut[(unsigned char)name] = shut;
    (void)pthread_cond_broadcast(&gate.moved);
    (void)pthread_mutex_unlock(&gate.mutex);
}

static void begin(const char *options)
{
    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.open = pooled_open;
    ops.renew = pooled_renew;
    ops.forget = pooled_forget;
    plugin.ops = &ops;
    plugin.caps &= ~DLOCK_CAP_CONCURRENT;
    plugin.caps |= DURABLE;
    dlt_engine_open(&engine, "pool", &(struct dlt_setup){.plugin = &plugin, .options = options});
}

static unsigned open_now(void)
{
    return dlt_calls(&engine, MEMORY_OPEN) - dlt_calls(&engine, MEMORY_CLOSE);
}

static void end(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    cr_assert_eq(open_now(), 0, "%u sessions were left open", open_now());
}

static struct dlock_handle *take(const char *name)
{
    struct dlock_handle *lock = dlt_engine_lock(&engine, name, NULL);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    return lock;
}

/* Leaves n connected sessions behind that nobody uses. */
static void make_idle(unsigned n)
{
    struct dlt_call calls[16];
    struct dlock_handle *locks[16];

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){.times = n});
    for (unsigned i = 0; i < n; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "idle%u", i);
        locks[i] = dlt_engine_lock(&engine, name, NULL);
        dlt_call_start(&calls[i], &engine, DLT_TRYLOCK, locks[i], 0);
    }
    memory_hooks_go(engine.store);
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(dlt_call_finish(&calls[i], 10), DLOCK_OK);
        cr_assert_eq(dlt_do(&engine, DLT_FREE, locks[i], 0), DLOCK_OK);
    }
    cr_assert_eq(open_now(), n);
}

static void refuse_more(void)
{
    dlt_fault(&engine, MEMORY_OPEN, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 10000});
}

/* Durability and safe failovers alone, and for as long as the client is open. */
Test(pool, C16_what_a_later_connection_does_not_find_is_gone)
{
    const struct dlock_host *host = NULL;
    uint64_t caps = 0;

    durable = true;
    begin(NULL);
    host = &engine.client->host.table;
    caps = dlock_client_caps(engine.client);
    cr_assert_eq(caps & DURABLE, DURABLE);
    host->session_caps(host->ctx, NULL, DLOCK_CAP_CRASH_SAFE);
    cr_assert_eq(dlock_client_caps(engine.client), caps & ~DLOCK_CAP_FENCE_DURABLE);
    host->session_caps(host->ctx, NULL, DURABLE);
    cr_assert_eq(dlock_client_caps(engine.client), caps & ~DLOCK_CAP_FENCE_DURABLE);
    engine.client->pool.info.caps |= DLOCK_CAP_FAILOVER_SAFE; /* no store of this kit has it */
    host->session_caps(host->ctx, NULL, DURABLE);
    cr_assert_eq(dlock_client_caps(engine.client) & DLOCK_CAP_FAILOVER_SAFE, 0);
    end();
}

Test(pool, an_idle_session_is_used_again)
{
    begin(NULL);
    for (int i = 0; i < 20; i++) {
        struct dlock_handle *lock = take("a");

        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
        dlock_free(lock);
    }
    cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), 1);
    end();
}

Test(pool, C9_a_session_that_may_be_broken_is_closed_and_replaced)
{
    static const enum dlock_status broken[] = {DLOCK_UNKNOWN, DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM,
                                               DLOCK_AUTH,    DLOCK_PROTOCOL,    DLOCK_INTERNAL};

    begin(NULL);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct dlock_handle *lock = take("a");
        struct memory_seen before, after;
        unsigned opens = dlt_calls(&engine, MEMORY_OPEN);

        dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE, (struct memory_fault){.status = broken[i]});
        cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), broken[i]);
        (void)memory_hooks_last(engine.store, MEMORY_RENEW, &before);
        cr_assert_eq(open_now(), 0, "%s", dlock_status_name((int)broken[i]));
        cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_OK);
        (void)memory_hooks_last(engine.store, MEMORY_RENEW, &after);
        cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), opens + 1);
        dlock_free(lock);
    }
    end();
}

Test(pool, C9_one_bad_element_of_a_renewal_breaks_the_session_whatever_the_others_say)
{
    struct dlock_handle *a, *b, *c;

    begin(NULL);
    a = take("a");
    b = take("b");
    c = take("c");
    gate.instead_of['a'] = DLOCK_CONFIG;
    gate.instead_of['b'] = DLOCK_UNKNOWN;
    gate.instead_of['c'] = DLOCK_CONFIG;
    dlt_engine_advance(&engine, 10000);
    cr_assert_geq(dlt_calls(&engine, MEMORY_RENEW), 1);
    cr_assert_eq(open_now(), 0);
    memset(gate.instead_of, 0, sizeof gate.instead_of);
    dlock_free(a);
    dlock_free(b);
    dlock_free(c);
    end();
}

/* [WAT-1] UNAVAILABLE of watch: it cannot watch now, and core polls instead. */
Test(pool, WAT_1_a_watch_that_is_not_to_be_had_costs_no_session)
{
    struct dlock_client *rival;
    struct dlock_handle *theirs, *lock;
    struct dlt_call call;
    unsigned opens;

    begin("queue=off");
    make_idle(3);
    rival = dlt_engine_rival(&engine);
    theirs = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    lock = dlt_engine_lock(&engine, "a", NULL);
    opens = dlt_calls(&engine, MEMORY_OPEN);
    dlt_fault(&engine, MEMORY_WATCH, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 1000});
    dlt_call_start(&call, &engine, DLT_TIMEDLOCK, lock, 3000);
    cr_assert_eq(dlt_call_finish(&call, 3200), DLOCK_TIMEOUT);
    cr_assert_geq(dlt_calls(&engine, MEMORY_WATCH), 3);
    cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), opens, "sessions that worked were closed");
    dlock_free(lock);
    dlock_free(theirs);
    dlock_client_close(rival);
    end();
}

Test(pool, what_does_not_break_a_session_keeps_it)
{
    static const enum dlock_status fine[] = {DLOCK_UNSUPPORTED, DLOCK_INVALID};

    begin(NULL);
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        struct dlock_handle *lock = take("a");

        dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE, (struct memory_fault){.status = fine[i]});
        cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), fine[i]);
        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
        dlock_free(lock);
    }
    cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), 1);
    end();
}

Test(pool, acquirers_leave_a_connection_to_those_who_hold)
{
    struct dlt_call tries[6], unlock;
    struct dlock_handle *locks[6], *held;

    begin("connections=2");
    held = take("held");
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){.times = 1});
    for (int i = 0; i < 6; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = dlt_engine_lock(&engine, name, NULL);
        dlt_call_start(&tries[i], &engine, DLT_TRYLOCK, locks[i], 0);
    }
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 2, "only one acquirer at a time");
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    cr_assert_eq(dlt_call_finish(&unlock, 0), DLOCK_OK, "the release waited for acquirers");
    memory_hooks_go(engine.store);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(dlt_call_finish(&tries[i], 10), DLOCK_OK);
        cr_assert_eq(dlt_do(&engine, DLT_FREE, locks[i], 0), DLOCK_OK);
    }
    cr_assert_leq(dlt_calls(&engine, MEMORY_OPEN), 3);
    dlock_free(held);
    end();
}

/* One connection comes back; an acquirer waits, who may not have it, and a holder, who may. */
Test(pool, a_connection_that_comes_back_wakes_whoever_may_have_it)
{
    struct dlock_handle *one, *two, *held, *fresh;
    struct dlt_call renew_one, renew_two, try, unlock;

    begin("connections=2");
    one = take("1");
    two = take("2");
    held = take("held");
    fresh = dlt_engine_lock(&engine, "fresh", NULL);
    gate_set('1', true);
    gate_set('2', true);
    dlt_call_start(&renew_one, &engine, DLT_RENEW, one, 0);
    dlt_call_start(&renew_two, &engine, DLT_RENEW, two, 0);
    dlt_call_start(&try, &engine, DLT_TRYLOCK, fresh, 0);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    gate_set('1', false);
    dlt_settle(); /* no clock moves: the wake-up must come from the connection */
    cr_assert_eq(renew_one.done, 1);
    cr_assert_eq(unlock.done, 1, "the release slept on");
    gate_set('2', false);
    cr_assert_eq(dlt_call_finish(&renew_one, 1), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&renew_two, 1), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&unlock, 1), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&try, 1), DLOCK_OK);
    dlock_free(one);
    dlock_free(two);
    dlock_free(held);
    dlock_free(fresh);
    end();
}

Test(pool, a_spent_budget_is_told_at_the_deadline)
{
    struct dlock_handle *a, *b;
    struct dlt_call hung, call;

    begin("connections=2");
    a = dlt_engine_lock(&engine, "a", NULL);
    b = dlt_engine_lock(&engine, "b", NULL);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_call_start(&hung, &engine, DLT_TRYLOCK, a, 0);
    dlt_call_start(&call, &engine, DLT_TRYLOCK, b, 0);
    cr_assert_eq(dlt_call_finish(&call, 3000), DLOCK_UNAVAILABLE);
    cr_assert_leq(dlt_call_ms(&call), 2100);
    cr_assert_not_null(strstr(call.err.message, "connections="));
    memory_hooks_go(engine.store);
    cr_assert_eq(dlt_call_finish(&hung, 10), DLOCK_OK);
    dlock_free(a);
    dlock_free(b);
    end();
}

Test(pool, waiters_do_not_eat_the_connections_of_others)
{
    struct dlt_call waits[5];
    struct dlock_handle *locks[5], *held, *other;

    begin("connections=2");
    held = take("a");
    for (int i = 0; i < 5; i++) {
        locks[i] = dlt_engine_lock(&engine, "a", NULL);
        dlt_call_start(&waits[i], &engine, DLT_LOCK, locks[i], 0);
    }
    dlt_engine_run(&engine, 100);
    other = take("b");
    cr_assert_eq(dlt_do(&engine, DLT_FREE, other, 0), DLOCK_OK);
    cr_assert_leq(open_now(), 4, "two operations, two waiters");
    cr_assert_eq(dlt_do(&engine, DLT_FREE, held, 0), DLOCK_OK);
    for (int left = 5; left > 0; left--) {
        int i = 0;

        while (!waits[i].done || locks[i] == NULL) {
            dlt_engine_advance(&engine, 1);
            i = (i + 1) % 5;
        }
        cr_assert_eq(dlt_call_finish(&waits[i], 0), DLOCK_OK);
        cr_assert_eq(dlt_do(&engine, DLT_FREE, locks[i], 0), DLOCK_OK);
        locks[i] = NULL;
    }
    end();
}

/* The store's server was restarted: every connection that idles is dead. */
Test(pool, stale_sessions_are_invisible_to_trylock_and_unlock)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .renew = DLOCK_OFF};
    struct dlock_handle *lock;

    begin(NULL);
    make_idle(12);
    memory_hooks_kill_sessions(engine.store);
    lock = dlt_engine_lock(&engine, "a", &options);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    make_idle(12);
    memory_hooks_kill_sessions(engine.store);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    dlock_free(lock);
    end();
}

Test(pool, a_store_that_cannot_be_reached_is_told)
{
    struct dlock_handle *lock;
    struct dlt_call call;

    begin(NULL);
    lock = take("a");
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_DIE, (struct memory_fault){0});
    refuse_more();
    dlt_call_start(&call, &engine, DLT_UNLOCK, lock, 0);
    cr_assert_eq(dlt_call_finish(&call, 3000), DLOCK_UNAVAILABLE);
    cr_assert_leq(dlt_call_ms(&call), 2100);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_UNAVAILABLE);
    memory_hooks_heal(engine.store, MEMORY_OPEN);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_BUSY);
    dlock_free(lock);
    end();
}

/* [FGT-1] [UNL-4]: what the slot refers to is freed, also when nobody can be told of the end. */
Test(pool, an_attempt_whose_release_cannot_leave_is_forgotten)
{
    struct dlock_handle *lock;

    begin(NULL);
    lock = dlt_engine_lock(&engine, "a", NULL);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY, (struct memory_fault){.ms = 5000});
    refuse_more();
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_UNKNOWN);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(forgets, 1);
    dlock_free(lock);
    memory_hooks_heal(engine.store, MEMORY_OPEN);
    end();
}

Test(pool, a_release_that_cannot_leave_is_forgotten_and_may_be_repeated)
{
    struct dlock_handle *lock;

    begin(NULL);
    lock = take("a");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE, (struct memory_fault){.status = DLOCK_UNKNOWN});
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_UNKNOWN);
    refuse_more();
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(forgets, 1);
    memory_hooks_heal(engine.store, MEMORY_OPEN);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(forgets, 1, "the last call of an attempt, once");
    dlock_free(lock);
    end();
}

/* armed_ns: when the renewer wakes by itself. */
Test(pool, an_idle_client_sleeps_for_ever)
{
    struct dlock_handle *lock;

    begin(NULL);
    lock = take("a");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    dlt_engine_advance(&engine, 1000);
    cr_assert_eq(engine.client->renewer->armed_ns, DL_NEVER);
    make_idle(2);
    cr_assert_lt(engine.client->renewer->armed_ns, DL_NEVER, "it was not told of a second session");
    dlt_engine_advance(&engine, 61000);
    cr_assert_eq(open_now(), 1);
    dlock_free(lock);
    end();
}

Test(pool, what_idles_for_a_minute_is_given_back)
{
    begin(NULL);
    make_idle(12);
    dlt_engine_advance(&engine, 30000);
    dlt_engine_advance(&engine, 29000);
    cr_assert_eq(open_now(), 12);
    dlt_engine_advance(&engine, 1100);
    cr_assert_eq(open_now(), 1);
    dlt_engine_advance(&engine, 600000);
    cr_assert_eq(open_now(), 1, "one stays");
    end();
}

Test(pool, a_refused_open_says_why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    memory_hooks_reset("pool");
    cr_assert_eq(
        memory_hooks_fault("pool", MEMORY_OPEN,
                           &(struct memory_fault){.kind = MEMORY_REFUSE, .status = DLOCK_AUTH}),
        0);
    cr_assert_eq(dlt_engine_try_open(&engine, "pool", NULL, &err), DLOCK_AUTH);
    cr_assert_str_eq(err.message, "refused by a test");
    cr_assert_str_eq(err.origin, "memory");
    cr_assert_eq(dlt_calls(&engine, MEMORY_CLOSE), 1, "close comes after a failed open, too");
}
