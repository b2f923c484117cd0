/* SPDX-License-Identifier: MIT */
/* Tests: core/session/wait.c core/acquire/try_batch.c core/hold/unlock.c */
/* Tests: core/sys/own_thread.c */
/*
 * Blocking calls that want an exchange at one time, on a store whose parallelism is 1, which lets
 * two in: do they share the next one, with an outcome, deadline and lease of its own for each, and
 * does a call that waits for too long go alone? (PAR-1, BAT-1, BAT-3, C2, C8) Virtual time.
 */
#include "engine.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

enum { MANY = 8 };
#define FRONT 2 /* go on before a line begins: twice the parallelism */

static struct dlt_engine engine;
static struct dlock_plugin plugin;
static struct dlock_backend_ops ops;
static struct dlock_handle *locks[MANY];
static struct dlt_call calls[MANY];
static unsigned before[MEMORY_SLOTS];

static enum dlock_status one_lane_open(void *self, const struct dlock_host *host,
                                       const struct dlock_target *target, int64_t deadline_ns,
                                       struct dlock_session_info *info, struct dlock_error *err)
{
    info->parallelism = 1;
    return dlock_plugin_memory_hooked()->ops->open(self, host, target, deadline_ns, info, err);
}

static void set_up(void)
{
    plugin = *dlock_plugin_memory_hooked();
    ops = *plugin.ops;
    ops.open = one_lane_open;
    plugin.ops = &ops;
    dlt_engine_open(&engine, "combine",
                    &(struct dlt_setup){.plugin = &plugin, .options = "ttl=30s&op_timeout=2s"});
    for (int i = 0; i < MANY; i++)
        locks[i] = dlt_engine_lock(&engine, (const char[]){(char)('a' + i), '\0'}, NULL);
}

static void tear_down(void)
{
    cr_assert_eq(dlt_do(&engine, DLT_CLOSE, NULL, 0), DLOCK_OK);
    dlt_engine_close(&engine);
}

TestSuite(combine, .init = set_up, .fini = tear_down);

static void count_from_here(void)
{
    for (int slot = 0; slot < MEMORY_SLOTS; slot++)
        before[slot] = dlt_calls(&engine, (enum memory_slot)slot);
}

static unsigned exchanges(enum memory_slot slot)
{
    return dlt_calls(&engine, slot) - before[slot];
}

/* The first calls are in their exchanges, which do not end before the test says so; the others come
 * after them. held: how many more exchanges are like that. */
static void start_all(enum dlt_kind kind, enum memory_slot slot, unsigned held, int64_t arg)
{
    count_from_here();
    dlt_fault(&engine, slot, MEMORY_HELD_REPLY, (struct memory_fault){.times = FRONT + held});
    for (int i = 0; i < MANY; i++)
        dlt_call_start(&calls[i], &engine, kind, locks[i], arg);
    cr_assert_eq(exchanges(slot), FRONT, "a call did not wait for those in front");
    cr_assert_eq(memory_hooks_held(engine.store), FRONT);
}

static void go(void)
{
    memory_hooks_go(engine.store);
    dlt_settle();
}

static void all_end_with(enum dlock_status status)
{
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(dlt_call_finish(&calls[i], 10), status, "%d", i);
}

static void lock_all(void)
{
    start_all(DLT_TIMEDLOCK, MEMORY_TRYLOCK, 0, 1000);
    go();
    all_end_with(DLOCK_OK);
}

Test(combine, PAR_1_the_calls_behind_one_share_the_next_exchange)
{
    lock_all();
    cr_assert_eq(exchanges(MEMORY_TRYLOCK), FRONT + 1);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK_BATCH), 1);
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(dlock_fence(locks[i]), dlock_fence(locks[k]));
    start_all(DLT_UNLOCK, MEMORY_UNLOCK, 0, 0);
    go();
    all_end_with(DLOCK_OK);
    cr_assert_eq(exchanges(MEMORY_UNLOCK), FRONT + 1);
    cr_assert_eq(exchanges(MEMORY_UNLOCK_BATCH), 1);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(dlock_state(locks[i]), DLOCK_STATE_FREE);
}

Test(combine, BAT_1_each_has_its_own_outcome)
{
    struct dlock_client *rival = dlt_engine_rival(&engine);
    struct dlock_handle *taken = dlt_rival_hold(rival, "d", DLOCK_EXCLUSIVE);

    start_all(DLT_TRYLOCK, MEMORY_TRYLOCK, 0, 0);
    go();
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(dlt_call_finish(&calls[i], 10), i == 3 ? DLOCK_BUSY : DLOCK_OK, "%d", i);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK_BATCH), 1);
    dlock_free(taken);
    dlock_client_close(rival);
}

/* The second exchange takes 15 ms, too: its leases are by so much shorter. */
Test(combine, C2_a_lease_counts_from_before_the_shared_exchange)
{
    start_all(DLT_TRYLOCK, MEMORY_TRYLOCK, 1, 0);
    dlt_engine_run(&engine, 10);
    go();
    dlt_engine_run(&engine, 15);
    go();
    all_end_with(DLOCK_OK);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK_BATCH), 1);
    for (int i = FRONT; i < MANY; i++)
        cr_assert_eq(dlock_remaining_ms(locks[i]), dlock_remaining_ms(locks[0]) + 10, "%d", i);
}

/* What is in the hands of another call neither ends nor is sent again, however long that takes. */
Test(combine, C8_a_request_that_was_taken_along_ends_with_that_exchange)
{
    start_all(DLT_TRYLOCK, MEMORY_TRYLOCK, 1, 0);
    go();
    cr_assert_eq(exchanges(MEMORY_TRYLOCK), FRONT + 1);
    dlt_engine_run(&engine, 1000);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK), FRONT + 1);
    for (int i = FRONT; i < MANY; i++)
        cr_assert_not(calls[i].done, "%d", i);
    go();
    all_end_with(DLOCK_OK);
}

Test(combine, C8_a_call_that_waits_for_long_goes_alone)
{
    start_all(DLT_TRYLOCK, MEMORY_TRYLOCK, 0, 0);
    dlt_engine_run(&engine, 19);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK), FRONT);
    dlt_engine_run(&engine, 2);
    for (int i = FRONT; i < MANY; i++)
        cr_assert_eq(dlt_call_finish(&calls[i], 1), DLOCK_OK, "%d", i);
    for (int i = 0; i < FRONT; i++)
        cr_assert_not(calls[i].done);
    go();
    for (int i = 0; i < FRONT; i++)
        cr_assert_eq(dlt_call_finish(&calls[i], 1), DLOCK_OK);
}

/* Each other call has little time: it shares no exchange with the rest, and they none with it. */
Test(combine, BAT_3_deadlines_that_are_far_apart_share_no_exchange)
{
    count_from_here();
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_HELD_REPLY, (struct memory_fault){.times = FRONT});
    for (int i = 0; i < MANY; i++) {
        struct dlock_options options = {.struct_size = sizeof options,
                                        .wait_ms = DLOCK_AS_OPTIONS,
                                        .op_timeout_ms = i % 2 == 0 ? 2000 : 500};

        dlock_free(locks[i]);
        locks[i] = dlt_engine_lock(&engine, (const char[]){(char)('a' + i), '\0'}, &options);
        dlt_call_start(&calls[i], &engine, DLT_TRYLOCK, locks[i], 0);
    }
    go();
    all_end_with(DLOCK_OK);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK), FRONT + 2);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK_BATCH), 2);
}

/* The thread in front runs only when nobody else wants to: it would hold up whom it took along. */
Test(combine, C8_a_thread_of_low_priority_takes_none_of_higher_priority_along)
{
    const struct sched_param none = {0};

    start_all(DLT_TIMEDLOCK, MEMORY_TRYLOCK, 0, 1000);
    cr_assert_eq(pthread_setschedparam(calls[FRONT].thread, SCHED_IDLE, &none), 0);
    go();
    all_end_with(DLOCK_OK);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK), FRONT + 2);
    cr_assert_eq(exchanges(MEMORY_TRYLOCK_BATCH), 1);
}

/* The store does not answer the shared exchange: no outcome is known, and each call says so. */
Test(combine, C4_no_answer_to_the_shared_exchange_is_unknown_for_each)
{
    start_all(DLT_TRYLOCK, MEMORY_TRYLOCK, 0, 0);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY, (struct memory_fault){.times = 1000});
    go();
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(dlt_call_finish(&calls[i], 3000), i < FRONT ? DLOCK_OK : DLOCK_UNKNOWN, "%d",
                     i);
}
