/* SPDX-License-Identifier: MIT */
/* Tests: core/async/batch.c core/async/op.c core/acquire/try_batch.c core/hold/unlock.c
 */
/* Tests: core/hold/claim.c core/hold/unlock.c */
/*
 * Operations of dlock_op_start that are ready together: do they leave in one exchange, and does
 * each have its own outcome, by its own deadline, whatever becomes of the exchange? (C8, C19, BAT-1
 * to BAT-3) Virtual time.
 */
#include "engine.h"
#include "notices.h"

#include <criterion/criterion.h>

enum { MANY = 8 };

#define SILENT_MS INT64_C(3600000)

static struct dlt_engine engine;
static struct dlock_handle *locks[MANY], *busy;
static enum dlock_status done[MANY];

/* The handle whose DONE sets done[i]. op_timeout_ms: 0: the client's. */
static struct dlock_handle *lock_of(int i, int64_t op_timeout_ms)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = op_timeout_ms,
                                    .user = &done[i]};

    return dlt_engine_lock(&engine, (const char[]){(char)('a' + i), '\0'}, &options);
}

static void set_up(void)
{
    dlt_engine_open(&engine, "batch", &(struct dlt_setup){.options = "ttl=30s&op_timeout=2s"});
    for (int i = 0; i < MANY; i++)
        locks[i] = lock_of(i, 0);
    busy = dlt_engine_lock(&engine, "busy", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, busy, 0), DLOCK_OK);
}

/* Also after a failure, with operations under way: the store answers, and the clock runs. */
static void tear_down(void)
{
    for (int slot = 0; slot < MEMORY_SLOTS; slot++)
        memory_hooks_heal(engine.store, (enum memory_slot)slot);
    (void)dlt_do(&engine, DLT_CLOSE, NULL, 0);
    dlt_engine_close(&engine);
}

TestSuite(batch, .init = set_up, .fini = tear_down);

/* Takes the DONEs that are queued. */
static void done_take(void)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};

    while (dlt_notice_take(engine.client, &notice, NULL) == 1)
        if (notice.kind == DLOCK_NOTICE_DONE && notice.user != NULL)
            *(enum dlock_status *)notice.user = notice.status;
}

static unsigned calls(enum memory_slot slot)
{
    return memory_hooks_calls("batch", slot);
}

/* The first thread of the driver is in an exchange that does not end, and what begins now is ready
 * together. */
static void driver_hold(void)
{
    (void)memory_hooks_fault("batch", MEMORY_RENEW,
                             &(struct memory_fault){.kind = MEMORY_HELD_REPLY});
    cr_assert_eq(dlock_op_start(busy, DLOCK_OP_RENEW, 0, NULL), DLOCK_OK);
    dlt_settle();
    cr_assert_eq(memory_hooks_held("batch"), 1);
}

/* That exchange ends 1 ms later: what is ready is so since before the next one, and the second
 * thread does not help yet. */
static void driver_let_go(void)
{
    dlt_engine_advance(&engine, 1);
    memory_hooks_go("batch");
    dlt_settle();
    done_take();
}

static void start(struct dlock_handle *lock, int i, enum dlock_op op, int64_t timeout_ms)
{
    done[i] = DLT_STUCK;
    cr_assert_eq(dlock_op_start(lock, op, timeout_ms, NULL), DLOCK_OK);
}

static void start_together(enum dlock_op op, int64_t timeout_ms)
{
    driver_hold();
    for (int i = 0; i < MANY; i++)
        start(locks[i], i, op, timeout_ms);
    driver_let_go();
}

static void run(int64_t ms)
{
    dlt_engine_run(&engine, ms);
    done_take();
}

/* What the slot is asked gets no answer by its deadline, and is not executed. */
static void store_falls_silent(enum memory_slot slot)
{
    dlt_fault(&engine, slot, MEMORY_IN_TIME, (struct memory_fault){.ms = SILENT_MS, .times = 1000});
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
    cr_assert_eq(calls(MEMORY_TRYLOCK) - before, 1);
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
    struct dlock_handle *taken[2];

    taken[0] = dlt_rival_hold(rival, "c", DLOCK_EXCLUSIVE);
    taken[1] = dlt_rival_hold(rival, "d", DLOCK_EXCLUSIVE);
    start_together(DLOCK_OP_LOCK, 0);
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
    (void)memory_hooks_fault("batch", MEMORY_TRYLOCK, &(struct memory_fault){.kind = MEMORY_CUT});
    start_together(DLOCK_OP_LOCK, 5000);
    run(1000);
    all_are(DLOCK_OK);
    (void)memory_hooks_fault("batch", MEMORY_UNLOCK, &(struct memory_fault){.kind = MEMORY_CUT});
    start_together(DLOCK_OP_UNLOCK, 0);
    run(1000);
    all_are(DLOCK_OK);
    start_together(DLOCK_OP_LOCK, 0);
    all_are(DLOCK_OK);
}

/* C4: what may have been executed is given back. */
Test(batch, C4_without_an_answer_the_outcome_is_unknown)
{
    (void)memory_hooks_fault("batch", MEMORY_TRYLOCK,
                             &(struct memory_fault){.kind = MEMORY_LOST_REPLY, .times = 1000});
    start_together(DLOCK_OP_LOCK, 0);
    run(5000);
    all_are(DLOCK_UNKNOWN);
    memory_hooks_heal("batch", MEMORY_TRYLOCK);
    start_together(DLOCK_OP_LOCK, 0);
    all_are(DLOCK_OK);
}

/* An exchange that was executed and not answered lasted so long that the store counts as silent for
 * what was ready before. That is no reason to leave the locks of the batch itself behind. */
Test(batch, C4_C19_after_a_silence_the_locks_are_given_back)
{
    (void)memory_hooks_fault("batch", MEMORY_TRYLOCK,
                             &(struct memory_fault){.kind = MEMORY_LOST_REPLY, .ms = 2000});
    start_together(DLOCK_OP_LOCK, 0);
    run(2200);
    all_are(DLOCK_UNKNOWN);
    start_together(DLOCK_OP_LOCK, 0);
    all_are(DLOCK_OK);
}

/* Waiters that end together leave the queue one after the other, and each has the time for it. An
 * entry that stays behind would get the lock, with nobody to release it. */
Test(batch, C8_C19_each_of_many_leaves_the_queue)
{
    struct dlock_client *rival = dlt_engine_rival(&engine);
    struct dlock_handle *taken[MANY];

    for (int i = 0; i < MANY; i++)
        taken[i] = dlt_rival_hold(rival, (const char[]){(char)('a' + i), '\0'}, DLOCK_EXCLUSIVE);
    dlt_fault(&engine, MEMORY_LEAVE, MEMORY_IN_TIME,
              (struct memory_fault){.ms = 30, .times = MANY});
    start_together(DLOCK_OP_LOCK, 200);
    run(1000);
    all_are(DLOCK_TIMEOUT);
    cr_assert_eq(calls(MEMORY_LEAVE), MANY);
    for (int i = 0; i < MANY; i++)
        dlock_free(taken[i]);
    dlock_client_close(rival);
    start_together(DLOCK_OP_LOCK, 0);
    all_are(DLOCK_OK);
}

/* C8: a silent store is found out once by a batch, and not by each of its elements. */
Test(batch, C8_a_silent_store_is_found_out_once)
{
    (void)memory_hooks_fault(
        "batch", MEMORY_TRYLOCK,
        &(struct memory_fault){
            .kind = MEMORY_REFUSE, .status = DLOCK_UNAVAILABLE, .ms = 2000, .times = 1000});
    start_together(DLOCK_OP_LOCK, 0);
    run(4100);
    all_are(DLOCK_UNAVAILABLE);
    memory_hooks_heal("batch", MEMORY_TRYLOCK);
}

/* An unlock with a short op_timeout does not wait for the answer to one with a long one, and is
 * sent while there is time. */
Test(batch, C8_unlocks_with_far_deadlines_have_exchanges_of_their_own)
{
    struct dlock_handle *lasting = lock_of(0, 5000), *brief = lock_of(1, 300);

    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, lasting, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, brief, 0), DLOCK_OK);
    driver_hold();
    store_falls_silent(MEMORY_UNLOCK);
    start(lasting, 0, DLOCK_OP_UNLOCK, 0);
    start(brief, 1, DLOCK_OP_UNLOCK, 0);
    driver_let_go();
    run(400);
    cr_assert_eq(done[1], DLOCK_UNAVAILABLE, "%d", (int)done[1]);
    cr_assert_eq(done[0], DLT_STUCK);
    run(5000);
    cr_assert_eq(done[0], DLOCK_UNAVAILABLE);
    memory_hooks_heal("batch", MEMORY_UNLOCK);
    (void)dlt_do(&engine, DLT_FREE, lasting, 0);
    (void)dlt_do(&engine, DLT_FREE, brief, 0);
}

/* Another handle of the client gets the lease of the first lock, which needs no exchange: that DONE
 * comes at once, whatever becomes of the releases of the batch. */
Test(batch, C19_a_hand_off_does_not_wait_for_releases)
{
    struct dlock_handle *next = dlt_engine_lock(&engine, "a", NULL);

    start_together(DLOCK_OP_LOCK, 1000);
    all_are(DLOCK_OK);
    cr_assert_eq(dlock_op_start(next, DLOCK_OP_LOCK, 60000, NULL), DLOCK_OK);
    dlt_settle();
    driver_hold();
    store_falls_silent(MEMORY_UNLOCK);
    for (int i = 0; i < MANY; i++)
        start(locks[i], i, DLOCK_OP_UNLOCK, 0);
    driver_let_go();
    cr_assert_eq(calls(MEMORY_UNLOCK_BATCH), 1);
    cr_assert_eq(done[0], DLOCK_OK);
    for (int i = 1; i < MANY; i++)
        cr_assert_eq(done[i], DLT_STUCK, "%d: %d", i, (int)done[i]);
    memory_hooks_heal("batch", MEMORY_UNLOCK);
    run(3000);
    cr_assert_eq(dlock_state(next), DLOCK_STATE_HELD);
    (void)dlt_do(&engine, DLT_FREE, next, 0);
}

/* The receiver has a queue entry in the store, which is withdrawn in an exchange of its own: the
 * releases do not wait for that one. */
Test(batch, C19_releases_do_not_wait_for_a_queue_entry)
{
    struct dlock_handle *next = dlt_engine_lock(&engine, "a", NULL);

    start_together(DLOCK_OP_LOCK, 1000);
    all_are(DLOCK_OK);
    cr_assert_eq(dlock_op_start(next, DLOCK_OP_LOCK, 60000, NULL), DLOCK_OK);
    run(20); /* it waits in the store */
    driver_hold();
    store_falls_silent(MEMORY_LEAVE);
    for (int i = 0; i < MANY; i++)
        start(locks[i], i, DLOCK_OP_UNLOCK, 0);
    driver_let_go();
    run(50);
    cr_assert_eq(calls(MEMORY_LEAVE), 1);
    cr_assert_eq(done[0], DLT_STUCK);
    for (int i = 1; i < MANY; i++)
        cr_assert_eq(done[i], DLOCK_OK, "%d: %d", i, (int)done[i]);
    memory_hooks_heal("batch", MEMORY_LEAVE);
    run(3000);
    cr_assert_eq(done[0], DLOCK_OK);
    cr_assert_eq(dlock_state(next), DLOCK_STATE_HELD);
    (void)dlt_do(&engine, DLT_FREE, next, 0);
}

/* Waiters that get no lease by a hand-off are no reason for exchanges of their own. */
Test(batch, C19_releases_share_an_exchange_where_no_lease_is_handed_on)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 20000};
    struct dlock_handle *next =
        dlt_engine_lock(&engine, "a", &options); /* another ttl: no hand-off */

    start_together(DLOCK_OP_LOCK, 1000);
    all_are(DLOCK_OK);
    cr_assert_eq(dlock_op_start(next, DLOCK_OP_LOCK, 60000, NULL), DLOCK_OK);
    run(20); /* it waits in the store */
    start_together(DLOCK_OP_UNLOCK, 0);
    all_are(DLOCK_OK);
    cr_assert_eq(calls(MEMORY_UNLOCK_BATCH), 1);
    cr_assert_eq(calls(MEMORY_UNLOCK), 1, "the exchange of the batch is the only one");
    run(1000);
    cr_assert_eq(dlock_state(next), DLOCK_STATE_HELD);
    (void)dlt_do(&engine, DLT_FREE, next, 0);
}

/* One bad answer closes the session, wherever it stands among answers that say nothing about it. */
Test(batch, C9_the_worst_answer_of_a_batch_is_seen)
{
    static const struct {
        enum dlock_status answers[3], worst;
    } cases[] = {
        {{DLOCK_OK, DLOCK_BUSY, DLOCK_LOST}, DLOCK_OK},
        {{DLOCK_UNKNOWN, DLOCK_OK, DLOCK_NOMEM}, DLOCK_UNKNOWN},
        {{DLOCK_NOMEM, DLOCK_UNKNOWN, DLOCK_OK}, DLOCK_UNKNOWN},
        {{DLOCK_UNAVAILABLE, DLOCK_UNKNOWN, DLOCK_NOMEM}, DLOCK_UNAVAILABLE},
        {{DLOCK_UNKNOWN, DLOCK_UNAVAILABLE, DLOCK_UNKNOWN}, DLOCK_UNAVAILABLE},
        {{DLOCK_BUSY, DLOCK_CONFIG, DLOCK_NOMEM}, DLOCK_OK}, /* another limit of one name */
        {{DLOCK_CONFIG, DLOCK_CONFIG, DLOCK_NOMEM}, DLOCK_CONFIG},
        {{DLOCK_OK, DLOCK_UNKNOWN, DLOCK_CONFIG}, DLOCK_UNKNOWN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dlock_batch_op elements[3];
        struct dlock_batch_op *const ops[] = {&elements[0], &elements[1], &elements[2]};

        for (size_t k = 0; k < 3; k++)
            elements[k].status = cases[i].answers[k];
        cr_assert_eq(dl_claim_batch_worst(ops, 3), cases[i].worst, "%zu", i);
    }
}

/* ---- a session a call ---- */

TestSuite(pooled, .fini = tear_down);

/* Two attempts have the same deadline for an answer. The session takes so long to open that one of
 * them has another deadline then, which the first exchange may not delay. */
Test(pooled, C8_BAT_3_deadlines_are_compared_when_there_is_a_session)
{
    struct dlock_handle *lasting, *brief;

    dlt_engine_open(
        &engine, "pooled",
        &(struct dlt_setup){.plugin = dlock_plugin_memory_limited("pooled", DLOCK_CAP_CONCURRENT),
                            .options = "ttl=30s&op_timeout=2s"});
    busy = dlt_engine_lock(&engine, "busy", NULL);
    lasting = lock_of(0, 0);
    brief = lock_of(1, 0);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, busy, 0), DLOCK_OK);
    dlt_fault(&engine, MEMORY_RENEW, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNKNOWN, .ms = 3}); /* ends the session */
    dlt_fault(&engine, MEMORY_OPEN, MEMORY_SLOW, (struct memory_fault){.ms = 1000});
    cr_assert_eq(dlock_op_start(busy, DLOCK_OP_RENEW, 0, NULL), DLOCK_OK);
    dlt_settle();
    store_falls_silent(MEMORY_TRYLOCK);
    start(lasting, 0, DLOCK_OP_LOCK, 6000);
    start(brief, 1, DLOCK_OP_LOCK, 2010);
    run(3);
    run(1000);
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK_BATCH), 1, "the session was opened for both");
    run(1100);
    cr_assert_eq(done[1], DLOCK_UNAVAILABLE, "%d", (int)done[1]);
    run(6000);
    cr_assert_eq(done[0], DLOCK_UNAVAILABLE);
    memory_hooks_heal("pooled", MEMORY_TRYLOCK);
    for (int i = 0; i < 3; i++)
        (void)dlt_do(&engine, DLT_FREE, i == 0 ? busy : i == 1 ? lasting : brief, 0);
}
