/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/node.c */
/* What does the name of a node say, in the recipes of Curator and kazoo? */
#include "node.h"

#include <criterion/criterion.h>
#include <string.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

static void made(enum zk_recipe recipe, enum dlock_mode mode, const char *want)
{
    char out[ZK_PATH_MAX + 1 + ZK_NODE_MAX], node[sizeof out + 10];
    struct zk_node parsed;

    cr_assert_eq(zk_node_make(out, recipe, "/p/job", TOKEN, mode, 1), strlen(want));
    cr_assert_str_eq(out, want);
    (void)snprintf(node, sizeof node, "%s0000000042", out + strlen("/p/job/"));
    cr_assert_leq(strlen(node), ZK_NODE_MAX);
    cr_assert(zk_node_parse(&parsed, node));
    cr_assert_eq(parsed.sequence, 42);
    cr_assert_eq(parsed.shared, mode == DLOCK_SHARED);
    cr_assert(zk_node_is(&parsed, TOKEN));
    cr_assert_not(zk_node_is(&parsed, "1123456789abcdef0123456789abcdef"));
}

Test(node, C16_the_names_are_those_of_the_recipe)
{
    made(ZK_CURATOR, DLOCK_EXCLUSIVE, "/p/job/_c_" TOKEN "-lock-");
    made(ZK_CURATOR_RW, DLOCK_EXCLUSIVE, "/p/job/_c_" TOKEN "-__WRIT__");
    made(ZK_CURATOR_RW, DLOCK_SHARED, "/p/job/_c_" TOKEN "-__READ__");
    made(ZK_KAZOO, DLOCK_EXCLUSIVE, "/p/job/" TOKEN "__lock__");
    made(ZK_KAZOO, DLOCK_SHARED, "/p/job/" TOKEN "__rlock__");
}

static uint32_t limit_of(const char *name)
{
    struct zk_node node;

    cr_assert(zk_node_parse(&node, name), "%s", name);
    cr_assert_eq(zk_node_is(&node, TOKEN), node.limit > 1, "%s", name);
    return node.limit;
}

Test(node, LIM_1_a_limit_stands_behind_the_token)
{
    static const enum zk_recipe recipes[] = {ZK_CURATOR_RW, ZK_CURATOR, ZK_KAZOO};
    char out[ZK_PATH_MAX + 1 + ZK_NODE_MAX], name[sizeof out + 10];

    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
        for (uint32_t limit = 2; limit <= ZK_LIMIT_MOST; limit += 499) {
            (void)zk_node_make(out, recipes[i], "/p/job", TOKEN, DLOCK_EXCLUSIVE, limit);
            (void)snprintf(name, sizeof name, "%s0000000042", out + strlen("/p/job/"));
            cr_assert_leq(strlen(name), ZK_NODE_MAX);
            cr_assert_eq(limit_of(name), limit, "%s", name);
        }
    cr_assert_eq(limit_of("_c_" TOKEN "-l1-__WRIT__0000000001"), 1);
    cr_assert_eq(limit_of("_c_" TOKEN "-l1001-__WRIT__0000000001"), 1);
    cr_assert_eq(limit_of("_c_" TOKEN "-l2x-__WRIT__0000000001"), 1);
    cr_assert_eq(limit_of("_c_" TOKEN "-l-__WRIT__0000000001"), 1);
    cr_assert_eq(limit_of("_c_" TOKEN "-l2-__READ__0000000001"), 1, "readers have no limit");
    cr_assert_eq(limit_of("_c_7f0e-l2-__WRIT__0000000001"), 1, "not our token");
}

static void contender(const char *name, bool shared, int64_t sequence, const char *owner)
{
    struct zk_node node;

    cr_assert(zk_node_parse(&node, name), "%s", name);
    cr_assert_eq(node.shared, shared, "%s", name);
    cr_assert_eq(node.sequence, sequence, "%s: %lld", name, (long long)node.sequence);
    cr_assert_eq(node.owner_len, strlen(owner), "%s", name);
    cr_assert_eq(memcmp(node.owner, owner, node.owner_len), 0, "%s", name);
    cr_assert_not(zk_node_is(&node, TOKEN));
}

Test(node, C16_nodes_of_other_programs_contend_too)
{
    contender("_c_7f0e-11-lock-0000000003", false, 3, "7f0e-11");
    contender("_c_7f0e-11-__WRIT__0000000004", false, 4, "7f0e-11");
    contender("_c_7f0e-11-__READ__2147483647", true, 2147483647, "7f0e-11");
    contender("7f0e__lock__0000000000", false, 0, "7f0e");
    contender("7f0e__rlock__0000000001", true, 1, "7f0e");
    contender("__WRIT__0000000001", false, 1, "__WRIT__0000000001");
    contender("_c_-lock-0000000001", false, 1, "_c_-lock-0000000001");
    contender("a-lock-0000000001", false, 1, "a");
}

/* The counter of the server has 32 bits: it goes on at -2147483648. */
Test(node, a_sequence_that_ran_over_is_negative)
{
    contender("_c_a-lock--2147483648", false, INT64_C(-2147483648), "a");
    contender("_c_a-__WRIT__-1000000000", false, -1000000000, "a");
    contender("_c_a-__READ__-000000001", true, -1, "a");
    contender("_c_a-lock--000000001", false, -1, "a");
    contender("a__lock__-2147483647", false, -2147483647, "a");
}

Test(node, other_names_are_of_no_concern)
{
    static const char *const names[] = {"",
                                        "0000000001",
                                        "lease",
                                        "a-lock-",
                                        "a-lock-000000001",
                                        "a-lock-00000000a1",
                                        "a-lock-0000000001x",
                                        "lock-0000000001",
                                        "a__LOCK__0000000001",
                                        "a-lock0000000001",
                                        "a-write-0000000001",
                                        "-000000001",
                                        "-2147483648",
                                        "a--2147483648",
                                        "a-lock-+000000001"};
    struct zk_node node;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_assert_not(zk_node_parse(&node, names[i]), "%s", names[i]);
}
