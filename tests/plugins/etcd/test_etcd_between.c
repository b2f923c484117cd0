/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/take.c plugins/etcd/unlock.c plugins/etcd/renew.c plugins/etcd/admin.c */

/* What happens between two exchanges of one call, and what an attempt leaves to the next one. */
#include "between_kit.h"
#include "lib/time.h"
#include "queue.h"

static int64_t lease_of(const struct dlt_request *request)
{
    const struct etcd_slot *slot = request->req.attempt;

    return slot->lease != NULL ? slot->lease->id : 0;
}

#define READERS 70 /* more than the answer to a Put tells of */

static struct dlt_request readers[READERS];

/* b wants to be a reader behind many. */
static void open_readers(const char *test)
{
    open_all(test);
    for (int i = 0; i < READERS; i++) {
        dlt_request(&s, &readers[i], "job", (unsigned char)i, 60000);
        readers[i].req.token[0] = 1;
        readers[i].req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(&s, &readers[i]), DLOCK_OK, "%d: %s", i, s.err.message);
    }
    b.req.mode = DLOCK_SHARED;
}

Test(between, TRY_1_a_key_that_goes_before_its_place_is_known_holds_nothing)
{
    open_readers("goes");
    at(3); /* a lease, the Put if the name is free, the Put behind others, and the question */
    plan.ask = "del goes/job/" KEY_OF_B;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/" KEY_OF_B), 1);
    cr_assert_gt(t.grant.fence, 0);
    cr_assert_eq(t.grant.lease_ms, 60000);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    close_all();
}

Test(between, TRY_4_a_key_that_was_put_is_not_UNAVAILABLE)
{
    open_readers("put");
    for (int i = 0; i < 2; i++) {
        uint32_t flags = i == 0 ? 0 : DLOCK_REQ_ENQUEUE;

        at(3);
        plan.down = true;
        cr_assert_eq(try_with(&t, &b, flags), DLOCK_UNKNOWN, "%d: %s", i, t.err.message);
        cr_assert_lt(plan.left, 0);
        cr_assert_eq(t.err.status, DLOCK_UNKNOWN);
        cr_assert_eq(keys_count("job/" KEY_OF_B), 1);
        cr_assert_eq(try_with(&t, &b, flags), DLOCK_OK, "%s", t.err.message);
        cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    }
    close_all();
}

/* The name is taken with one of two leases, the other one has ended, and then nobody answers. */
Test(between, TRY_4_a_name_that_was_taken_is_not_UNAVAILABLE)
{
    char revoke[64];

    open_all("taken");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    (void)snprintf(revoke, sizeof revoke, "lease revoke %llx", (unsigned long long)lease_of(&b));
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)dlt_etcd_ask(&server, "%s", revoke);
    at(1);
    plan.down = true;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_UNKNOWN, "%s", t.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(keys_count("job/" KEY_OF_B), 1);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    close_all();
}

Test(between, a_lease_is_used_again)
{
    int64_t lease = 0;

    open_all("again");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    lease = lease_of(&a);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(lease_of(&a), lease);
    close_all();
}

/* Who adopts a lock has a second idea of its lease. */
Test(between, TRY_2_a_lease_carries_one_key_also_after_an_adoption)
{
    struct dlt_request again, other;

    open_all("adopted");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_request(&s, &again, "job", 'a', 60000);
    cr_assert_eq(dlt_renew(&s, &again), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(lease_of(&again), lease_of(&a));
    cr_assert_eq(dlt_unlock(&s, &again), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    dlt_request(&s, &a, "job", 'd', 60000);
    dlt_request(&s, &other, "other", 'e', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &other), DLOCK_OK);
    cr_assert_neq(lease_of(&other), lease_of(&a));
    s.ops->forget(s.self, &other.req);
    close_all();
}

/* The one who adopted it has given it another lease. */
Test(between, TRY_2_a_lease_is_handed_back_only_by_the_key_that_had_it)
{
    struct dlt_request again, other;

    open_all("other");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_request(&s, &again, "job", 'a', 120000);
    cr_assert_eq(dlt_renew(&s, &again), DLOCK_OK, "%s", s.err.message);
    cr_assert_neq(lease_of(&again), lease_of(&a));
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_request(&s, &a, "job", 'd', 60000);
    dlt_request(&s, &other, "other", 'e', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &other), DLOCK_OK);
    cr_assert_neq(lease_of(&other), lease_of(&a));
    s.ops->forget(s.self, &again.req);
    s.ops->forget(s.self, &other.req);
    close_all();
}

/* A renewal without an answer; then the lock is broken, and a copy of the first request arrives. */
Test(between, REN_2_C6_a_late_copy_of_the_key_is_not_the_lock_that_was_lost)
{
    open_all("late");
    a.req.ttl_ms = 5000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    a.req.ttl_ms = 60000;
    at(2); /* the renewal, a lease, and the change */
    plan.silent = true;
    (void)dlt_renew(&s, &a);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(lease_of(&a), 0, "in doubt");
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    dlt_request(&u, &c, "other", 'c', 60000); /* has a lease */
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    (void)dlt_etcd_ask(&server, "put --lease=%llx %s/job/61616161616161616161616161616161 'x late'",
                       (unsigned long long)lease_of(&c), path + 1);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    close_all();
}

static bool nobody(void *arg, const struct dlock_holder *holder)
{
    (void)arg;
    (void)holder;
    return false;
}

static enum dlock_status list(struct dlt_session *session)
{
    session->err = (struct dlock_error)DLOCK_ERROR_INIT;
    return session->ops->list(session->self, (const unsigned char *)"", 0,
                              dlt_host_in(&session->host, session->call_ms), nobody, NULL,
                              &session->err);
}

Test(between, keys_that_nobody_asked_for_are_an_error)
{
    struct dlt_holder holder;
    size_t count = 1;

    open_all("cut");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    at(0);
    plan.cut = true;
    cr_assert_eq(dlt_inspect(&t, "job", &holder, &count), DLOCK_PROTOCOL, "%s", t.err.message);
    at(0);
    plan.cut = true;
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_PROTOCOL, "%s", t.err.message);
    at(0);
    plan.cut = true;
    cr_assert_eq(list(&t), DLOCK_PROTOCOL, "%s", t.err.message);
    close_all();
}

/* ---- leases that are used again ---- */

static void count_from_zero(void)
{
    exchanges = 0;
    keep_alives = 0;
}

/* The lease that waits in the pool of a client. */
static struct etcd_lease *idle_of(struct dlt_session *session)
{
    struct etcd_session *self = session->self;

    cr_assert_not_null(self->pool.idle);
    return self->pool.idle;
}

/* It was granted for a second more than the ttl. */
Test(between, TRY_2_a_lease_that_was_kept_alive_a_moment_ago_needs_no_KeepAlive)
{
    open_all("warm");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(idle_of(&s)->ttl_ms, 61000);
    count_from_zero();
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(exchanges, 1);
    cr_assert_eq(keep_alives, 0);
    cr_assert_eq(s.grant.lease_ms, 60000);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    close_all();
}

Test(between, TRY_2_a_lease_is_kept_alive_after_that_second)
{
    open_all("cold");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    idle_of(&s)->alive_ns -= 1001 * DL_NS_PER_MS;
    count_from_zero();
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(exchanges, 1);
    cr_assert_eq(keep_alives, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    close_all();
}

/* A short ttl gets no second more: that would be too much of it. */
Test(between, TRY_2_a_lease_of_a_short_ttl_is_always_kept_alive)
{
    open_all("short");
    a.req.ttl_ms = 10000;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(idle_of(&s)->ttl_ms, 10000);
    count_from_zero();
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(keep_alives, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    close_all();
}

/* The former leader may have said that it lasts. The key is there, and is asked for once more. */
Test(between, TRY_2_a_lease_of_another_leader_is_kept_alive_before_it_counts)
{
    open_all("term");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    idle_of(&s)->term--;
    count_from_zero();
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_geq(keep_alives, 1);
    cr_assert_eq(keys_count("job/"), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(keys_count("job/"), 0);
    close_all();
}

/* What the lease of a waiter or of a grant may be said to last, from now on: what the cluster keeps
 * of the lease since it was kept alive. */
static int64_t kept_ms(const struct dlt_request *request, int64_t since_ns)
{
    const struct etcd_slot *slot = request->req.attempt;

    return slot->lease->ttl_ms - (since_ns - slot->lease->alive_ns) / DL_NS_PER_MS;
}

/* A client of a cluster that grants so much at least, whose waiters' leases last so long. It has
 * one in its pool, kept alive a while ago. a holds the name. */
static void open_waiter(const char *test, int64_t least_ms, const char *waiter_lease,
                        int64_t ago_ms)
{
    open_all(test);
    dlt_session_close(&t);
    client_init(&t);
    dlt_session_option(&t, "waiter_lease", waiter_lease);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    etcd_lease_pool_set_least(&((struct etcd_session *)t.self)->pool, least_ms);
    dlt_request(&t, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    dlt_request(&t, &b, "job", 'd', 60000);
    dlt_sleep_ms(ago_ms);
}

/* The lease has a second more, and counts from its last KeepAlive. */
Test(between, TRY_2_a_queue_entry_is_not_said_to_last_longer_than_its_lease)
{
    int64_t begin_ns = 0;

    open_waiter("entry", 1000, "30000", 800);
    begin_ns = etcd_lease_pool_now(&((struct etcd_session *)t.self)->pool);
    queue(&t, &b);
    cr_assert_leq(t.grant.lease_ms, kept_ms(&b, begin_ns));
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    close_all();
}

/* Its key is on the waiter's lease: the call ends soon. */
Test(between, TRY_2_a_lock_taken_in_a_hurry_is_not_said_to_last_longer_than_its_lease)
{
    int64_t begin_ns = 0;

    open_waiter("hurry", 1000, "30000", 800);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    t.call_ms = 200;
    begin_ns = etcd_lease_pool_now(&((struct etcd_session *)t.self)->pool);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK, "%s", t.err.message);
    cr_assert_leq(t.grant.lease_ms, kept_ms(&b, begin_ns));
    t.call_ms = 5000;
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    close_all();
}

/* An election timeout of 3 s and more makes the lease of a waiter longer than the option. */
Test(between, C1_a_lock_that_a_waiter_was_granted_is_its_own_for_as_long_as_was_said)
{
    struct etcd_lease_pool *pool = NULL;
    int64_t begin_ns = 0, until_ns = 0;
    enum dlock_status status = DLOCK_BUSY;

    open_waiter("granted", 5000, "3000", 1700);
    pool = &((struct etcd_session *)t.self)->pool;
    begin_ns = etcd_lease_pool_now(pool);
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&t, &b, 1000), DLOCK_OK, "%s", t.err.message);
    until_ns = begin_ns + t.grant.lease_ms * DL_NS_PER_MS;
    while (status == DLOCK_BUSY && etcd_lease_pool_now(pool) < until_ns)
        status = dlt_try(&u, &c);
    cr_assert(status == DLOCK_BUSY || etcd_lease_pool_now(pool) >= until_ns,
              "another client got the name %d ms before the end of the lease",
              (int)((until_ns - etcd_lease_pool_now(pool)) / DL_NS_PER_MS));
    close_all();
}

/* Three are left from before: none of them is the reason to give up. */
Test(between, TRY_4_many_leases_of_another_leader_leave_no_doubt)
{
    static const char *const names[] = {"n0", "n1", "n2"};
    struct dlt_request held[3];

    open_all("terms");
    for (int i = 0; i < 3; i++) {
        dlt_request(&s, &held[i], names[i], (unsigned char)('p' + i), 60000);
        cr_assert_eq(dlt_try(&s, &held[i]), DLOCK_OK, "%s", s.err.message);
    }
    for (int i = 0; i < 3; i++)
        cr_assert_eq(dlt_unlock(&s, &held[i]), DLOCK_OK);
    for (struct etcd_lease *lease = idle_of(&s); lease != NULL; lease = lease->next)
        lease->term--;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(keys_count("job/"), 0);
    close_all();
}

/* A twentieth of it is a second. */
Test(between, TRY_2_a_ttl_of_twenty_seconds_is_the_first_one_with_a_second_more)
{
    static const int64_t ttls_ms[][2] = {{19000, 19000}, {20000, 21000}};

    open_all("twenty");
    for (int i = 0; i < 2; i++) {
        a.req.ttl_ms = ttls_ms[i][0];
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(s.grant.lease_ms, ttls_ms[i][0]);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        cr_assert_eq(idle_of(&s)->ttl_ms, ttls_ms[i][1]);
    }
    close_all();
}
