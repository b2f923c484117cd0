/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/node.c */
/* What is believed of nodes that say something else than they were asked? (C9) */
#include "scripted_client.h"
#include "session_kit.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NODES 3

/* What a new connection asks, and is told. */
#define HELLO                                                                           \
    "conn\nany %d\nsend "                                                               \
    "\"+OK\\r\\n$%zu\\r\\n%s\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n%s-NOPERM " \
    "no\\r\\n-NOPERM no\\r\\n\"\n"
#define INFO                                                                              \
    "redis_version:7.0.15\\r\\nrole:master\\r\\nmaxmemory_policy:noeviction\\r\\nuptime_" \
    "in_seconds:%s\\r\\nmaster_replid:0\\r\\n"
/* A look: the node is the same. */
#define RECHECK      "any\nsend \"$30\\r\\nrole:master\\r\\nmaster_replid:0\\r\\n\\r\\n\"\n"
#define INFO_ESCAPES 5 /* "\r\n" is written in four bytes, and sent in two */

const struct dlock_plugin *dlock_plugin_redlock(void);

static struct dlt_scripted servers[NODES];
static struct dlt_session session;
static const char *uptimes[NODES]; /* two digits; NULL: 99 */
static const char *guard;          /* NULL: none */
static bool fences;

/* All nodes answer so, once. named: each has a run_id. */
static enum dlock_status open_nodes(const char *answer, bool named)
{
    char nodes[256];
    size_t used = 0;

    for (int i = 0; i < NODES; i++) {
        char script[1024], info[160];
        const char *uptime = uptimes[i] != NULL ? uptimes[i] : "99";
        size_t escapes = INFO_ESCAPES;

        (void)snprintf(info, sizeof info, INFO, uptime);
        if (named) {
            (void)snprintf(info, sizeof info, INFO "run_id:%d\\r\\n", uptime, i);
            escapes++;
        }
        (void)snprintf(script, sizeof script,
                       "framing resp\n" HELLO "any\nsend \"%s\\r\\n\"\n" RECHECK "any\n",
                       guard != NULL ? 9 : 7, strlen(info) - 2 * escapes, info,
                       guard != NULL ? "$0\\r\\n\\r\\n$0\\r\\n\\r\\n" : "", answer);
        cr_assert(dlt_scripted_start(&servers[i], script), "%s", servers[i].report);
        used += (size_t)snprintf(nodes + used, sizeof nodes - used, "%sredis://127.0.0.1:%u",
                                 i > 0 ? "\n" : "", servers[i].port);
    }
    dlt_session_target(&session, dlock_plugin_redlock(), "redlock", "");
    session.hosts[0] = NULL;
    session.call_ms = 10000;
    dlt_session_option(&session, "node", nodes);
    dlt_session_option(&session, "node_timeout", "5000"); /* a script answers once */
    if (guard != NULL)
        dlt_session_option(&session, "restart_guard", guard);
    if (fences)
        dlt_session_option(&session, "fence", "1"); /* DLOCK_ON */
    return dlt_session_open(&session);
}

static void play(const char *answer)
{
    cr_assert_eq(open_nodes(answer, true), DLOCK_OK, "%s", session.err.message);
}

static void tear_down(void)
{
    dlt_session_close(&session);
    for (int i = 0; i < NODES; i++)
        (void)dlt_scripted_finish(&servers[i], 0);
}

TestSuite(redlock_replies, .fini = tear_down, .timeout = 60);

static enum dlock_status try(enum dlock_mode mode)
{
    static struct dlt_request request; /* the attempt lasts until the session is closed */

    dlt_request(&session, &request, "job", 'a', 60000);
    request.req.mode = mode;
    return dlt_try(&session, &request);
}

/* A free name is asked for by SET, which says OK; for readers by a script, which says how long. */
Test(redlock_replies, TRY_1_the_answer_to_SET)
{
    play("+OK");
    cr_expect_eq(try(DLOCK_EXCLUSIVE), DLOCK_OK, "%s", session.err.message);
}

Test(redlock_replies, TRY_1_the_answer_of_a_script)
{
    play("*4\\r\\n:1\\r\\n:60000\\r\\n:0\\r\\n:0");
    cr_expect_eq(try(DLOCK_SHARED), DLOCK_OK, "%s", session.err.message);
}

#define GRANT(number, clock) "*4\\r\\n:1\\r\\n:60000\\r\\n:" number "\\r\\n:" clock

Test(redlock_replies, C6_one_number_of_all_nodes_is_the_token)
{
    fences = true;
    play(GRANT("1700000000000032", "1700000000000000"));
    cr_expect_eq(try(DLOCK_EXCLUSIVE), DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(session.grant.fence, UINT64_C(1700000000000032));
    cr_expect_eq(session.grant.fence_room, 31u);
}

Test(redlock_replies, C6_an_answer_without_a_number_grants_nothing)
{
    fences = true;
    play("*2\\r\\n:1\\r\\n:60000");
    cr_expect_eq(try(DLOCK_EXCLUSIVE), DLOCK_UNKNOWN, "%s", session.err.message);
}

Test(redlock_replies, C6_the_answer_to_SET_has_no_number)
{
    fences = true;
    play("+OK");
    cr_expect_eq(try(DLOCK_EXCLUSIVE), DLOCK_UNKNOWN, "%s", session.err.message);
}

/* The clocks agree, and numbers were given that they pass only after the ttl. What the nodes say of
 * the undoing makes no sense. */
Test(redlock_replies, C6_TRY_4_numbers_beyond_the_ttl_that_are_not_taken_back_are_UNKNOWN)
{
    fences = true;
    play(GRANT("1700000061000000", "1700000000000000"));
    cr_expect_eq(try(DLOCK_EXCLUSIVE), DLOCK_UNKNOWN, "%s", session.err.message);
    cr_expect_neq(strstr(session.err.message, "fencing token"), NULL, "%s", session.err.message);
}

Test(redlock_replies, C9_the_answer_to_SET_is_none_of_a_script)
{
    play("+OK");
    cr_expect_eq(try(DLOCK_SHARED), DLOCK_UNKNOWN, "%s", session.err.message);
}

/* What another program says is told to the end. One node may not be waited for any more. */
Test(redlock_replies, C9_an_answer_that_makes_no_sense)
{
    int told = 0;

    play("HTTP/1.1 400 Bad Request");
    cr_expect_neq(try(DLOCK_SHARED), DLOCK_OK);
    cr_expect_eq(session.err.node_count, NODES);
    for (int i = 0; i < NODES; i++) {
        const char *text = session.err.nodes[i].message;
        bool is_answer = strstr(text, "makes no sense") != NULL;

        told += is_answer;
        cr_expect(!is_answer || strstr(text, "got \"H\" as reply type byte") != NULL, "%s", text);
    }
    cr_expect_gt(told, 0);
}

static bool a_node_is_late(void)
{
    bool is_late = session.err.node_count != NODES;

    for (uint32_t i = 0; i < session.err.node_count; i++)
        is_late |= strstr(session.err.nodes[i].message, "in time") != NULL;
    return is_late;
}

/* TRY-8: two nodes were restarted, one after the other: a majority votes again as soon as one of
 * them does, whether or not the third has answered by then. Without the third it needs both. */
Test(redlock_replies, TRY_8_the_first_of_two_guards_ends)
{
    enum dlock_status status;

    uptimes[1] = "50";
    uptimes[2] = "80";
    guard = "90000";
    play("+OK");
    status = try(DLOCK_EXCLUSIVE);
    for (int i = 0; i < 10 && a_node_is_late(); i++) {
        tear_down();
        play("+OK");
        status = try(DLOCK_EXCLUSIVE);
    }
    cr_expect_eq(status, DLOCK_BUSY, "%s", session.err.message);
    cr_expect_gt(session.grant.holder_ms, 0);
    cr_expect_leq(session.grant.holder_ms, 11000, "%lld", (long long)session.grant.holder_ms);
    cr_expect_not_null(strstr(session.err.message, "2 of 3 nodes were started less than 90 s ago"),
                       "%s", session.err.message);
}

/* C1: nodes without a run_id may be one server. */
Test(redlock_replies, C1_a_node_without_a_run_id_has_no_vote)
{
    enum dlock_status status = open_nodes("+OK", false);

    /* While one node is slow, the others are connected to again, and a script answers once. */
    for (int i = 0; i < 10 && status == DLOCK_NO_QUORUM; i++) {
        tear_down();
        status = open_nodes("+OK", false);
    }
    cr_expect_eq(status, DLOCK_CONFIG, "%s", session.err.message);
    cr_assert_eq(session.err.node_count, NODES);
    for (int i = 0; i < NODES; i++)
        cr_expect_not_null(strstr(session.err.nodes[i].message, "run_id"), "%s",
                           session.err.nodes[i].message);
}
