/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/take.c plugins/zookeeper/unlock.c plugins/zookeeper/slot.c */
/* Tests: plugins/zookeeper/renew.c plugins/zookeeper/watch.c plugins/zookeeper/leftover.c */
/*
 * Answers are lost, nodes are made twice, parents vanish: is every status true, and does no node
 * stay in a session that lives on?
 */
#include "exchange_plan.h"

/* ---- trylock ---- */

/* The node was made, and nobody was told. */
Test(doubt, TRY_4_a_lost_answer_is_UNKNOWN_and_the_node_is_found_again)
{
    open_all("answer");
    for (int i = 0; i < 2; i++) {
        const uint32_t flags = i == 0 ? 0 : DLOCK_REQ_ENQUEUE;

        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK); /* the parent is there */
        at(0);
        plan.silent = true;
        cr_assert_eq(try_with(&t, &b, flags), DLOCK_UNKNOWN);
        cr_assert_eq(t.err.status, DLOCK_UNKNOWN);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
        at(0);
        cr_assert_eq(try_with(&t, &b, flags), DLOCK_OK, "%s", t.err.message);
        cr_assert_eq(plan.first, ZK_SYNC, "a follower may not have seen the node yet");
        cr_assert_gt(t.grant.fence, 0);
        lease_counts(&t);
        cr_assert_eq(nodes_count("job", HEX_OF_B), 1);
        cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
        cr_assert_eq(zk_leftover_count(&inside(&t)->leftovers), 0, "nothing is in doubt");
    }
    close_all();
}

Test(doubt, TRY_4_a_lost_request_is_UNKNOWN_and_made_again)
{
    open_all("request");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    at(0);
    plan.lost = &t;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_UNKNOWN);
    queue(&t, &b);
    cr_assert_eq(nodes_count("job", HEX_OF_B), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(nodes_count("job", ""), 0);
    cr_assert_eq(zk_leftover_count(&inside(&t)->leftovers), 1, "it may be executed yet");
    leftovers_gone(&t);
    close_all();
}

/* The first request was slower than the question for its node. */
Test(doubt, TRY_1_TRY_5_of_two_nodes_the_first_one_holds_and_none_stays)
{
    for (int ends = 0; ends < 3; ends++) {
        open_all("twice");
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        at(0);
        plan.silent = true;
        cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_UNKNOWN);
        at(0);
        plan.blind = true;
        cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK, "%s", t.err.message);
        cr_assert_eq(nodes_count("job", HEX_OF_B), 2);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
        if (ends == 0)
            cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
        if (ends == 1)
            cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK, "%s", t.err.message);
        if (ends != 0)
            forget(&t, &b);
        nodes_left("job", HEX_OF_B, 0);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        leftovers_gone(&t);
        close_all();
    }
}

/* The create was answered; what was asked with it was not. */
Test(doubt, TRY_4_a_node_that_was_made_is_not_UNAVAILABLE)
{
    open_all("half");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    at(0);
    plan.silent = true;
    plan.heard = 1;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNKNOWN);
    cr_assert_eq(nodes_count("job", HEX_OF_B), 1);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(nodes_count("job", HEX_OF_B), 0);
    at(0);
    plan.down = true;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNAVAILABLE, "certainly not executed");
    cr_assert_eq(t.err.status, DLOCK_UNAVAILABLE);
    close_all();
}

/* Without a queue entry, the node behind the holder's goes at once. */
Test(doubt, TRY_4_BUSY_waits_for_the_delete)
{
    open_all("back");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        at(1);
        plan.down = i == 0;
        plan.lost = i == 1 ? &t : NULL;
        plan.silent = i == 2;
        cr_assert_eq(dlt_try(&t, &b), DLOCK_UNKNOWN, "%d", i);
        cr_assert_lt(plan.left, 0);
        cr_assert_eq(nodes_count("job", HEX_OF_B), i < 2);
        if (i == 0)
            cr_assert_eq(dlt_unlock(&t, &b), DLOCK_LOST, "%s", t.err.message);
        else
            forget(&t, &b);
        nodes_left("job", HEX_OF_B, 0);
    }
    leftovers_gone(&t);
    close_all();
}

Test(doubt, DEQ_2_dequeue_after_a_lost_create)
{
    open_all("unqueued");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    at(0);
    plan.silent = true;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_UNKNOWN);
    cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
    cr_assert_eq(nodes_count("job", HEX_OF_B), 0);
    forget(&t, &b);
    leftovers_gone(&t);
    close_all();
}

Test(doubt, UNL_1_unlock_after_a_lost_create)
{
    open_all("unheld");
    for (int held = 0; held < 2; held++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        if (held)
            cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        at(0);
        plan.silent = true;
        cr_assert_eq(dlt_try(&t, &b), DLOCK_UNKNOWN);
        cr_assert_eq(dlt_unlock(&t, &b), held ? DLOCK_OK : DLOCK_LOST, "%s", t.err.message);
        cr_assert_eq(nodes_count("job", HEX_OF_B), 0);
        if (!held)
            cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
    leftovers_gone(&t);
    close_all();
}

/* What was in doubt in a session ends with it. */
Test(doubt, TRY_5_a_doubt_ends_with_its_session)
{
    open_all("over");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    at(0);
    plan.silent = true;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNKNOWN);
    expire(&t);
    cr_assert_eq(nodes_count("job", ""), 0);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(nodes_count("job", ""), 1);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(zk_leftover_count(&inside(&t)->leftovers), 0);
    close_all();
}

/* The session ends between the question for the node and the next create. */
Test(doubt, TRY_1_a_session_that_ends_in_a_call_is_not_mixed_up)
{
    open_all("between");
    at(0);
    plan.lost = &t;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_UNKNOWN);
    at(1);
    plan.expires = &t;
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(nodes_count("job", ""), 1);
    cr_assert_eq(dlt_renew(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(zk_leftover_count(&inside(&t)->leftovers), 0);
    close_all();
}

/* A node of the token in a session that has ended for the client, and not yet for the servers. */
Test(doubt, TRY_1_a_node_of_another_session_is_not_ours)
{
    static struct dlt_zk_client other;

    open_all("stranger");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert(dlt_zk_client_open(&other, &server.members[0], 5000));
    at(0);
    plan.lost = &t;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_UNKNOWN);
    (void)dlt_zk_client_ask(&other, "create -e -s %s/job/_c_" HEX_OF_B "-__WRIT__", base);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_UNKNOWN);
    cr_assert_eq(refresh(&t, &b), DLOCK_UNAVAILABLE);
    dlt_zk_client_close(&other);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    close_all();
}

/* A node that was made without an answer has to pass the same checks. */
Test(doubt, LIM_1_a_lost_create_does_not_pass_the_limit_by)
{
    open_all("limit");
    a.req.limit = 3;
    b.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < 4; i++) {
        const uint32_t flags = i == 0 ? 0 : DLOCK_REQ_ENQUEUE;

        b.req.limit = i < 2 ? 2 : 1;
        at(0);
        plan.silent = i < 3;
        plan.lost = i == 3 ? &t : NULL;
        cr_assert_eq(try_with(&t, &b, flags), DLOCK_UNKNOWN);
        cr_assert_eq(nodes_count("job", HEX_OF_B), i < 3);
        cr_assert_eq(try_with(&t, &b, flags), DLOCK_CONFIG, "%d: %s", i, t.err.message);
        cr_assert_not_null(strstr(t.err.message, "limit of 3 now"), "%s", t.err.message);
        cr_assert_eq(nodes_count("job", HEX_OF_B), 0);
    }
    close_all();
}

Test(doubt, CONFIG_a_lost_create_behind_the_last_sequence)
{
    open_all("last");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_zk_ask(&server, "create %s/job/_c_7-lock-2147483647", base);
    at(0);
    plan.silent = true;
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_UNKNOWN);
    cr_assert_eq(try_with(&t, &b, DLOCK_REQ_ENQUEUE), DLOCK_CONFIG, "%s", t.err.message);
    cr_assert_not_null(strstr(t.err.message, "last/job are used up"), "%s", t.err.message);
    cr_assert_eq(nodes_count("job", HEX_OF_B), 0);
    close_all();
}

/* ---- the end of an attempt ---- */

Test(doubt, UNL_2_TET_3_an_unlock_in_doubt_is_finished_later)
{
    open_all("unlock");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        at(0);
        plan.down = i == 0;
        plan.lost = i == 1 ? &s : NULL;
        plan.silent = i == 2;
        cr_assert_eq(dlt_unlock(&s, &a), i == 0 ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, "%d", i);
        nodes_left("job", "", 0);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
        cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    }
    leftovers_gone(&s);
    close_all();
}

Test(doubt, UNL_2_an_unlock_in_doubt_may_be_repeated)
{
    open_all("repeat");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    at(0);
    plan.lost = &s;
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_UNKNOWN);
    (void)dlt_unlock(&s, &a); /* OK, or LOST, if the plugin was faster */
    cr_assert_eq(nodes_count("job", ""), 0);
    close_all();
}

Test(doubt, DEQ_3_TET_3_a_dequeue_in_doubt_is_finished_later)
{
    open_all("dequeue");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        queue(&t, &b);
        at(0);
        plan.down = i == 0;
        plan.lost = i == 1 ? &t : NULL;
        plan.silent = i == 2;
        cr_assert_eq(dlt_dequeue(&t, &b), i == 0 ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, "%d", i);
        cr_assert_eq(nodes_count("job", HEX_OF_B), i < 2);
        if (i == 0)
            cr_assert_eq(dlt_dequeue(&t, &b), DLOCK_OK);
        forget(&t, &b);
        nodes_left("job", HEX_OF_B, 0);
    }
    leftovers_gone(&t);
    close_all();
}

/* The token of a waiter, of which the slot knows nothing. */
Test(doubt, DEQ_2_a_dequeue_by_token_in_doubt_is_finished_later)
{
    static struct dlt_request again;

    open_all("token");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    dlt_request(&t, &again, "job", 'b', DLT_ZK_TTL_MS);
    at(1);
    plan.lost = &t;
    cr_assert_eq(dlt_dequeue(&t, &again), DLOCK_UNKNOWN);
    forget(&t, &again);
    nodes_left("job", HEX_OF_B, 0);
    close_all();
}

/* ---- other calls ---- */

Test(doubt, REN_4_no_answer_renews_nothing)
{
    open_all("renew");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    at(0);
    plan.silent = true;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE);
    at(0);
    plan.silent = true;
    plan.heard = 1; /* the sync alone */
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    at(0);
    plan.rc = ZNOAUTH; /* of the sync */
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_AUTH);
    at(0);
    plan.expires = &s;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    close_all();
}

Test(doubt, REFRESH_without_an_answer_is_UNAVAILABLE_and_keeps_the_entry)
{
    open_all("refresh");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    at(0);
    plan.silent = true;
    cr_assert_eq(refresh(&t, &b), DLOCK_UNAVAILABLE);
    cr_assert_eq(refresh(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&t, &b), DLOCK_OK);
    close_all();
}

Test(doubt, WAT_1_a_watch_without_an_answer_is_UNAVAILABLE)
{
    open_all("watch");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    queue(&t, &b);
    for (int i = 0; i < 2; i++) {
        at(0);
        plan.down = i == 0;
        plan.silent = i == 1;
        cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_UNAVAILABLE);
    }
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    at(1); /* the children */
    plan.silent = true;
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_watch(&t, &b, 3000), DLOCK_OK);
    cr_assert_gt(t.grant.fence, 0);
    close_all();
}

#define FLIGHTS_MOST 20

/* A holder of a semaphore of three, made by hand. */
static void other_holder(void)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s",
                   dlt_zk_ask(&server, "create -s %s/job/_c_" HEX_OF_C "-l3-__WRIT__", base));
    cr_assert_eq(path[0], '/', "%s", path);
    (void)dlt_zk_ask(&server, "set %s permit 0 of 3: x", path);
}

/* It has to go, and nothing is asked meanwhile. */
Test(doubt, WAT_3_a_permit_of_another_limit_is_waited_for_in_silence)
{
    for (uint32_t limit = 1; limit <= 2; limit++) {
        open_all("mixed");
        a.req.limit = b.req.limit = limit;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        for (uint32_t i = 0; i < limit; i++)
            other_holder();
        queue(&t, &b);
        at(FLIGHTS_MOST);
        cr_assert_eq(dlt_watch(&t, &b, 2000), DLOCK_TIMEOUT, "%s", t.err.message);
        cr_assert_gt(plan.left, 0, "%d questions in a wait", FLIGHTS_MOST - plan.left);
        close_all();
    }
}

/* Another caller that tries makes a node and deletes it. Returns its path; NULL: none was made. */
static void *another_try(void *arg)
{
    static char path[256];

    (void)arg;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    (void)snprintf(path, sizeof path, "%s",
                   dlt_zk_ask(&server, "create -s %s/job/_c_%032d-l2-__WRIT__", base, 7));
    if (path[0] != '/')
        return NULL;
    (void)dlt_zk_ask(&server, "delete %s", path);
    return path;
}

/* Two such callers would wake each other without end. */
Test(doubt, WAT_3_the_try_of_another_caller_ends_no_wait_without_an_entry)
{
    pthread_t thread;
    void *made = NULL;

    open_all("quiet");
    a.req.limit = b.req.limit = c.req.limit = 2;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(pthread_create(&thread, NULL, another_try, NULL), 0);
    cr_assert_eq(dlt_watch(&t, &b, 2000), DLOCK_TIMEOUT, "%s", t.err.message);
    cr_assert_eq(pthread_join(thread, &made), 0);
    cr_assert_not_null(made);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&t, &b, 30000), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    close_all();
}

/* ---- parents ---- */

Test(doubt, TRY_1_a_parent_that_vanishes_is_made_again)
{
    char order[128];

    open_all("vanish");
    (void)snprintf(order, sizeof order, "delete %s/job", base);
    at(2); /* the create, the parents, and the create again */
    plan.ask = order;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(nodes_count("job", ""), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)dlt_zk_ask(&server, "deleteall %s", base);
    at(2); /* the create, the parent alone, and all of them */
    plan.silent = true;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNAVAILABLE, "nobody cares for a node without children");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    close_all();
}
