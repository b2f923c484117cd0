/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/guard/guard.c plugins/resp/guard.c */
/* Three servers, of which one after another is the master: does a failover make no second holder?
 * (contract, redis; docs/adr/0034-redis-failover-guard.md has the rules F1 to F10) */
#include "promoted_kit.h"

#include <pthread.h>

TestSuite(failover, .init = set_up, .fini = tear_down, .timeout = 120);

Test(failover, F7_a_master_that_was_started_grants_nothing_for_T_and_D)
{
    int64_t started = 0;

    dlt_redis_kill(&m);
    cr_assert(dlt_redis_again(&m), "%s", m.why);
    linked_wait(&r);
    started = now_ms();
    session_open(&s, &m);
    cr_assert(s.info.caps & DLOCK_CAP_FAILOVER_SAFE);
    dlt_request(&s, &a, "job", 'a', T_MS);
    (void)wait_for(DLOCK_BUSY, &s, dlt_try, &a); /* it may not see its replicas yet */
    cr_assert(strstr(s.err.message, "see failover_guard") != NULL, "%s", s.err.message);
    cr_assert_gt(s.grant.holder_ms, 0);
    cr_assert_geq(wait_for(DLOCK_OK, &s, dlt_try, &a) - started, T_MS + D_MS);
}

static enum dlock_status take_and_renew_for_long(struct dlt_session *session,
                                                 struct dlt_request *request)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.ttl_ms = T_MS;
    status = dlt_try(session, request);
    request->req.ttl_ms = 10 * T_MS;
    return status == DLOCK_OK ? dlt_renew(session, request) : status;
}

Test(failover, F4_no_lease_is_longer_than_T)
{
    hold();
    b.req.ttl_ms = T_MS + 1;
    cr_assert_eq(dlt_try(&s, &b), DLOCK_CONFIG);
    (void)wait_for(DLOCK_OK, &s, take_and_renew_for_long, &a);
    cr_assert_leq(strtol(dlt_redis_ask(&m, "PTTL dl:{held}"), NULL, 10), T_MS);
}

/* The token is on the replica; it is kept alive at the old master, as in a partition. */
Test(failover, F1_F2_a_promoted_master_says_yours_after_D_and_S_and_grants_after_T_and_D)
{
    int64_t promoted = 0, yours = 0;

    hold();
    held_last();
    (void)promote();
    linked_wait(&q);
    promoted = now_ms();
    session_open(&t, &r);
    dlt_request(&t, &b, "free", 'b', T_MS);
    cr_assert_neq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_neq(dlt_renew(&t, &a), DLOCK_OK);
    (void)wait_for(DLOCK_BUSY, &t, dlt_try, &b);
    yours = wait_for(DLOCK_OK, &t, dlt_renew, &a) - promoted;
    cr_assert_geq(yours, D_MS + S_MS);
    cr_assert_geq(wait_for(DLOCK_OK, &t, dlt_try, &b) - promoted, T_MS + D_MS);
    cr_assert_gt(t.grant.fence, s.grant.fence, "F8");
}

/* A batch of two at s: both have this status. */
static void two_are(enum dlock_status (*slot)(void *self, struct dlock_batch_op *const *ops,
                                              size_t n, struct dlock_error *err),
                    struct dlt_request *one, struct dlt_request *two, enum dlock_status status)
{
    struct dlt_request *const both[] = {one, two};
    struct dlock_error errors[2] = {DLOCK_ERROR_INIT, DLOCK_ERROR_INIT};
    struct dlock_batch_op elements[2], *const ops[] = {&elements[0], &elements[1]};

    for (size_t i = 0; i < 2; i++) {
        elements[i] = (struct dlock_batch_op){.struct_size = sizeof elements[i],
                                              .req = dlt_due(&s, both[i], s.call_ms),
                                              .err = &errors[i]};
        elements[i].grant.struct_size = sizeof elements[i].grant;
    }
    cr_assert_eq(slot(s.self, ops, 2, &s.err), DLOCK_OK);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(elements[i].status, status, "%zu: %d: %s", i, (int)elements[i].status,
                     errors[i].message);
}

/* The server would allow it: the script refuses. */
Test(failover, F3_F6_an_old_master_without_replicas_answers_nothing_after_D)
{
    struct dlt_request c;
    int64_t promoted = 0;

    hold();
    dlt_request(&s, &c, "free, too", 'c', T_MS);
    two_are(s.ops->trylock_batch, &b, &c, DLOCK_OK);
    two_are(s.ops->unlock_batch, &b, &c, DLOCK_OK);
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    held_last();
    promoted = promote();
    follow(&q, &r);
    while (now_ms() - promoted < D_MS + 500)
        dlt_sleep_ms(50);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert(strstr(s.err.message, "FAILOVER") != NULL, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_UNAVAILABLE);
    two_are(s.ops->trylock_batch, &b, &c, DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "an unlock is allowed: %s", s.err.message);
}

static void *renew_run(void *arg)
{
    *(enum dlock_status *)arg = dlt_renew(&s, &a);
    return NULL;
}

/* m stands still; r is promoted; more than D later m goes on, with what waited in its sockets. */
static enum dlock_status renew_across_a_standstill(int64_t gather_ms)
{
    enum dlock_status status = DLOCK_INTERNAL;
    pthread_t thread;
    int64_t promoted = 0;

    dlt_redis_pause(&m, true);
    dlt_sleep_ms(gather_ms);
    cr_assert_eq(pthread_create(&thread, NULL, renew_run, &status), 0);
    dlt_sleep_ms(200);
    cr_assert_str_eq(dlt_redis_ask(&r, "REPLICAOF NO ONE"), "OK");
    follow(&q, &r);
    promoted = now_ms();
    while (now_ms() - promoted < D_MS + 1000)
        dlt_sleep_ms(50);
    dlt_redis_pause(&m, false);
    (void)pthread_join(thread, NULL);
    return status;
}

/* The request waits itself: its client looked a moment before, and replicas confirmed that. */
Test(failover, F3_a_master_that_stood_still_executes_nothing_of_what_waited)
{
    hold();
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    held_last();
    s.call_ms = 15000;
    dlt_sleep_ms(1100); /* then the next request looks */
    (void)wait_for(DLOCK_OK, &s, dlt_renew, &a);
    cr_assert_eq(renew_across_a_standstill(0), DLOCK_UNAVAILABLE, "%s", s.err.message);
}

/* Together with acknowledgements that are older than the promotion. */
Test(failover, F3_old_acknowledgements_confirm_nothing)
{
    hold();
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    held_last();
    s.call_ms = 15000;
    cr_assert_eq(renew_across_a_standstill(1500), DLOCK_UNAVAILABLE, "%s", s.err.message);
}

/* The next master has not heard of the unlock, and the old one has granted the name since. Before
 * that is over, the lease of a token that nobody renews has run out; here it lasts longer. */
Test(failover, F10_a_token_that_was_unlocked_is_not_adopted)
{
    int64_t promoted = 0;
    bool is_told = false;

    hold();
    (void)dlt_redis_ask(&m, "PEXPIRE dl:{held} 60000");
    (void)dlt_redis_ask(&m, "WAIT 2 10000");
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    (void)promote();
    linked_wait(&q);
    promoted = now_ms();
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    session_open(&t, &r);
    a.req.flags = DLOCK_REQ_ADOPT;
    cr_assert_eq(dlt_renew(&t, &a), DLOCK_UNAVAILABLE, "%s", t.err.message);
    a.req.flags = 0;
    (void)wait_for(DLOCK_OK, &t, dlt_renew, &a);
    a.req.flags = DLOCK_REQ_ADOPT;
    while (dlt_renew(&t, &a) == DLOCK_UNAVAILABLE && now_ms() - promoted < SLACK_MS) {
        is_told = is_told || strstr(t.err.message, "see failover_guard") != NULL;
        dlt_sleep_ms(50);
    }
    cr_assert_geq(now_ms() - promoted, T_MS + D_MS);
    cr_assert(is_told, "%s", t.err.message);
    (void)wait_for(DLOCK_OK, &t, dlt_renew, &a);
    a.req.flags = 0;
}

/* The queue came by replication. */
Test(failover, F1_a_promoted_master_passes_nothing_on)
{
    hold();
    held_last();
    b.req.name = a.req.name;
    b.req.name_len = a.req.name_len;
    follow(&q, &r); /* r takes writes at once */
    linked_wait(&q);
    (void)wait_for(DLOCK_BUSY, &s, dlt_queue_up, &b);
    for (int i = 0; i < 200 && strcmp(dlt_redis_ask(&r, "EXISTS dl:{held}:q"), "1") != 0; i++)
        dlt_sleep_ms(10);
    cr_assert_str_eq(dlt_redis_ask(&r, "REPLICAOF NO ONE"), "OK");
    session_open(&t, &r);
    cr_assert_eq(dlt_unlock(&t, &a), DLOCK_OK, "an unlock is allowed: %s", t.err.message);
    cr_assert_str_eq(dlt_redis_ask(&r, "EXISTS dl:{held}"), "0");
    s.ops->forget(s.self, &b.req);
}

/* The other replica follows the old master for longer than the guard lasts, and then moves. */
static void late_move(void)
{
    struct dlt_request c, d;
    int64_t looked = 0, renewed = 0;

    dlt_request(&s, &c, "twice", 'c', T_MS);
    (void)wait_for(DLOCK_OK, &s, dlt_try, &c);
    cr_assert_str_eq(dlt_redis_ask(&r, "REPLICAOF NO ONE"), "OK");
    session_blind(&t, &r);
    dlt_request(&t, &d, "twice", 'd', T_MS);
    cr_assert_neq(dlt_try(&t, &d), DLOCK_OK);
    looked = now_ms();
    while (now_ms() - looked < T_MS + D_MS + 2000) {
        (void)dlt_renew(&s, &c);
        cr_assert_neq(dlt_try(&t, &d), DLOCK_OK);
        dlt_sleep_ms(100);
    }
    (void)wait_for(DLOCK_OK, &s, dlt_renew, &c);
    renewed = now_ms();
    follow(&q, &r);
    while (now_ms() - renewed < T_MS - 300) {
        cr_assert_neq(dlt_try(&t, &d), DLOCK_OK, "the other one was renewed %lld ms before",
                      (long long)(now_ms() - renewed));
        dlt_sleep_ms(50);
    }
}

/* The servers do not refuse writes, and the client may not read their settings. */
Test(failover, F5_the_guard_begins_when_enough_replicas_have_left_the_old_master)
{
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 0");
    (void)dlt_redis_ask(&r, "CONFIG SET min-replicas-to-write 0");
    session_blind(&s, &m);
    late_move();
}

/* As wait_for with OK; and nothing is refused because the term is young. */
static void granted_by_the_same_term(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int64_t since = 0;

    for (since = now_ms(); status != DLOCK_OK && now_ms() - since < SLACK_MS; dlt_sleep_ms(20)) {
        status = dlt_try(session, request);
        cr_assert(status != DLOCK_BUSY || strstr(session->err.message, "failover_guard") == NULL,
                  "the term began anew: %s", session->err.message);
    }
    cr_assert_eq(status, DLOCK_OK, "%d: %s", (int)status, session->err.message);
}

/* A client that may not read the servers' settings counts the replicas that it sees. */
Test(failover, F5_a_term_of_fewer_replicas_is_none)
{
    struct dlt_request c, d;
    int64_t opened = 0;

    session_blind(&t, &m);
    dlt_request(&t, &c, "blind", 'c', T_MS);
    (void)wait_for(DLOCK_OK, &t, dlt_try, &c);
    (void)dlt_redis_ask(&m, "CONFIG SET min-replicas-to-write 2");
    opened = now_ms();
    session_open(&s, &m);
    dlt_request(&s, &d, "seen", 'd', T_MS);
    cr_assert_geq(wait_for(DLOCK_OK, &s, dlt_try, &d) - opened, T_MS + D_MS);
    (void)dlt_unlock(&s, &d);
    for (int i = 0; i < 4; i++) { /* although D / 2 passes in between */
        dlt_sleep_ms(D_MS / 2 + 200);
        granted_by_the_same_term(i % 2 != 0 ? &s : &t, i % 2 != 0 ? &d : &c);
        (void)dlt_unlock(i % 2 != 0 ? &s : &t, i % 2 != 0 ? &d : &c);
    }
}

/* A replica was promoted, granted, and follows the old master again, which was never demoted. */
Test(failover, F3_an_old_master_that_is_followed_again_begins_anew)
{
    struct dlt_request c, d;
    int64_t granted = 0;

    hold();
    (void)promote();
    linked_wait(&q);
    session_open(&t, &r);
    dlt_request(&t, &c, "twice", 'c', T_MS);
    (void)wait_for(DLOCK_OK, &t, dlt_try, &c);
    granted = now_ms();
    follow(&r, &m);
    follow(&q, &m);
    dlt_request(&s, &d, "twice", 'd', T_MS);
    while (now_ms() - granted < T_MS - 300) {
        cr_assert_neq(dlt_try(&s, &d), DLOCK_OK, "the other one was granted %lld ms before",
                      (long long)(now_ms() - granted));
        dlt_sleep_ms(50);
    }
    cr_assert_geq(wait_for(DLOCK_OK, &s, dlt_try, &d) - granted, T_MS + D_MS);
}

/* The mark of the promotion before it came with the data. */
Test(failover, F5_each_promotion_has_a_guard_of_its_own)
{
    int64_t promoted = 0;

    hold();
    (void)promote();
    session_open(&t, &r);
    dlt_request(&t, &b, "free", 'b', T_MS);
    linked_wait(&q);
    follow(&m, &r);
    linked_wait(&m);
    (void)wait_for(DLOCK_OK, &t, dlt_try, &b);
    dlt_session_close(&t);
    cr_assert_str_eq(dlt_redis_ask(&q, "REPLICAOF NO ONE"), "OK");
    follow(&m, &q);
    follow(&r, &q);
    linked_wait(&m);
    linked_wait(&r);
    promoted = now_ms();
    session_open(&t, &q);
    dlt_request(&t, &b, "other", 'c', T_MS);
    cr_assert_neq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_geq(wait_for(DLOCK_OK, &t, dlt_try, &b) - promoted, T_MS + D_MS);
}

/* Sends the waiter b of "held" a grant with these last words. */
static void grant_send(const char *channel, const char *words)
{
    cr_assert_str_eq(
        dlt_redis_ask(&m,
                      "EVAL return(redis.call('PUBLISH',KEYS[1],table.concat(ARGV,"
                      "string.char(32)))) 1 %s 62626262626262626262626262626262 9007199254740000 "
                      "2000 %s",
                      channel, words),
        "1");
}

/* A grant of the old master, which arrives by replication or late. */
Test(failover, F9_a_message_of_another_promotion_is_no_grant)
{
    char channel[128] = "";

    hold();
    b.req.name = (const unsigned char *)"held";
    b.req.name_len = 4;
    held_last();
    (void)wait_for(DLOCK_BUSY, &s, dlt_queue_up, &b);
    (void)snprintf(channel, sizeof channel, "%s", dlt_redis_ask(&m, "PUBSUB CHANNELS"));
    channel[strcspn(channel, "\n")] = '\0';
    grant_send(channel, "@0123456789012345678901234567890123456789");
    grant_send(channel, "3 @0123456789012345678901234567890123456789"); /* of a semaphore */
    grant_send(channel, "3");                                           /* without the guard */
    cr_assert_eq(dlt_watch(&s, &b, 700), DLOCK_TIMEOUT, "another master's");
    dlt_sleep_ms(400); /* the refresh looks, so that the release need not */
    (void)wait_for(DLOCK_BUSY, &s, dlt_refresh, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&s, &b, 5000), DLOCK_OK, "its own: %s", s.err.message);
    s.ops->forget(s.self, &b.req);
}

static uint32_t permit_of(struct dlt_session *session, struct dlt_request *request)
{
    cr_assert_eq(dlt_watch(session, request, 5000), DLOCK_OK, "%s", session->err.message);
    return session->grant.permit;
}

/* The message has a permit and the promotion. */
Test(failover, F9_a_permit_is_handed_on)
{
    struct dlt_request first, second;

    hold();
    dlt_request(&s, &first, "permits", 'c', T_MS);
    dlt_request(&s, &second, "permits", 'd', T_MS);
    dlt_request(&s, &b, "permits", 'b', T_MS);
    first.req.limit = second.req.limit = b.req.limit = 2;
    (void)wait_for(DLOCK_OK, &s, dlt_try, &first);
    (void)wait_for(DLOCK_OK, &s, dlt_try, &second);
    (void)wait_for(DLOCK_BUSY, &s, dlt_queue_up, &b);
    cr_assert_eq(dlt_unlock(&s, &second), DLOCK_OK);
    cr_assert_eq(permit_of(&s, &b), 1);
    s.ops->forget(s.self, &b.req);
}
