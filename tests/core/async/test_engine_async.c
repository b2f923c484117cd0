/* SPDX-License-Identifier: MIT */
/* Tests: core/async/acquire_async.c core/async/driver.c core/acquire/acquire.c */
/* What does an operation of dlock_op_start do while the store is silent, and when it is handed a
 * claim or cancelled meanwhile? Virtual time. */
#include "fake_session.h"
#include "notices.h"

#include <criterion/criterion.h>

#define OWN_MS 300 /* how long the silent store takes to fail */

static struct dlt_engine engine;

static void open_memory(const char *options)
{
    dlt_engine_open(&engine, "async", &(struct dlt_setup){.options = options});
}

static struct dlock_handle *lock_of(const char *name)
{
    return dlt_engine_lock(&engine, name, NULL);
}

static struct dlock_handle *held_of(const char *name)
{
    struct dlock_handle *lock = lock_of(name);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    return lock;
}

static void start(struct dlock_handle *lock, enum dlock_op op, int64_t timeout_ms)
{
    cr_assert_eq(dlock_op_start(lock, op, timeout_ms, NULL), DLOCK_OK);
    dlt_settle();
}

/* The status of the DONE that is queued for the handle. */
static enum dlock_status done(const struct dlock_handle *lock)
{
    static struct dlock_notice taken[16]; /* before they were asked for */
    static size_t count;
    struct dlock_notice notice = {.struct_size = sizeof notice};

    while (dlt_notice_take(engine.client, &notice, NULL) == 1) {
        cr_assert_lt(count, 16);
        taken[count++] = notice;
    }
    for (size_t i = 0; i < count; i++) {
        enum dlock_status status = taken[i].status;

        if (taken[i].lock != lock || taken[i].kind != DLOCK_NOTICE_DONE)
            continue;
        taken[i] = taken[--count];
        return status;
    }
    return DLT_STUCK;
}

static void close_all(struct dlock_handle **locks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)dlt_do(&engine, DLT_FREE, locks[i], 0);
    dlt_engine_close(&engine);
}

/* The operation is handed the claim while both threads of the driver wait for a silent store, and
 * goes on when it counts as stalled and its deadline is over. */
Test(async, C6_C13_a_claim_that_is_handed_to_a_stalled_operation_is_held)
{
    struct dlock_handle *held, *waiting, *other, *renewed[4];
    uint64_t fence = 0;

    open_memory("ttl=3s&op_timeout=1s");
    held = held_of("a");
    waiting = lock_of("a");
    other = lock_of("a");
    for (int i = 0; i < 4; i++)
        renewed[i] = held_of((const char[]){(char)('0' + i), '\0'});
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = OWN_MS, .times = 4});
    start(waiting, DLOCK_OP_LOCK, 500);
    start(renewed[0], DLOCK_OP_RENEW, 0);
    start(renewed[1], DLOCK_OP_RENEW, 0);
    dlt_engine_run(&engine, 50);
    start(renewed[2], DLOCK_OP_RENEW, 0);
    start(renewed[3], DLOCK_OP_RENEW, 0);
    dlt_engine_run(&engine, 50);
    fence = dlock_fence(held);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, held, 0), DLOCK_OK);
    dlt_engine_run(&engine, 2 * OWN_MS);
    cr_assert_eq(done(waiting), DLOCK_OK);
    cr_assert_eq(dlock_state(waiting), DLOCK_STATE_HELD);
    cr_assert_gt(dlock_fence(waiting), fence);
    fence = dlock_fence(waiting);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, waiting, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
    cr_assert_gt(dlock_fence(other), fence);
    close_all((struct dlock_handle *[]){held, waiting, other, renewed[0], renewed[1], renewed[2],
                                        renewed[3]},
              7);
}

/* Each grant comes so late that too little of it is left: the two operations that the threads make
 * give it back and try again, for 20 s. */
Test(async, C19_operations_that_try_again_and_again_let_others_end)
{
    struct dlock_handle *busy[2], *brief;

    open_memory("ttl=1s&op_timeout=2s&queue=off");
    busy[0] = lock_of("a");
    busy[1] = lock_of("b");
    brief = lock_of("c");
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_SLOW,
              (struct memory_fault){.ms = 950, .times = 1000});
    start(busy[0], DLOCK_OP_LOCK, 20000);
    start(busy[1], DLOCK_OP_LOCK, 20000);
    dlt_engine_run(&engine, 50);
    start(brief, DLOCK_OP_LOCK, 100);
    dlt_engine_run(&engine, 5000);
    cr_assert_neq(done(brief), DLT_STUCK, "it ends when the others have ended");
    dlt_engine_run(&engine, 30000);
    cr_assert_neq(done(busy[0]), DLT_STUCK);
    cr_assert_neq(done(busy[1]), DLT_STUCK);
    close_all((struct dlock_handle *[]){busy[0], busy[1], brief}, 3);
}

Test(async, C19_2_a_cancelled_wait_for_a_session_ends_at_once)
{
    struct dlock_handle *a, *b, *waiting;

    fake_session_begin(&engine);
    dlt_engine_open(&engine, "session",
                    &(struct dlt_setup){.plugin = fake_session_plugin(),
                                        .options = "connections=2&ttl=30s&op_timeout=2s"});
    a = held_of("a");
    b = held_of("b");
    waiting = lock_of("c");
    start(waiting, DLOCK_OP_LOCK, DLOCK_FOREVER);
    dlt_engine_run(&engine, 20);
    cr_assert_eq(done(waiting), DLT_STUCK);
    dlock_cancel(waiting);
    dlt_settle();
    cr_assert_eq(done(waiting), DLOCK_CANCELED);
    close_all((struct dlock_handle *[]){a, b, waiting}, 3);
}

/* Holders of a semaphore hand nothing on: there is nothing to wait for. */
Test(async, C21_an_operation_asks_the_store_of_a_semaphore_at_once)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .limit = 2};
    struct dlock_handle *held, *waiting;

    open_memory(NULL);
    held = dlt_engine_lock(&engine, "a", &options);
    waiting = dlt_engine_lock(&engine, "a", &options);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, held, 0), DLOCK_OK);
    start(waiting, DLOCK_OP_LOCK, 1000);
    cr_assert_eq(done(waiting), DLOCK_OK);
    close_all((struct dlock_handle *[]){held, waiting}, 2);
}

Test(async, C19_2_a_cancel_that_came_early_is_not_forgotten_by_the_next)
{
    struct dlock_handle *lock;

    open_memory(NULL);
    lock = lock_of("a");
    dlock_cancel(lock);
    start(lock, DLOCK_OP_UNLOCK, 0);
    dlock_cancel(lock); /* the operation is under way until its DONE is taken */
    cr_assert_eq(done(lock), DLOCK_NOT_HELD);
    start(lock, DLOCK_OP_LOCK, 1000);
    cr_assert_eq(done(lock), DLOCK_CANCELED);
    close_all(&lock, 1);
}

/* Names that begin with 'h' are at another server than all others. */
static uint32_t two_servers(void *self, const unsigned char *name, uint32_t name_len)
{
    (void)self;
    (void)name_len;
    return name[0] == 'h' ? 1 : 0;
}

/* Three renewals find out that the server with their names is silent; the others there are not
 * sent. The operations at the other server are behind all of them. */
Test(async, C19_a_silent_server_ends_no_operation_at_another_one)
{
    static struct dlock_plugin plugin;
    static struct dlock_backend_ops ops;
    struct dlock_handle *dead[5], *renewed, *unlocked;

    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.server_of = two_servers;
    plugin.ops = &ops;
    dlt_engine_open(&engine, "servers",
                    &(struct dlt_setup){.plugin = &plugin, .options = "ttl=3s&op_timeout=1s"});
    for (int i = 0; i < 5; i++)
        dead[i] = held_of((const char[]){(char)('0' + i), '\0'});
    renewed = held_of("h1");
    unlocked = held_of("h2");
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = OWN_MS, .times = 3});
    for (int i = 0; i < 5; i++)
        start(dead[i], DLOCK_OP_RENEW, 0);
    start(renewed, DLOCK_OP_RENEW, 0);
    start(unlocked, DLOCK_OP_UNLOCK, 0);
    dlt_engine_run(&engine, 2 * OWN_MS + 50);
    cr_assert_eq(done(dead[4]), DLOCK_UNAVAILABLE);
    cr_assert_eq(done(renewed), DLOCK_OK);
    cr_assert_eq(done(unlocked), DLOCK_OK);
    close_all(
        (struct dlock_handle *[]){dead[0], dead[1], dead[2], dead[3], dead[4], renewed, unlocked},
        7);
}
