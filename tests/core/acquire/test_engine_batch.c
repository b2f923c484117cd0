/* SPDX-License-Identifier: MIT */
/* Tests: core/acquire/batch.c core/acquire/op.c core/acquire/try_batch.c core/hold/unlock_batch.c
 */
/*
 * Operations of dlock_start that are ready together: do they leave in one exchange, and does each
 * have its own outcome whatever becomes of the exchange? (C19, BAT-1 to BAT-3) Virtual time.
 */
#include "engine.h"

#include <criterion/criterion.h>

enum { MANY = 8 };

static struct dlt_engine engine;
static struct dlock *locks[MANY];
static enum dlock_status done[MANY];

static void set_up(void)
{
    dlt_engine_open(&engine, "batch", &(struct dlt_setup){.options = "ttl=30s&op_timeout=2s"});
    for (int i = 0; i < MANY; i++) {
        struct dlock_options options = {.struct_size = sizeof options, .user = &done[i]};

        locks[i] = dlt_engine_lock(&engine, (const char[]){(char)('a' + i), '\0'}, &options);
    }
}

static void tear_down(void)
{
    for (int i = 0; i < MANY; i++)
        (void)dlt_do(&engine, DLT_FREE, locks[i], 0);
    dlt_engine_close(&engine);
}

TestSuite(batch, .init = set_up, .fini = tear_down);

/* Takes the DONEs that are queued. */
static void done_take(void)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};

    while (dlock_client_next(engine.client, &notice, NULL) == 1)
        if (notice.kind == DLOCK_NOTICE_DONE && notice.user != NULL)
            *(enum dlock_status *)notice.user = notice.status;
}

static unsigned calls(enum memory_slot slot)
{
    return memory_hooks_calls("batch", slot);
}

/* Begins the operation on all handles while the first thread of the driver is in an exchange that
 * does not end; the clock stands still, so that the second one does not help. Then they are ready
 * together. Costs one trylock more. */
static void start_together(enum dlock_op op, int64_t timeout_ms)
{
    struct dlock *busy = dlt_engine_lock(&engine, "busy", NULL);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, busy, 0), DLOCK_OK);
    (void)memory_hooks_fault("batch", MEMORY_RENEW,
                             &(struct memory_fault){.kind = MEMORY_HELD_REPLY});
    cr_assert_eq(dlock_start(busy, DLOCK_OP_RENEW, 0, NULL), DLOCK_OK);
    dlt_settle();
    cr_assert_eq(memory_hooks_held("batch"), 1);
    for (int i = 0; i < MANY; i++) {
        done[i] = DLT_STUCK;
        cr_assert_eq(dlock_start(locks[i], op, timeout_ms, NULL), DLOCK_OK);
    }
    memory_hooks_go("batch");
    dlt_settle();
    done_take();
    (void)dlt_do(&engine, DLT_FREE, busy, 0);
}

static void all_are(enum dlock_status status)
{
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(done[i], status, "%d: %s", i, dlock_status_name((int)done[i]));
}

Test(batch, C19_what_is_ready_together_leaves_in_one_exchange)
{
    unsigned before = calls(MEMORY_TRYLOCK);

    start_together(DLOCK_OP_LOCK, 1000);
    all_are(DLOCK_OK);
    cr_assert_eq(calls(MEMORY_TRYLOCK) - before, 2, "one is of the busy handle");
    cr_assert_eq(calls(MEMORY_TRYLOCK_BATCH), 1);
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(dlock_fence(locks[i]), dlock_fence(locks[k]));
    start_together(DLOCK_OP_UNLOCK, 0);
    all_are(DLOCK_OK);
    cr_assert_eq(calls(MEMORY_UNLOCK_BATCH), 1);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(dlock_state(locks[i]), DLOCK_STATE_FREE);
}

/* The names of some are taken: the others have theirs. */
Test(batch, BAT_1_each_has_its_own_outcome)
{
    struct dlock_client *rival = dlt_engine_rival(&engine);
    struct dlock *taken[2];

    taken[0] = dlt_rival_hold(rival, "c", DLOCK_EXCLUSIVE);
    taken[1] = dlt_rival_hold(rival, "d", DLOCK_EXCLUSIVE);
    start_together(DLOCK_OP_LOCK, DLOCK_TRY);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(done[i], i == 2 || i == 3 ? DLOCK_BUSY : DLOCK_OK, "%d", i);
    for (int i = 0; i < 2; i++)
        dlock_free(taken[i]);
    dlock_client_close(rival);
}

/* One was answered, one executed without an answer, the others were not sent: all repeat their
 * requests with the same tokens, and none is lost or held twice. */
Test(batch, BAT_2_a_batch_that_is_cut_is_repeated)
{
    (void)memory_hooks_fault("batch", MEMORY_TRYLOCK,
                             &(struct memory_fault){.kind = MEMORY_CUT, .skip = 1});
    start_together(DLOCK_OP_LOCK, 5000);
    dlt_engine_run(&engine, 1000);
    done_take();
    all_are(DLOCK_OK);
    (void)memory_hooks_fault("batch", MEMORY_UNLOCK, &(struct memory_fault){.kind = MEMORY_CUT});
    start_together(DLOCK_OP_UNLOCK, 0);
    dlt_engine_run(&engine, 1000);
    done_take();
    all_are(DLOCK_OK);
    start_together(DLOCK_OP_LOCK, DLOCK_TRY);
    all_are(DLOCK_OK);
}

/* C4: what may have been executed is given back. */
Test(batch, C4_without_an_answer_the_outcome_is_unknown)
{
    (void)memory_hooks_fault(
        "batch", MEMORY_TRYLOCK,
        &(struct memory_fault){.kind = MEMORY_LOST_REPLY, .skip = 1, .times = 1000});
    start_together(DLOCK_OP_LOCK, DLOCK_TRY);
    dlt_engine_run(&engine, 5000);
    done_take();
    all_are(DLOCK_UNKNOWN);
    memory_hooks_heal("batch", MEMORY_TRYLOCK);
    start_together(DLOCK_OP_LOCK, DLOCK_TRY);
    all_are(DLOCK_OK);
}

/* C8: a silent store is found out once by a batch, and not by each of its elements. */
Test(batch, C8_a_silent_store_is_found_out_once)
{
    (void)memory_hooks_fault("batch", MEMORY_TRYLOCK,
                             &(struct memory_fault){.kind = MEMORY_REFUSE,
                                                    .status = DLOCK_UNAVAILABLE,
                                                    .ms = 2000,
                                                    .skip = 1,
                                                    .times = 1000});
    start_together(DLOCK_OP_LOCK, DLOCK_TRY);
    dlt_engine_run(&engine, 4100);
    done_take();
    all_are(DLOCK_UNAVAILABLE);
    memory_hooks_heal("batch", MEMORY_TRYLOCK);
}
