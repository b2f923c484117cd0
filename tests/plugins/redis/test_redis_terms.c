/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/guard/guard.c */
/* The failover guard where a server or a setting changes: is a term never taken for another one,
 * and nothing lost without need? (contract, redis; docs/adr/0034-redis-failover-guard.md) */
#include "promoted_kit.h"

TestSuite(terms, .init = set_up, .fini = tear_down, .timeout = 120);

/* The old master is alone when this client connects. */
Test(terms, F3_a_client_that_sees_no_replica_has_the_guard)
{
    struct dlt_request c, d;

    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    (void)promote();
    linked_wait(&q);
    session_blind(&s, &m);
    session_blind(&t, &r);
    dlt_request(&t, &c, "twice", 'c', T_MS);
    dlt_request(&s, &d, "twice", 'd', T_MS);
    (void)wait_for(DLOCK_OK, &t, dlt_try, &c);
    cr_assert_neq(dlt_try(&s, &d), DLOCK_OK);
}

/* The replica joins between a look of the old master and the next request, which does not look. */
Test(terms, F3_a_replica_that_joins_after_the_look_confirms_no_old_term)
{
    struct dlt_request c, d;

    session_begin(&s, &m);
    dlt_session_option(&s, "failover_guard", "9000"); /* D is 6 s: a look counts for 3 s */
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "held", 'a', T_MS);
    (void)wait_for(DLOCK_OK, &s, dlt_try, &a);
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    (void)promote();
    linked_wait(&q);
    session_begin(&t, &r);
    dlt_session_option(&t, "failover_guard", "9000");
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    dlt_request(&t, &c, "twice", 'c', T_MS);
    (void)wait_for(DLOCK_OK, &t, dlt_try, &c);
    dlt_request(&s, &d, "twice", 'd', T_MS);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_UNAVAILABLE, "%s", s.err.message); /* looks */
    follow(&q, &m);
    linked_wait(&q);
    (void)dlt_redis_ask(&m, "WAIT 1 500"); /* the replica acknowledges */
    cr_assert_neq(dlt_try(&s, &d), DLOCK_OK, "the other one was granted a moment before");
}

/* The last confirmation is older than D / 2, and a replica joined since, which now confirms the
 * look after it. */
Test(terms, F3_a_replica_that_was_away_for_long_confirms_no_old_term)
{
    static const char older[] =
        "local r, t = {}, redis.call('TIME') local now = t[1] * 1000000 + t[2] "
        "for w in string.gmatch(redis.call('GET', 'dl:!'), '%S+') do r[#r + 1] = w end "
        "r[3] = string.format('%.0f', now - 4500000) " /* last */
        "r[4] = string.format('%.0f', r[4] - 1) "      /* joined */
        "r[5] = string.format('%.0f', now - 2000000) " /* looked */
        "return redis.call('SET', 'dl:!', table.concat(r, ' '))";
    struct dlt_request c;
    int64_t since = 0;

    session_begin(&s, &m);
    dlt_session_option(&s, "failover_guard", "9000"); /* D is 6 s: a look counts for 3 s */
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "held", 'a', T_MS);
    (void)wait_for(DLOCK_OK, &s, dlt_try, &a);
    dlt_sleep_ms(1200); /* the next request looks */
    cr_assert_str_eq(dlt_redis_ask(&m, "EVAL %s 0", older), "OK");
    dlt_request(&s, &c, "twice", 'c', T_MS);
    for (since = now_ms(); now_ms() - since < 1500; dlt_sleep_ms(50))
        cr_assert_neq(dlt_try(&s, &c), DLOCK_OK, "another master may have granted it");
}

Test(terms, F7_a_server_without_memory_renews_what_is_held)
{
    int64_t since = 0;

    hold();
    (void)dlt_redis_ask(&m, "CONFIG SET maxmemory 1");
    for (since = now_ms(); now_ms() - since < D_MS + 1000; dlt_sleep_ms(100))
        (void)wait_for(DLOCK_OK, &s, dlt_renew, &a);
}

/* Also while nothing is granted a client sees that its master has gone. */
Test(terms, a_second_failover_is_seen_within_the_guard_of_the_first)
{
    enum dlock_status status = DLOCK_BUSY;

    hold();
    (void)promote();
    linked_wait(&q);
    session_open(&t, &r);
    dlt_request(&t, &b, "free", 'b', T_MS);
    (void)wait_for(DLOCK_BUSY, &t, dlt_try, &b);
    dlt_redis_kill(&r);
    for (int i = 0; status == DLOCK_BUSY && i < T_MS / 50; i++, dlt_sleep_ms(50))
        status = dlt_try(&t, &b);
    cr_assert_eq(status, DLOCK_UNAVAILABLE, "%s", t.err.message);
}

/* The client's connection stays: the script sees that this is another promotion. */
Test(terms, F6_a_master_that_was_a_replica_for_a_while_is_seen)
{
    int64_t again = 0;

    hold();
    (void)wait_for(DLOCK_OK, &s, dlt_renew, &a);
    (void)dlt_redis_ask(&r, "REPLICAOF NO ONE");
    follow(&m, &r);
    linked_wait(&m);
    again = now_ms();
    (void)dlt_redis_ask(&m, "REPLICAOF NO ONE");
    follow(&q, &m);
    cr_assert_neq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_geq(wait_for(DLOCK_OK, &s, dlt_try, &b) - again, T_MS + D_MS);
}

/* What is kept counts only if a master may say "yours". The server would allow it: the script
 * refuses. */
Test(terms, FO_11_an_old_master_keeps_nothing)
{
    int64_t promoted = 0;

    hold();
    a.req.keep_ms = 5000;
    (void)wait_for(DLOCK_OK, &s, dlt_unlock, &a);
    cr_assert_str_eq(dlt_redis_ask(&m, "ZCARD dl:{held}:r"), "1");
    (void)wait_for(DLOCK_OK, &s, dlt_try, &a);
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    held_last();
    promoted = promote();
    while (now_ms() - promoted < D_MS + 500)
        dlt_sleep_ms(50);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
}

/* The holder a made no request for longer than a look counts, and then releases. Is it told to the
 * waiter b, which has the name in any case afterwards? */
static bool is_passed_on(void)
{
    enum dlock_status status = DLOCK_INTERNAL;

    held_last();
    (void)wait_for(DLOCK_BUSY, &t, dlt_queue_up, &b);
    dlt_sleep_ms(D_MS / 2 + 300);
    (void)wait_for(DLOCK_BUSY, &t, dlt_refresh, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    status = dlt_watch(&t, &b, 2000);
    if (status != DLOCK_OK)
        (void)wait_for(DLOCK_OK, &t, dlt_try, &b);
    t.ops->forget(t.self, &b.req);
    (void)wait_for(DLOCK_OK, &t, dlt_unlock, &b);
    return status == DLOCK_OK;
}

/* The release waits 40 ms for replicas: on a busy machine one that has time may fail. */
Test(terms, a_release_after_a_long_time_passes_the_name_on)
{
    bool passed_on = false;

    hold();
    session_open(&t, &m);
    b.req.name = a.req.name;
    b.req.name_len = a.req.name_len;
    for (int i = 0; i < 5 && !passed_on; i++)
        passed_on = is_passed_on();
    cr_assert(passed_on, "%s", t.err.message);
}

Test(terms, CONFIG_says_what_to_set)
{
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    dlt_session_init(&s, "redis", m.address);
    dlt_session_trusted(&s);
    dlt_session_option(&s, "restart_guard", "3000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "it has replicas");
    cr_assert(strstr(s.err.message, "min-replicas-to-write 1 (now 0)") != NULL, "%s",
              s.err.message);
    dlt_session_option(&s, "failover_guard", "6000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "and it is seen that they may not be enough");
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert(s.info.caps & DLOCK_CAP_FAILOVER_SAFE);
    dlt_session_close(&s);
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    dlt_session_option(&s, "failover_guard", "4000");
    cr_assert_eq(dlt_session_open(&s), DLOCK_INVALID, "an old master would have a second");
    dlt_session_option(&s, "failover_guard", "0");
    dlt_session_option(&s, "failover", "unsafe");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.info.caps & DLOCK_CAP_FAILOVER_SAFE, 0);
}
