/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/unlock.c core/hold/held.c */
/* Does a recursive handle count, and does a loss reach all who rely on it? (C15) Virtual time. */
#include "engine.h"

#include <criterion/criterion.h>

static struct dlt_engine engine;
static struct dlock_handle *lock;

static void set_up(void)
{
    dlt_engine_open(&engine, "nested", &(struct dlt_setup){.options = "recursive=on"});
    lock = dlt_engine_lock(&engine, "a", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
}

static void tear_down(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    dlock_free(lock);
}

TestSuite(nested, .init = set_up, .fini = tear_down);

Test(nested, C15_it_is_released_by_the_last_unlock)
{
    uint64_t fence = dlock_fence(lock);

    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_fence(lock), fence, "C6: reentry keeps the token");
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
        cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
    }
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_NOT_HELD);
}

Test(nested, C15_every_outstanding_unlock_of_a_lost_lock_says_so)
{
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_client_break(engine.client, "a", 1, NULL, NULL), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_LOST, "one is outstanding");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_LOST);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK, "and not nested any more");
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
}

Test(nested, exclusive_includes_shared_and_not_the_reverse)
{
    cr_assert_eq(dlt_do(&engine, DLT_RDLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RDLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_RDLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_ALREADY);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_FREE);
}

Test(nested, a_nested_claim_is_not_downgraded_under_its_users)
{
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_INVALID);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_DOWNGRADE, lock, 0), DLOCK_OK);
}

Test(nested, free_releases_however_deep_it_is)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, "a", NULL);

    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_FREE, lock, 0), DLOCK_OK);
    lock = other;
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, other, 0), DLOCK_OK);
}

Test(nested, a_thread_that_waits_gets_it_after_the_last_unlock)
{
    struct dlock_handle *other = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    dlt_call_start(&wait, &engine, DLT_LOCK, other, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    dlt_engine_run(&engine, 3000);
    cr_assert_eq(wait.done, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 2000), DLOCK_OK);
    dlock_free(other);
}

Test(nested, C15_it_counts_while_another_thread_renews)
{
    struct dlt_call renew;

    dlt_fault(&engine, MEMORY_RENEW, MEMORY_HELD_REPLY, (struct memory_fault){0});
    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    cr_assert_eq(memory_hooks_held("nested"), 1);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    memory_hooks_go("nested");
    cr_assert_eq(dlt_call_finish(&renew, 10), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, lock, 0), DLOCK_OK);
    cr_assert_eq(dlock_state(lock), DLOCK_STATE_HELD);
}
