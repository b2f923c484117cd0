/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/plugin.c plugins/etcd/take.c plugins/etcd/unlock.c plugins/etcd/renew.c */
/* Tests: plugins/etcd/lease_pool.c plugins/etcd/admin.c */
/* Tests: plugins/etcd/probe.c */
/* Do the slots keep the clauses of plugin.h, on a member that behaves? */
#include "name_kit.h"

#define MANY 250

Test(slots, TRY_3_busy_leaves_no_key)
{
    open_all("busy");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
        cr_assert_eq(t.grant.flags, 0);
        cr_assert_eq(t.grant.waiters, 0);
        b.req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
        b.req.mode = DLOCK_EXCLUSIVE;
    }
    cr_assert_eq(keys_count(""), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(keys_count(""), 0);
    close_all();
}

Test(slots, TRY_5_again_with_the_same_token_never_shortens)
{
    struct dlt_holder holder;
    uint64_t fence = 0;

    open_all("again");
    for (uint32_t mode = DLOCK_EXCLUSIVE; mode <= DLOCK_SHARED; mode++) {
        struct dlt_request again;
        size_t count = 1;

        a.req.mode = mode;
        a.req.ttl_ms = 60000;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        fence = s.grant.fence;
        dlt_request(&t, &again, "job", 'a', 2000); /* of which nothing is known */
        again.req.mode = mode;
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(dlt_try(&t, &again), DLOCK_OK, "%s", t.err.message);
            cr_assert_eq(t.grant.fence, fence);
            cr_assert_eq(t.grant.lease_ms, 2000);
        }
        cr_assert_eq(dlt_inspect(&u, "job", &holder, &count), DLOCK_OK);
        cr_assert_gt(holder.remaining_ms, 50000);
        t.ops->forget(t.self, &again.req);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    }
    close_all();
}

/* More readers than one answer has. */
Test(slots, C12_a_reader_behind_many_readers_and_a_writer)
{
    static struct dlt_request readers[150];

    open_all("crowd");
    for (int i = 0; i < 150; i++) {
        dlt_request(&s, &readers[i], "job", (unsigned char)i, 60000);
        readers[i].req.token[0] = 1;
        readers[i].req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(&s, &readers[i]), DLOCK_OK, "%d: %s", i, s.err.message);
    }
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    for (int i = 0; i < 150; i++)
        cr_assert_eq(dlt_unlock(&s, &readers[i]), DLOCK_OK);
    cr_assert_eq(keys_count(""), 0);
    close_all();
}

Test(slots, list_has_the_names_of_the_prefix_page_by_page)
{
    static struct dlt_request requests[MANY * 3];
    static struct dlt_holder holders[MANY * 4];
    size_t count = MANY * 4;
    char name[32];

    open_all("list");
    for (int i = 0; i < MANY * 3; i++) {
        (void)snprintf(name, sizeof name, "%s/%%%d", i % 3 == 0 ? "odd" : "even", i);
        dlt_request(&s, &requests[i], name, (unsigned char)(i % 250), 60000);
        requests[i].req.name = (const unsigned char *)strdup(name);
        cr_assert_eq(dlt_try(&s, &requests[i]), DLOCK_OK, "%s", s.err.message);
    }
    cr_assert_eq(dlt_list(&t, "", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, MANY * 3);
    count = MANY * 4;
    cr_assert_eq(dlt_list(&t, "odd/%", holders, &count), DLOCK_OK);
    cr_assert_eq(count, MANY);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(strncmp(holders[i].name, "odd/%", 5), 0, "%s", holders[i].name);
        cr_assert_gt(holders[i].remaining_ms, 10000);
    }
    count = MANY * 4;
    cr_assert_eq(dlt_list(&t, "none", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 0);
    for (int i = 0; i < MANY * 3; i++) {
        cr_assert_eq(dlt_unlock(&s, &requests[i]), DLOCK_OK);
        free((void *)(uintptr_t)requests[i].req.name);
    }
    close_all();
}

Test(slots, list_with_raw_keys_has_each_name_once)
{
    struct dlt_request d, e;
    struct dlt_holder holders[8];
    size_t count = 8;

    open_all("rawlist");
    dlt_session_close(&s);
    dlt_session_option(&s, "key", "raw");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    dlt_request(&s, &d, "x", 0x11, 60000);
    dlt_request(&s, &e, "x", 0xee, 60000);
    a.req.name = (const unsigned char *)"x/8";
    a.req.mode = d.req.mode = e.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &d), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &e), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 4, "the key of x/8 is in the way of x, too: %zu", count);
    count = 8;
    cr_assert_eq(dlt_list(&s, "x/", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holders[0].name, "x/8");
    s.ops->forget(s.self, &d.req);
    s.ops->forget(s.self, &e.req);
    close_all();
}

/* A client whose path is below another one's has its names below one of that one's names. */
Test(slots, BRK_1_break_leaves_the_locks_of_a_path_below_alone)
{
    struct dlt_session below;
    struct dlt_request other;
    char its_path[sizeof path + 8];

    open_all("below");
    (void)snprintf(its_path, sizeof its_path, "%s/job", path);
    dlt_session_init(&below, &server);
    below.target.path = its_path;
    cr_assert_eq(dlt_session_open(&below), DLOCK_OK, "%s", below.err.message);
    dlt_request(&below, &other, "name", 'x', 60000);
    cr_assert_eq(dlt_try(&below, &other), DLOCK_OK, "%s", below.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    cr_assert_eq(dlt_break(&u, "job", NULL), DLOCK_NOT_HELD);
    cr_assert(strstr(u.err.message, "below") != NULL, "%s", u.err.message);
    cr_assert_eq(dlt_renew(&below, &other), DLOCK_OK, "%s", below.err.message);
    cr_assert_eq(dlt_unlock(&below, &other), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_break(&u, "job", NULL), DLOCK_OK);
    dlt_session_close(&below);
    close_all();
}

Test(slots, C16_foreign_keys_are_exclusive_holders)
{
    struct dlt_holder holder;
    size_t count = 1;

    open_all("foreign");
    (void)dlt_etcd_ask(&server, "put %s/job/694d8e ''", path + 1);
    b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_inspect(&u, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holder.owner, "694d8e");
    cr_assert_str_eq(holder.label, "");
    cr_assert_eq(holder.mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(holder.remaining_ms, -1, "it has no lease");
    cr_assert_eq(dlt_break(&u, "job", "694d8e"), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    close_all();
}

Test(slots, C7_leases_are_used_again)
{
    double before = 0;

    cr_assert(dlt_etcd_start(&server, NULL), "%s", server.why); /* nobody else counts */
    open_all("pool");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    before = dlt_etcd_metric(&server, 0, "etcd_debugging_lease_granted_total");
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
    cr_assert_eq(dlt_etcd_metric(&server, 0, "etcd_debugging_lease_granted_total"), before);
    close_all();
}

Test(slots, TTL_1_the_least_ttl_is_what_the_cluster_grants)
{
    open_all("least");
    cr_assert_eq(s.info.ttl_step_ms, 1000);
    cr_assert_geq(s.info.ttl_least_ms, 1000);
    cr_assert_eq(s.info.ttl_least_ms % 1000, 0);
    cr_assert_geq(s.info.ttl_most_ms, INT64_C(7) * 24 * 3600 * 1000);
    a.req.ttl_ms = 300; /* of a core that rounds nothing */
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.lease_ms, 300);
    close_all();
}
