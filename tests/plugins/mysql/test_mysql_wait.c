/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_queue.c plugins/mysql/shared.c */
/* Waiting for rows, and the locks of strategy session, which live in the server's connections. */
#include "fault_fixture.h"

/* Of the prepared, which a look is. */
static unsigned long long executed(void)
{
    const char *text = dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'");

    return strtoull(text + strcspn(text, " "), NULL, 10);
}

LEASED(WAT_1_one_polls_and_the_rest_sleep_in_GET_LOCK)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 20000};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 20000};
    struct dlt_request late;
    unsigned long long statements = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    becomes_head(&head);
    waiter_start(&head);
    waiter_start(&second);
    await_state("%GET_LOCK%", 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&head), DLOCK_BUSY, "%s", t.err.message);
    dlt_request(&s, &late, "job", 'l', 60000);
    cr_assert_eq(dlt_try(&s, &late), DLOCK_BUSY, "it is reserved for the head");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    statements = executed();
    dlt_sleep_ms(500);
    await_state("%GET_LOCK%", 1);
    cr_assert_eq(executed(), statements, "nobody looks while the one before is there");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "%s", u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &late), DLOCK_OK, "nothing stays reserved");
}

/* An interrupt that comes between a trylock and the next watch finds a name that is reserved for
 * the attempt. With that reservation the next waiter would find a free name BUSY. */
LEASED(INT_2_a_head_that_is_interrupted_early_leaves_nothing_reserved)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 20000};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 20000};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    becomes_head(&head);
    waiter_start(&head);
    waiter_start(&second);
    await_state("%GET_LOCK%", 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&head), DLOCK_BUSY, "%s", t.err.message);
    dlt_interrupt(&t, &b);
    waiter_start(&head);
    cr_assert_eq(waiter_join(&head), DLOCK_CANCELED);
    t.ops->forget(t.self, &b.req);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "%s", u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "the name is free: %s", u.err.message);
}

static long connections(void)
{
    return strtol(dlt_maria_ask(&server, "SELECT COUNT(*) FROM information_schema.processlist"
                                         " WHERE user = 'u'"),
                  NULL, 10);
}

/* What goes with a session that core closes, because nobody used it for a minute. */
LEASED(a_queue_session_that_rested_for_a_minute_is_given_back)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 20000};
    struct dlt_session other;
    const long before = connections();

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    becomes_head(&w);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    for (int minutes = 0; minutes < 2; minutes++) {
        dlt_host_advance(&s.host, minutes * 60000);
        cr_assert_eq(dlt_session_join(&other, &t), DLOCK_OK, "%s", other.err.message);
        dlt_session_close(&other);
        for (int i = 0; i < 100 && connections() != before + 1 - minutes; i++)
            dlt_sleep_ms(20); /* the server sees the end a moment later */
        cr_assert_eq(connections(), before + 1 - minutes);
    }
}

LEASED(WAT_1_the_deadline_and_the_place_that_is_kept)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 1200};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 1000};
    int64_t begin_ns = dlt_host_now(&s.host);

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    becomes_head(&head);
    waiter_start(&head);
    dlt_sleep_ms(600);
    waiter_start(&second);
    cr_assert_eq(waiter_join(&head), DLOCK_TIMEOUT);
    cr_assert_eq(waiter_join(&second), DLOCK_TIMEOUT);
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    second.timeout_ms = 400;
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_TIMEOUT, "the head has its place still");
    t.ops->forget(t.self, &b.req);
    second.timeout_ms = 10000;
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "now it is the head");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
}

/* A head that does nothing any more keeps the others back for MY_HEAD_S, not for ever. */
LEASED(C13_a_head_that_stopped)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 20000};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    becomes_head(&head); /* and then not a word */
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "%s", u.err.message);
    t.ops->forget(t.self, &b.req);
}

/* A waiter needs a connection more. Where the server has no room for it, the waiter looks for
 * itself, and the session that it looks with is not given up (FAI-1). */
LEASED(WAT_1_no_connection_is_left_to_wait_in)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 300};
    struct dlt_session others[12];
    int count = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    while (dlt_session_join(&others[count++], &s) == DLOCK_OK)
        ;
    waiter_start(&w);
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    w.timeout_ms = 20000;
    waiter_start(&w);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&w), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    for (int i = 0; i < count; i++)
        dlt_session_close(&others[i]);
}

/* TRY-3: nobody holds it, and a waiter that is to look again at once would do so all the time. */
LEASED(TRY_3_a_free_name_that_is_reserved_says_no_time)
{
    const char *table = strcmp(s.options[1][1], "row") == 0 ? "f_names" : "f_fences";

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "UPDATE %s SET next_token = 'x', next_us = 9000000 + "
                                   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
                                   table),
                     "");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
        cr_assert_neq(t.grant.holder_ms, 0);
    }
}

/* Nor does a holder who has waited for the name, and has not run out. */
LEASED(C13_a_holder_who_says_nothing)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 20000};
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    begin_ns = dlt_host_now(&s.host); /* no later than the head's time begins */
    becomes_head(&head);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    becomes_head(&second);
    cr_assert_geq(ms_since(begin_ns), 2500, "it was let through at once");
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "%s", u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

/* Readers do not keep each other waiting, nor does who steps down to them. */
LEASED(C13_readers_who_have_waited_come_together)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 2000};

    c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    becomes_head(&head);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    b.req.flags |= DLOCK_REQ_DOWNGRADE;
    b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK, "%s", t.err.message);
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "sooner than after MY_HEAD_S: %s",
                 u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
}

/* Core gives back what it does not know to have. */
LEASED(UNL_4_an_unlock_gives_up_the_place)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 2000};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    becomes_head(&head);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_LOST, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "sooner than after MY_HEAD_S: %s",
                 u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
}

/* The place is the attempt's, and the attempt outlives sessions. */
LEASED(WAT_1_a_place_outlives_the_clients_sessions)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    becomes_head(&head);
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
}

/* ---- strategy session ---- */

PINNED(C9_a_holder_whose_session_was_killed)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    fence = s.grant.fence;
    kill_all();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_gt(t.grant.fence, fence + 31);
    cr_assert_gt(t.grant.since_ns, 0);
}

PINNED(a_restart_ends_the_lock)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_maria_kill(&server);
    cr_assert(dlt_maria_again(&server), "%s", server.why);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    reopen(&t);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
}

/* The server has the lock still: it stopped for less than the lease. */
PINNED(C8_C14_REN_4_a_ping_that_is_answered_late_ends_nothing)
{
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_maria_pause(&server, true);
    begin_ns = dlt_host_now(&s.host);
    s.call_ms = 300;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "the same ping: %s", s.err.message);
    cr_assert(dlt_within(begin_ns, 20000), "%s", dlt_within_text());
    dlt_maria_pause(&server, false);
    s.call_ms = 5000;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "the connection lives: %s", s.err.message);
}

/* An unlock behind a ping reads the old answer first, and sends nothing without it. */
PINNED(C8_UNL_2_an_unlock_after_a_ping_without_an_answer)
{
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        dlt_maria_pause(&server, true);
        s.call_ms = 300;
        cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
        if (i == 0)
            dlt_maria_pause(&server, false);
        s.call_ms = i == 0 ? 5000 : 300;
        cr_assert_eq(dlt_unlock(&s, &a), i == 0 ? DLOCK_OK : DLOCK_UNAVAILABLE, "%s",
                     s.err.message);
        s.call_ms = 5000;
    }
    dlt_session_close(&s); /* the clean-up [SES-2] */
    dlt_maria_pause(&server, false);
    for (int i = 0; i < 500 && dlt_try(&t, &b) != DLOCK_OK; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
}

PINNED(C9_a_server_that_dies_before_it_answers_a_ping)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_maria_pause(&server, true);
    s.call_ms = 300;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    dlt_maria_kill(&server);
    s.call_ms = 5000;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
}

/* The deadline of the wait bounds the exchanges before it, too; and nobody has said that the name
 * is held. */
PINNED(C8_LCK_2_a_wait_at_a_server_that_says_nothing)
{
    int64_t begin_ns = 0;

    dlt_maria_pause(&server, true);
    begin_ns = dlt_host_now(&s.host);
    cr_assert_eq(dlt_lock(&t, &b, 200), DLOCK_UNAVAILABLE, "%s", t.err.message);
    cr_assert(dlt_within(begin_ns, 3000), "%s", dlt_within_text());
    dlt_maria_pause(&server, false);
}

/* The machine was suspended: its clock has gone on, and those of the kernel's waits have not. */
PINNED(C8_a_suspend_in_the_middle_of_a_wait)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 60000, .native = 1};
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    waiter_start(&w);
    await_state("%FOR UPDATE", 1);
    dlt_host_advance(&s.host, 60000);
    begin_ns = dlt_host_now(&s.host);
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
}

PINNED(LCK_1_TIMEOUT_is_definite)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 300, .native = 1};
    int64_t begin_ns = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    begin_ns = dlt_host_now(&s.host);
    waiter_start(&w);
    cr_assert_eq(waiter_join(&w), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert_geq((w.done_ns - begin_ns) / DLT_NS_PER_MS, 299);
    cr_assert(dlt_ended_within(begin_ns, w.done_ns, 20000), "%s", dlt_within_text());
    await_state("%FOR UPDATE%", 0);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

PINNED(INT_2_an_interrupt_ends_the_wait_at_the_server)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 30000, .native = 1};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    waiter_start(&w);
    await_state("%FOR UPDATE%", 1);
    dlt_interrupt(&t, &b);
    cr_assert_eq(waiter_join(&w), DLOCK_CANCELED, "%s", t.err.message);
    await_state("%FOR UPDATE%", 0);
    reopen(&t);
    waiter_start(&w);
    cr_assert_eq(waiter_join(&w), DLOCK_CANCELED, "sticky");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

PINNED(LCK_2_the_server_queues)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 30000, .native = 1};
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    waiter_start(&w);
    await_state("%FOR UPDATE%", 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&w), DLOCK_OK, "%s", t.err.message);
    cr_assert_gt(t.grant.fence, fence);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
}

/* M9: a client that stops in the middle is ended by the server. */
PINNED(a_holder_that_says_nothing_is_ended_by_the_server)
{
    int64_t begin_ns = dlt_host_now(&s.host);
    enum dlock_status status = DLOCK_BUSY;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    while (status == DLOCK_BUSY && ms_since(begin_ns) < 20000) {
        dlt_sleep_ms(50);
        status = dlt_try(&t, &b);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", t.err.message);
    cr_assert_geq(ms_since(begin_ns), 4900, "before the claim is over");
    cr_assert(dlt_within(begin_ns, 10000), "%s", dlt_within_text());
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
}
