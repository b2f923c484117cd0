/* SPDX-License-Identifier: MIT */
/* Tests: core/session/session_pool.c core/hold/claim.c */
/* Are locks that live in a session kept in it ([SES-1], [SES-2])? Virtual time. */
#include "fake_session.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of a lease of 3 s: 3000 less 10 %. */
#define VALID_MS 2700

static struct dlt_engine engine;

static void begin(const char *options)
{
    fake_session_begin(&engine);
    dlt_engine_open(
        &engine, "session",
        &(struct dlt_setup){.plugin = fake_session_plugin(), .options = options, .callback = 1});
}

static void set_up(void)
{
    begin(NULL);
}

static void tear_down(void)
{
    struct dlt_call call;

    dlt_call_start(&call, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&call, 60000), DLOCK_OK);
    cr_assert_eq(fake_session_open_now(), 0, "%u were left open", fake_session_open_now());
    cr_assert_null(fake_session_wrong(), "%s", fake_session_wrong());
}

TestSuite(session, .init = set_up, .fini = tear_down);

static struct dlock_handle *take(const char *name)
{
    struct dlock_handle *lock = dlt_engine_lock(&engine, name, NULL);

    cr_assert_eq(dlt_do(&engine, DLT_LOCK, lock, 0), DLOCK_OK);
    return lock;
}

Test(session, SES_1_each_held_lock_has_a_session_of_its_own)
{
    struct dlock_handle *a = take("a"), *b = take("b"), *c = take("c");

    cr_assert_eq(fake_session_open_now(), 3);
    for (int i = 0; i < 9; i++)
        dlt_engine_advance(&engine, 1000);
    cr_assert_geq(fake_session_calls(FAKE_RENEW), 27);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_do(&engine, DLT_RENEW, b, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, b, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, c, 0), DLOCK_OK);
    cr_assert_eq(fake_session_open_now(), 3, "what ended cleanly serves again");
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, a, 0), DLOCK_OK);
    cr_assert_eq(fake_session_calls(FAKE_OPEN), 3);
    dlock_free(a);
    dlock_free(b);
    dlock_free(c);
}

/* A login takes longer than each of the calls waits. */
Test(session, OPN_7_calls_with_less_time_than_a_login_make_a_session_together)
{
    struct dlock_handle *a = take("a"), *b = dlt_engine_lock(&engine, "b", NULL);

    fake_session_login(100);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_do(&engine, DLT_TIMEDLOCK, b, 15), DLOCK_UNAVAILABLE);
        cr_assert_eq(fake_session_open_now(), 1);
    }
    cr_assert_eq(dlt_do(&engine, DLT_TIMEDLOCK, b, 15), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, b, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    dlock_free(a);
    dlock_free(b);
}

/* Another login has ended meanwhile, or nobody wants the session any more: closed once. */
Test(session, OPN_7_what_was_begun_ends_with_the_client)
{
    struct dlock_handle *a = take("a"), *b = dlt_engine_lock(&engine, "b", NULL);

    fake_session_login(100);
    cr_assert_eq(dlt_do(&engine, DLT_TIMEDLOCK, b, 15), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_TIMEDLOCK, b, 15), DLOCK_OK, "an idle one is there");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, b, 0), DLOCK_OK);
    cr_assert_eq(fake_session_calls(FAKE_CLOSE), 0);
    tear_down();
    cr_assert_eq(fake_session_calls(FAKE_CLOSE), 2);
    set_up();
    dlock_free(a);
    dlock_free(b);
}

Test(session, lock_lets_the_server_wait_and_trylock_does_not)
{
    struct dlock_handle *a = take("a"), *again = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    cr_assert_eq(fake_session_calls(FAKE_LOCK), 1);
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, again, 0), DLOCK_BUSY);
    cr_assert_eq(fake_session_calls(FAKE_TRYLOCK), 1);
    fake_session_confirm(true);
    dlt_call_start(&wait, &engine, DLT_LOCK, again, 0);
    dlt_engine_run(&engine, 100);
    cr_assert_eq(wait.done, 0);
    cr_assert_eq(fake_session_calls(FAKE_LOCK), 2, "it slept in the server");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 1), DLOCK_OK);
    dlock_free(a);
    dlock_free(again);
}

/* Whoever waits for a connection gets one in his order. */
Test(session, C13_connections_are_waited_for_in_line)
{
    static const char *const names[] = {"c", "d", "e"};
    struct dlock_handle *a, *b, *waiting[3];
    struct dlt_call waits[3];

    dlock_client_close(engine.client);
    begin("connections=2");
    a = take("a");
    b = take("b");
    for (int i = 0; i < 3; i++) {
        waiting[i] = dlt_engine_lock(&engine, names[i], NULL);
        dlt_call_start(&waits[i], &engine, DLT_LOCK, waiting[i], 0);
        dlt_engine_advance(&engine, 1);
    }
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&waits[0], 1), DLOCK_OK);
    cr_assert_eq(waits[1].done + waits[2].done, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, b, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&waits[1], 1), DLOCK_OK);
    cr_assert_eq(waits[2].done, 0);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, waiting[0], 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&waits[2], 1), DLOCK_OK);
    for (int i = 0; i < 3; i++)
        dlock_free(waiting[i]);
    dlock_free(a);
    dlock_free(b);
}

Test(session, C1_the_lease_counts_from_since_ns)
{
    struct dlock_handle *a = take("a"), *again = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    fake_session_confirm(true);
    dlt_call_start(&wait, &engine, DLT_LOCK, again, 0);
    for (int i = 0; i < 10; i++)
        dlt_engine_advance(&engine, 900);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 1), DLOCK_OK);
    cr_assert_geq(dlock_remaining_ms(again), VALID_MS - 1);
    cr_assert_eq(fake_session_calls(FAKE_LOCK), 2, "the first grant was good");
    dlock_free(a);
    dlock_free(again);
}

Test(session, C3_without_since_ns_a_long_wait_leaves_nothing)
{
    struct dlock_handle *a = take("a"), *again = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    dlt_call_start(&wait, &engine, DLT_TIMEDLOCK, again, 9500);
    for (int i = 0; i < 10; i++)
        dlt_engine_advance(&engine, 900);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 1000), DLOCK_OK, "a second attempt gets it");
    cr_assert_eq(fake_session_calls(FAKE_LOCK), 3);
    cr_assert_eq(fake_session_calls(FAKE_UNLOCK), 1, "closing the session gave it back");
    dlock_free(a);
    dlock_free(again);
}

Test(session, C8_a_wait_in_the_server_ends_at_its_deadline)
{
    struct dlock_handle *a = take("a"), *again = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    dlt_call_start(&wait, &engine, DLT_TIMEDLOCK, again, 250);
    cr_assert_eq(dlt_call_finish(&wait, 400), DLOCK_TIMEOUT);
    cr_assert_geq(dlt_call_ms(&wait), 250);
    cr_assert_leq(dlt_call_ms(&wait), 350);
    cr_assert_eq(fake_session_open_now(), 1, "[FAI-1]");
    dlock_free(a);
    dlock_free(again);
}

Test(session, cancel_ends_a_wait_in_the_server)
{
    struct dlock_handle *a = take("a"), *again = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    dlt_call_start(&wait, &engine, DLT_LOCK, again, 0);
    dlt_engine_advance(&engine, 10); /* no hand-off came: it asks the server */
    dlock_cancel(again);
    cr_assert_eq(dlt_call_finish(&wait, 0), DLOCK_CANCELED);
    cr_assert_eq(wait.err.status, DLOCK_CANCELED);
    cr_assert_eq(fake_session_calls(FAKE_INTERRUPT), 1);
    cr_assert_eq(fake_session_open_now(), 1, "[FAI-1]");
    dlock_free(a);
    dlock_free(again);
}

Test(session, free_ends_a_wait_in_the_server)
{
    struct dlock_handle *a = take("a"), *again = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    dlt_call_start(&wait, &engine, DLT_LOCK, again, 0);
    cr_assert_eq(dlt_do(&engine, DLT_FREE, again, 0), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 0), DLOCK_CANCELED);
    dlock_free(a);
}

/* Who waits for a handle of the same client is patient first. */
static void waits_in_the_server(struct dlt_call *wait, struct dlock_handle *lock)
{
    unsigned calls = fake_session_calls(FAKE_LOCK);

    dlt_call_start(wait, &engine, DLT_LOCK, lock, 0);
    for (int i = 0; i < 100 && fake_session_calls(FAKE_LOCK) == calls; i++)
        dlt_engine_advance(&engine, 1);
    cr_assert_eq(fake_session_calls(FAKE_LOCK), calls + 1);
}

Test(session, shutdown_ends_a_wait_in_the_server_with_closed)
{
    struct dlock_handle *a = take("a"), *again = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call wait;

    waits_in_the_server(&wait, again);
    dlock_client_shutdown(engine.client);
    cr_assert_eq(dlt_call_finish(&wait, 0), DLOCK_CLOSED);
    cr_assert_eq(wait.err.status, DLOCK_CLOSED);
    dlock_free(a);
    dlock_free(again);
}

/* The holder's handle is older than the waiter's, and the other way round. */
static void close_before_the_wait_has_ended(bool holder_first)
{
    struct dlock_handle *locks[2] = {dlt_engine_lock(&engine, "a", NULL),
                                     dlt_engine_lock(&engine, "a", NULL)};
    struct dlock_handle *holder = locks[holder_first ? 0 : 1],
                        *waiter = locks[holder_first ? 1 : 0];
    struct dlt_call wait, end;

    cr_assert_eq(dlt_do(&engine, DLT_LOCK, holder, 0), DLOCK_OK);
    waits_in_the_server(&wait, waiter);
    fake_session_linger(engine.now_ns + INT64_C(100000000));
    dlt_call_start(&end, &engine, DLT_CLOSE, NULL, 0);
    cr_assert_eq(dlt_call_finish(&end, 60000), DLOCK_OK);
    cr_assert_eq(dlt_call_finish(&wait, 0), DLOCK_CLOSED);
    dlock_free(holder);
    dlock_free(waiter);
    begin(NULL);
}

Test(session, C8_who_waits_does_not_get_what_close_unlocks)
{
    close_before_the_wait_has_ended(true);
    close_before_the_wait_has_ended(false);
}

Test(session, SES_2_unknown_ends_the_attempt_and_the_session)
{
    static const enum fake_slot slots[] = {FAKE_TRYLOCK, FAKE_LOCK};

    for (size_t i = 0; i < 2; i++) {
        struct dlock_handle *a = dlt_engine_lock(&engine, "a", NULL);
        unsigned opens = fake_session_calls(FAKE_OPEN);
        unsigned char first;
        struct dlt_call call;

        fake_session_answer(slots[i], DLOCK_UNKNOWN, true);
        dlt_call_start(&call, &engine, i == 0 ? DLT_TRYLOCK : DLT_LOCK, a, 0);
        first = fake_session_token();
        cr_assert_not(fake_session_held("a"), "the session of an unknown outcome is open still");
        fake_session_answer(slots[i], DLOCK_OK, false);
        cr_assert_eq(dlt_call_finish(&call, 1000), DLOCK_OK);
        cr_assert_neq(fake_session_token(), first, "an old token in a new session");
        cr_assert_leq(fake_session_calls(FAKE_OPEN) - opens, 2);
        cr_assert_eq(fake_session_calls(FAKE_UNLOCK), i);
        cr_assert_eq(dlt_do(&engine, DLT_FREE, a, 0), DLOCK_OK);
    }
}

Test(session, SES_2_no_outcome_stays_unknown)
{
    struct dlock_handle *a = dlt_engine_lock(&engine, "a", NULL);
    struct dlt_call call;

    fake_session_answer(FAKE_TRYLOCK, DLOCK_UNKNOWN, true);
    dlt_call_start(&call, &engine, DLT_TRYLOCK, a, 0);
    (void)dlt_call_finish(&call, 5000);
    cr_assert_leq(dlt_call_ms(&call), 2100);
    cr_assert_not(fake_session_held("a"));
    cr_assert_eq(fake_session_calls(FAKE_UNLOCK), 0);
    cr_assert_eq(fake_session_open_now(), 0);
    dlock_free(a);
}

Test(session, SES_2_an_unlock_without_answer_ends_the_session)
{
    struct dlock_handle *a = take("a");

    fake_session_answer(FAKE_UNLOCK, DLOCK_UNKNOWN, false);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_UNKNOWN);
    cr_assert_eq(fake_session_calls(FAKE_UNLOCK), 1);
    cr_assert_not(fake_session_held("a"));
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_NOT_HELD, "nobody can be asked");
    cr_assert_eq(fake_session_calls(FAKE_UNLOCK), 1);
    dlock_free(a);
}

Test(session, C5_a_session_that_ended_is_a_loss)
{
    struct dlock_handle *a = take("a");

    fake_session_kill("a");
    dlt_engine_advance(&engine, 1000);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_LOST);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(engine.losses[0].reason, DLOCK_REASON_SESSION);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_LOST);
    cr_assert_eq(fake_session_calls(FAKE_UNLOCK), 0);
    cr_assert_eq(fake_session_calls(FAKE_FORGET), 1);
    cr_assert_eq(fake_session_open_now(), 0, "[SES-1] after LOST the session is closed");
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, a, 0), DLOCK_OK);
    dlock_free(a);
}

Test(session, C5_a_lost_lock_that_nobody_acknowledged_ends_with_the_client)
{
    struct dlock_handle *a = take("a");

    fake_session_answer(FAKE_RENEW, DLOCK_UNKNOWN, false);
    dlt_engine_run(&engine, VALID_MS);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_LOST);
    cr_assert_eq(engine.losses[0].reason, DLOCK_REASON_EXPIRED);
    cr_assert_eq(dlt_do(&engine, DLT_CLOSE, NULL, 0), DLOCK_OK);
    cr_assert_eq(fake_session_open_now(), 0);
    dlock_free(a);
}

Test(session, C25_no_timer_ends_the_process)
{
    struct dlock_options options = DLOCK_OPTIONS_INIT;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *refused = NULL;

    options.on_expiry = DLOCK_EXPIRE_KILL;
    cr_assert_eq(dlock_new(engine.client, "k", 1, &options, &refused, &err), DLOCK_UNSUPPORTED);
    cr_assert_not_null(strstr(err.message, "on_expiry"), "%s", err.message);
}

/* Nobody acknowledged the loss, and the next one gets the name. */
Test(session, C14_a_claim_that_ran_out_ends_the_session)
{
    static const char *const options[] = {"renew=off", "max_hold=2600ms"};

    for (size_t i = 0; i < 2; i++) {
        struct dlock_handle *a, *b;

        dlt_engine_close(&engine);
        begin(options[i]);
        a = take("a");
        b = dlt_engine_lock(&engine, "a", NULL);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, b, 0), DLOCK_BUSY);
        dlt_engine_run(&engine, VALID_MS);
        cr_assert_eq(dlt_engine_losses(&engine), 1);
        cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, b, 0), DLOCK_OK, "%s", options[i]);
        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_LOST);
        cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, b, 0), DLOCK_OK);
        dlock_free(a);
        dlock_free(b);
    }
}

Test(session, C5_a_ping_that_comes_too_late_ends_the_session)
{
    struct dlock_handle *a = take("a");

    fake_session_delay(engine.now_ns + 4000 * DLT_MS);
    dlt_engine_advance(&engine, 1000);
    dlt_engine_advance(&engine, 3000);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_LOST);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_not(fake_session_held("a"), "nobody holds it, and nobody else can get it");
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_LOST);
    dlock_free(a);
}

Test(session, C8_an_unlock_does_not_wait_for_the_ping_of_another_lock)
{
    struct dlock_handle *x = take("x"), *a = take("a"), *b = take("b");

    fake_session_hang('x');
    dlt_engine_advance(&engine, 1000);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, b, 0), DLOCK_OK);
    cr_assert_eq(dlt_engine_ms(&engine), 1000);
    dlt_engine_run(&engine, 1000);
    fake_session_hang('\0');
    (void)dlt_do(&engine, DLT_FREE, x, 0);
    dlock_free(a);
    dlock_free(b);
}

Test(session, C14_a_ping_that_hangs_does_not_cost_the_others_their_locks)
{
    struct dlock_handle *x = take("x"), *a = take("a"), *b = take("b");

    fake_session_hang('x');
    dlt_engine_run(&engine, 6000);
    cr_assert_eq(dlock_state(x), DLOCK_STATE_LOST);
    cr_assert_eq(dlock_state(a), DLOCK_STATE_HELD);
    cr_assert_eq(dlock_state(b), DLOCK_STATE_HELD);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    cr_assert_eq(engine.loss_ns[0] - engine.now_ns, -(6000 - VALID_MS) * DLT_MS);
    fake_session_hang('\0');
    dlock_free(x);
    dlock_free(a);
    dlock_free(b);
}

Test(session, held_locks_are_bounded_by_connections)
{
    struct dlock_handle *a, *b, *c;
    struct dlt_call call;

    dlt_engine_close(&engine);
    begin("connections=2");
    a = take("a");
    b = take("b");
    c = dlt_engine_lock(&engine, "c", NULL);
    dlt_call_start(&call, &engine, DLT_TRYLOCK, c, 0);
    cr_assert_eq(dlt_call_finish(&call, 3000), DLOCK_UNAVAILABLE);
    cr_assert_leq(dlt_call_ms(&call), 2100);
    cr_assert_not_null(strstr(call.err.message, "connections="));
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, c, 0), DLOCK_OK);
    dlock_free(a);
    dlock_free(b);
    dlock_free(c);
}

Test(session, C14_a_claim_that_ran_out_during_a_ping_ends_the_session)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .op_timeout_ms = 5000};
    struct dlock_handle *a, *b;
    struct dlt_call renew;

    dlt_engine_close(&engine);
    begin("renew=off");
    a = dlt_engine_lock(&engine, "a", &options);
    b = dlt_engine_lock(&engine, "a", NULL);
    cr_assert_eq(dlt_do(&engine, DLT_LOCK, a, 0), DLOCK_OK);
    fake_session_hang('a');
    dlt_call_start(&renew, &engine, DLT_RENEW, a, 0);
    cr_assert_eq(dlt_call_finish(&renew, 6000), DLOCK_LOST);
    cr_assert_eq(dlt_engine_losses(&engine), 1);
    fake_session_hang('\0');
    cr_assert_eq(dlt_do(&engine, DLT_TRYLOCK, b, 0), DLOCK_OK);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_LOST);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, b, 0), DLOCK_OK);
    dlock_free(a);
    dlock_free(b);
}

static unsigned forked_closes;

static void counting_close(void *self, bool forked)
{
    if (forked != 0)
        forked_closes++;
    else
        fake_session_plugin()->ops->close(self, forked);
}

/* The parent's end of a connection is not its end while a child has it open, too. */
Test(session, C10_a_child_closes_the_sessions_of_the_handles_that_it_frees)
{
    static struct dlock_backend_ops ops;
    static struct dlock_plugin plugin;
    struct dlock_handle *a, *b;
    int status = -1;
    pid_t child;

    dlt_engine_close(&engine);
    plugin = *fake_session_plugin();
    ops = *plugin.ops;
    ops.close = counting_close;
    plugin.ops = &ops;
    fake_session_begin(&engine);
    dlt_engine_open(&engine, "session", &(struct dlt_setup){.plugin = &plugin, .callback = 1});
    a = take("a");
    b = take("b");
    child = fork();
    if (child == 0) {
        dlock_free(a);
        dlock_client_close(engine.client);
        dlock_free(b);
        _exit((int)forked_closes);
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 2 << 8, "status %x", (unsigned)status);
    cr_assert_eq(dlt_do(&engine, DLT_UNLOCK, a, 0), DLOCK_OK);
    dlock_free(a);
    dlock_free(b);
}
