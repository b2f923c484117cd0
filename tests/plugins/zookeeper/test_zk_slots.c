/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/take.c plugins/zookeeper/unlock.c plugins/zookeeper/renew.c */
/* Tests: plugins/zookeeper/slot.c plugins/zookeeper/plugin.c */
/* Do the slots keep the clauses of plugin.h, on a server that behaves? */
#include "name_kit.h"

#define MANY 250

/* The sequences of a parent begin again; the fences do not. */
Test(slots, TRY_6_the_fences_rise_when_the_parent_was_made_anew)
{
    uint64_t last = 0;

    open_all("anew");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(nodes_count("job", HEX_OF_A "-__WRIT__0000000000"), 1);
        cr_assert_gt(s.grant.fence, last);
        last = s.grant.fence + s.grant.fence_room;
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        (void)dlt_zk_ask(&server, "deleteall %s", base);
    }
    close_all();
}

Test(slots, TRY_3_busy_leaves_no_node)
{
    open_all("busy");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
        cr_assert_eq(t.grant.flags, 0);
        cr_assert_eq(t.grant.waiters, 0);
        cr_assert_str_eq(t.err.message, "");
        b.req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
        b.req.mode = DLOCK_EXCLUSIVE;
    }
    cr_assert_eq(nodes_count("job", ""), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(nodes_count("job", ""), 0);
    cr_assert_eq(zk_leftover_count(&inside(&t)->leftovers), 0);
    close_all();
}

Test(slots, REN_2_UNL_1_with_the_session_all_is_lost)
{
    struct dlt_request held;

    open_all("ended");
    dlt_request(&s, &held, "other", 'h', DLT_ZK_TTL_MS);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &held), DLOCK_OK);
    queue(&t, &b);
    expire(&s);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &held), DLOCK_LOST);
    cr_assert_eq(dlt_try(&s, &held), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &held), DLOCK_OK);
    expire(&t);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_LOST);
    cr_assert_eq(zk_leftover_count(&inside(&s)->leftovers), 0);
    close_all();
}

/* Somebody may make a node of the same name by hand. */
Test(slots, REN_2_another_node_is_not_ours)
{
    char node[128];

    open_all("forged");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)snprintf(node, sizeof node, "%s/job/_c_" HEX_OF_A "-__WRIT__0000000000", base);
    (void)dlt_zk_ask(&server, "delete %s", node);
    cr_assert_str_eq(dlt_zk_ask(&server, "create %s", node), node);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    close_all();
}

Test(slots, REN_1_a_renewal_counts_the_waiters)
{
    open_all("counts");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    queue(&u, &c);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.waiters, 2);
    close_all();
}

Test(slots, UNL_1_UNL_4_unlock_leaves_a_queue_entry)
{
    open_all("entry");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_LOST);
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "it is the first one, and held the name");
    cr_assert_eq(nodes_count("job", ""), 0);
    close_all();
}

Test(slots, C16_the_recipes_make_their_nodes_and_wait_for_each_other)
{
    static const char *const recipes[] = {"curator", "curator-rw", "kazoo"};
    static const char *const nodes[] = {"_c_" HEX_OF_A "-lock-0", "_c_" HEX_OF_A "-__WRIT__0",
                                        HEX_OF_A "__lock__0"};

    open_all("recipes");
    for (int i = 0; i < 3; i++) {
        struct dlt_session *others[] = {&t, &u};
        struct dlt_request *requests[] = {&b, &c};

        dlt_session_close(&s);
        dlt_session_option(&s, "recipe", recipes[i]);
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
        for (int j = 0; j < 2; j++) {
            dlt_session_close(others[j]);
            dlt_session_option(others[j], "recipe", recipes[(i + 1 + j) % 3]);
            cr_assert_eq(dlt_session_open(others[j]), DLOCK_OK);
        }
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(nodes_count("job", nodes[i]), 1, "%s", recipes[i]);
        for (int j = 0; j < 2; j++)
            cr_assert_eq(dlt_try(others[j], requests[j]), DLOCK_BUSY);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        for (int j = 0; j < 2; j++) {
            cr_assert_eq(dlt_try(others[j], requests[j]), DLOCK_OK);
            cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
            cr_assert_eq(dlt_unlock(others[j], requests[j]), DLOCK_OK);
        }
    }
    close_all();
}

Test(slots, C16_nodes_of_other_programs_are_waited_for)
{
    open_all("foreign");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)dlt_zk_ask(&server, "create %s/job/_c_7-lock-0000000001", base);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    (void)dlt_zk_ask(&server, "delete %s/job/_c_7-lock-0000000001", base);
    (void)dlt_zk_ask(&server, "create %s/job/lease-0000000001", base);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "no contender");
    close_all();
}

/* Nobody but the server gives sequences; a node made by hand stands for a counter that has come
 * there. */
Test(slots, TRY_1_a_parent_without_sequences_left_is_refused)
{
    open_all("used");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_zk_ask(&server, "create %s/job/_c_7-lock-2147483647", base);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG);
    cr_assert(strstr(t.err.message, "used/job are used up") != NULL, "%s", t.err.message);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_CONFIG);
    cr_assert_eq(nodes_count("job", HEX_OF_B), 0);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "what was there before stays good");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    close_all();
}

/* ---- parents ---- */

/* A server that looks for empty containers all the time. */
static void open_reaped(const char *test)
{
    static const char *const lines[] = {"-Dznode.container.checkIntervalMs=100", NULL};

    cr_assert(dlt_zk_start(&server, lines), "%s", server.why);
    open_all(test);
}

static bool is_gone(const char *path)
{
    return strcmp(dlt_zk_ask(&server, "stat %s", path), "no node") == 0;
}

static void gone_soon(const char *path)
{
    for (int i = 0; i < 100 && !is_gone(path); i++)
        dlt_sleep_ms(50);
    cr_assert(is_gone(path), "%s", path);
}

Test(parents, names_are_containers_and_the_base_is_not)
{
    open_reaped("top");
    dlt_session_close(&s);
    dlt_session_base(&s, "/top/a/b");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_not(is_gone("/top/a/b/job"));
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        gone_soon("/top/a/b/job");
        cr_assert_not(is_gone("/top/a/b"));
    }
    close_all();
}

Test(parents, with_raw_keys_the_parts_of_a_name_are_containers)
{
    static char deep[255]; /* more levels than an exchange has */

    open_reaped("raw");
    dlt_session_close(&s);
    dlt_session_option(&s, "key", "raw");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    memset(deep, '/', sizeof deep);
    for (size_t i = 0; i < sizeof deep; i += 2)
        deep[i] = 'x';
    a.req.name = (const unsigned char *)deep;
    a.req.name_len = sizeof deep;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(nodes_count("x", "x"), 1);
    dlt_sleep_ms(300);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "containers with children stay");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    a.req.name = (const unsigned char *)"y/z";
    a.req.name_len = 3;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    gone_soon("/raw/y/z");
    gone_soon("/raw/y");
    cr_assert_not(is_gone("/raw"));
    a.req.name = (const unsigned char *)"a//b";
    a.req.name_len = 4;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_INVALID);
    close_all();
}

Test(parents, a_node_that_is_ephemeral_has_no_children)
{
    static struct dlt_zk_client other;

    open_all("eph");
    cr_assert(dlt_zk_client_open(&other, &server.members[0], 5000));
    (void)dlt_zk_client_ask(&other, "create %s", base);
    (void)dlt_zk_client_ask(&other, "create -e %s/job", base);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG);
    cr_assert(strstr(s.err.message, "is ephemeral") != NULL, "%s", s.err.message);
    dlt_zk_client_close(&other);
    close_all();
}

/* A user who may make nodes in a base that others have made, and none above it. */
Test(parents, AUTH_says_which_node_may_not_be_made)
{
    char own[sizeof base + 8];

    open_all("rights");
    (void)snprintf(own, sizeof own, "%s/own", base);
    (void)dlt_zk_ask(&server, "create %s", base);
    (void)dlt_zk_ask(&server, "create %s/own", base);
    (void)dlt_zk_ask(&server, "setAcl %s world:anyone:r", base);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_AUTH);
    cr_assert(strstr(s.err.message, "rights/job") != NULL, "%s", s.err.message);
    dlt_session_close(&t);
    dlt_session_base(&t, own);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    close_all();
}
