/* SPDX-License-Identifier: MIT */
/* Tests: core/session/session_pool.c */
/* A store that lets a client have no further connection: does whoever wants one get one of those
 * that there are? (C8, C13) */
#include "drop.h"
#include "engine.h"
#include "notices.h"

#include <criterion/criterion.h>

static struct dlt_engine engine;
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;
static int64_t connect_ms; /* what connecting takes */
static int room;           /* connections that the server has left for us */

static const struct dlock_backend_ops *hooked(void)
{
    return dlock_plugin_memory_hooked()->ops;
}

static enum dlock_status scarce_open(void *self, const struct dlock_host *host,
                                     const struct dlock_target *target, int64_t deadline_ns,
                                     struct dlock_session_info *info, struct dlock_error *err)
{
    int64_t ready_ns = host->now_ns(host->ctx) + connect_ms * DLT_MS;
    enum dlock_status status = hooked()->open(self, host, target, deadline_ns, info, err);

    info->caps &= ~DLOCK_CAP_CONCURRENT;
    if (status != DLOCK_OK)
        return status;
    if (room-- <= 0)
        return dlock_fail(err, "test", DLOCK_UNAVAILABLE, 0, "too many connections");
    dlt_engine_sleep_until(&engine, ready_ns < deadline_ns ? ready_ns : deadline_ns);
    if (ready_ns > deadline_ns)
        return dlock_fail(err, "test", DLOCK_UNAVAILABLE, 0, "no connection in time");
    return DLOCK_OK;
}

static void scarce_close(void *self, bool forked)
{
    room++;
    hooked()->close(self, forked);
}

static void begin(const char *options)
{
    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.open = scarce_open;
    ops.close = scarce_close;
    plugin.ops = &ops;
    plugin.caps &= ~DLOCK_CAP_CONCURRENT;
    connect_ms = 0;
    room = 1000;
    dlt_engine_open(&engine, "refused", &(struct dlt_setup){.plugin = &plugin, .options = options});
}

static void end(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_OPEN), dlt_calls(&engine, MEMORY_CLOSE));
}

static struct dlock_handle *take(const char *name)
{
    struct dlock_handle *lock = dlt_engine_lock(&engine, name, NULL);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    return lock;
}

static void hang(struct dlt_call *call, const char *name)
{
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){.times = 1});
    dlt_call_start(call, &engine, DLT_TRYLOCK, dlt_engine_lock(&engine, name, NULL), 0);
}

static void finish(struct dlt_call *call)
{
    cr_expect_eq(dlt_call_finish(call, 10), DLOCK_OK, "%s", call->err.message);
    dlock_free(call->lock);
}

/* The one connection that there is hangs until memory_hooks_go, and so many times another one
 * is refused, ms later. */
static void make_scarce(struct dlt_call *hung, int64_t ms, unsigned times)
{
    hang(hung, "hung");
    dlt_fault(&engine, MEMORY_OPEN, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .ms = ms, .times = times});
}

Test(refused, whoever_is_refused_a_further_connection_waits_for_one)
{
    struct dlock_handle *held, *fresh;
    struct dlt_call hung, try, unlock;

    begin(NULL);
    held = take("held");
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
    struct dlock_handle *fresh;
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

/* A caller in a hurry does not make others believe that the server has no room. */
/* Who waits for its turn to ask learns that it may, though who was refused does not wait on. */
Test(refused, a_refusal_makes_room_for_the_next_in_line)
{
    const struct dlock_options short_options = {
        .struct_size = sizeof short_options, .wait_ms = DLOCK_AS_OPTIONS, .op_timeout_ms = 500};
    struct dlock_handle *theirs, *watched, *brief, *patient;
    struct dlock_client *rival;
    struct dlt_call watch, refused, try;

    begin("connections=2&poll_max=60s&op_timeout=30s&queue=off");
    rival = dlt_engine_rival(&engine);
    theirs = dlt_rival_hold(rival, "watched", DLOCK_EXCLUSIVE);
    watched = dlt_engine_lock(&engine, "watched", NULL);
    patient = dlt_engine_lock(&engine, "patient", NULL);
    brief = dlt_engine_lock(&engine, "brief", &short_options);
    dlt_call_start(&watch, &engine, DLT_TIMEDLOCK, watched, 5000);
    dlt_fault(&engine, MEMORY_OPEN, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .ms = 300});
    dlt_call_start(&refused, &engine, DLT_TRYLOCK, brief, 0);
    dlt_call_start(&try, &engine, DLT_TRYLOCK, patient, 0);
    cr_assert_neq(dlt_call_finish(&refused, 1000), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&try, 3000), DLOCK_OK, "%s", try.err.message);
    cr_assert_eq(dlt_call_finish(&watch, 6000), DLOCK_TIMEOUT);
    dlock_free(watched);
    dlock_free(brief);
    dlock_free(patient);
    dlock_free(theirs);
    dlock_client_close(rival);
    end();
}

Test(refused, a_connection_that_was_not_made_in_time_is_no_refusal)
{
    struct dlt_call hung, hurry, calm;

    begin("op_timeout=500ms");
    connect_ms = 60;
    hang(&hung, "hung");
    dlt_engine_run(&engine, 60);
    dlt_call_start(&hurry, &engine, DLT_TIMEDLOCK, dlt_engine_lock(&engine, "a", NULL), 5);
    cr_assert_neq(dlt_call_finish(&hurry, 100), DLOCK_OK);
    dlock_free(hurry.lock);
    dlt_call_start(&calm, &engine, DLT_TRYLOCK, dlt_engine_lock(&engine, "b", NULL), 0);
    cr_expect_eq(dlt_call_finish(&calm, 100), DLOCK_OK, "%s", calm.err.message);
    dlock_free(calm.lock);
    memory_hooks_go(engine.store);
    finish(&hung);
    end();
}

/* A connection of ours that breaks makes room for another one. */
Test(refused, what_broke_makes_room)
{
    struct dlt_call hung, breaks, unlock;
    struct dlock_handle *held;

    begin("op_timeout=500ms");
    held = take("held");
    hang(&hung, "hung");
    room = 1;
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REQUEST, (struct memory_fault){.ms = 200});
    dlt_call_start(&breaks, &engine, DLT_TRYLOCK, dlt_engine_lock(&engine, "b", NULL), 0);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    cr_assert_eq(unlock.done, 0, "there is a third connection");
    cr_expect_eq(dlt_call_finish(&unlock, 250), DLOCK_OK, "%s", unlock.err.message);
    (void)dlt_call_finish(&breaks, 1000);
    dlock_free(breaks.lock);
    memory_hooks_go(engine.store);
    finish(&hung);
    dlock_free(held);
    end();
}

/* The store refuses more for good, and two connections are enough: one of them waits for
 * operations, the last one stays for the call that ends the wait. */
Test(refused, an_idle_connection_may_wait_after_a_refusal)
{
    struct dl_pool *pool;
    struct dlt_call one, two, more;
    struct dl_session *waits;

    begin(NULL);
    pool = &engine.client->pool;
    hang(&one, "one");
    hang(&two, "two");
    room = 0;
    dlt_call_start(&more, &engine, DLT_TRYLOCK, dlt_engine_lock(&engine, "more", NULL), 0);
    cr_assert_eq(more.done, 0, "there is a third connection");
    memory_hooks_go(engine.store);
    finish(&one);
    finish(&two);
    finish(&more);
    waits = dl_session_pool_take_idle(pool, DL_USE_WAIT);
    cr_assert_not_null(waits, "one was refused once, and no wait gets a connection");
    cr_assert_null(dl_session_pool_take_idle(pool, DL_USE_WAIT), "the last one is lent to a wait");
    dl_session_pool_put(pool, DL_USE_WAIT, waits, DLOCK_OK);
    end();
}

static enum dlock_status done_status(void)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};

    return dlt_notice_take(engine.client, &notice, NULL) == 1 ? notice.status : DLT_STUCK;
}

/* The one connection that there is waits for operations, and the store refuses another one. */
Test(refused, the_connection_that_waits_for_operations_comes_back_for_an_unlock)
{
    struct dlock_client *rival;
    struct dlock_handle *held, *theirs, *waiting;
    struct dlt_call unlock;
    unsigned waits;

    begin("poll_max=60s&waiter_lease=60s");
    rival = dlt_engine_rival(&engine);
    theirs = dlt_rival_hold(rival, "theirs", DLOCK_EXCLUSIVE);
    held = take("held");
    room = 0;
    waiting = dlt_engine_lock(&engine, "theirs", NULL);
    cr_assert_eq(dlock_op_start(waiting, DLOCK_OP_LOCK, 30000, NULL), DLOCK_OK);
    dlt_engine_run(&engine, 20);
    waits = dlt_calls(&engine, MEMORY_WAIT_ANY);
    cr_assert_gt(waits, 0, "the operation does not wait in the store");
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    cr_expect(unlock.done, "it waits for the session, which waits for the store");
    cr_expect_eq(dlt_call_finish(&unlock, 5), DLOCK_OK, "%s", unlock.err.message);
    cr_assert_eq(dlock_unlock(theirs, NULL), DLOCK_OK);
    for (int i = 0; i < 100 && dlock_state(waiting) != DLOCK_STATE_HELD; i++)
        dlt_engine_run(&engine, 600);
    cr_assert_eq(done_status(), DLOCK_OK);
    dlock_free(theirs);
    dlock_client_close(rival);
    (void)dlt_do(&engine, DLT_FREE, waiting, 0);
    (void)dlt_do(&engine, DLT_FREE, held, 0);
    end();
}

Test(refused, whoever_is_refused_while_another_one_connects_waits_for_that)
{
    struct dlt_call a, b;

    begin(NULL);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_PROTOCOL});
    room = -1; /* nor is there one for the release after it */
    dlt_call_start(&a, &engine, DLT_TRYLOCK, dlt_engine_lock(&engine, "k", NULL), 0);
    cr_assert_neq(dlt_call_finish(&a, 3000), DLOCK_OK);
    dlock_free(a.lock);
    room = 1;
    connect_ms = 30;
    dlt_call_start(&a, &engine, DLT_TIMEDLOCK, dlt_engine_lock(&engine, "a", NULL), 1000);
    dlt_call_start(&b, &engine, DLT_TIMEDLOCK, dlt_engine_lock(&engine, "b", NULL), 1000);
    cr_expect_eq(dlt_call_finish(&b, 100), DLOCK_OK, "%s", b.err.message);
    finish(&a);
    dlock_free(b.lock);
    end();
}

/* Where connections are scarce those who watch leave the last one to who ends their wait. */
Test(refused, unlock_does_not_wait_for_watchers)
{
    struct dlock_client *rival;
    struct dlt_call watch[2], unlock;
    struct dlock_handle *held, *others[2];

    begin("queue=off");
    rival = dlt_engine_rival(&engine);
    others[0] = dlt_rival_hold(rival, "x0", DLOCK_EXCLUSIVE);
    others[1] = dlt_rival_hold(rival, "x1", DLOCK_EXCLUSIVE);
    held = take("held");
    room = 1;
    for (int i = 0; i < 2; i++)
        dlt_call_start(&watch[i], &engine, DLT_TIMEDLOCK,
                       dlt_engine_lock(&engine, i == 0 ? "x0" : "x1", NULL), 8000);
    dlt_engine_advance(&engine, 3);
    dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
    cr_assert_eq(dlt_call_finish(&unlock, 2000), DLOCK_OK);
    for (int turn = 0; turn < 4; turn++) {
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, held, 0), DLOCK_OK);
        dlt_engine_run(&engine, 700);
        dlt_call_start(&unlock, &engine, DLT_UNLOCK, held, 0);
        cr_expect_eq(dlt_call_finish(&unlock, 1000), DLOCK_OK);
        cr_expect_leq(dlt_call_ms(&unlock), 50, "it waited for a watcher");
    }
    for (int i = 0; i < 2; i++) {
        (void)dlt_call_finish(&watch[i], 9000);
        dlock_free(watch[i].lock);
        dlock_free(others[i]);
    }
    dlock_free(held);
    dlock_client_close(rival);
    end();
}

/* What begins to idle after the renewer's last turn is found, too. */
Test(refused, the_renewer_looks_for_what_idles)
{
    struct dlt_call calls[2], unlocks[2];
    int64_t armed_ns;

    begin(NULL);
    for (int i = 0; i < 2; i++)
        hang(&calls[i], i == 0 ? "a" : "b");
    memory_hooks_go(engine.store);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(dlt_call_finish(&calls[i], 10), DLOCK_OK);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_HELD_REPLY, (struct memory_fault){.times = 2});
    for (int i = 0; i < 2; i++)
        dlt_call_start(&unlocks[i], &engine, DLT_UNLOCK, calls[i].lock, 0);
    dlt_engine_advance(&engine, 1); /* the renewer turns: nothing is held, nothing idles */
    memory_hooks_go(engine.store);
    dlt_settle();
    (void)pthread_mutex_lock(&engine.client->mutex);
    armed_ns = engine.client->renewer->armed_ns;
    (void)pthread_mutex_unlock(&engine.client->mutex);
    cr_expect_neq(armed_ns, DL_NEVER);
    for (int i = 0; i < 2; i++)
        finish(&unlocks[i]);
    end();
}

/* A short lease is not over by the time the store is asked for all. */
Test(refused, C14_the_renewer_asks_again_while_the_lease_lasts)
{
    struct dlock_client *rival;
    struct dlock_handle *held, *theirs, *watched;
    struct dlt_call watch;

    begin("ttl=1s&poll_max=60s&queue=off");
    rival = dlt_engine_rival(&engine);
    theirs = dlt_rival_hold(rival, "watched", DLOCK_EXCLUSIVE);
    watched = dlt_engine_lock(&engine, "watched", NULL);
    held = take("held");
    dlt_call_start(&watch, &engine, DLT_TIMEDLOCK, watched, 5000);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE});
    dlt_fault(&engine, MEMORY_OPEN, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE});
    dlt_engine_run(&engine, 2000);
    cr_expect_eq(dlock_state(held), DLOCK_STATE_HELD);
    cr_expect_eq(dlt_call_finish(&watch, 6000), DLOCK_TIMEOUT);
    dlt_drop(dlock_unlock(held, NULL));
    dlock_free(held);
    dlock_free(watched);
    dlock_free(theirs);
    dlock_client_close(rival);
    end();
}
