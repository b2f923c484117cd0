/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/take.c plugins/zookeeper/unlock.c plugins/zookeeper/slot.c */
/* Tests: plugins/zookeeper/renew.c plugins/zookeeper/watch.c plugins/zookeeper/leftover.c */
/*
 * Answers are lost, nodes are made twice, parents vanish: is every status true, and does no node
 * stay in a session that lives on? The linker puts our zk_flight_run before that of the plugin.
 */
#include "name_kit.h"

enum dlock_status __real_zk_flight_run(struct zk_flight *flight, int64_t *id, int64_t deadline_ns,
                                       struct dlock_error *err);
enum dlock_status __wrap_zk_flight_run(struct zk_flight *flight, int64_t *id, int64_t deadline_ns,
                                       struct dlock_error *err);

/* What is done with a flight. */
static struct {
    int left;                    /* flights before it; less than 0: nothing is done */
    const char *ask;             /* of the server, before it */
    struct dlt_session *expires; /* the session of this client, before it */
    bool down;                   /* it is not sent */
    struct dlt_session *lost;    /* it is of this client, and vanishes on its way */
    bool silent;                 /* its answers are lost, from number `heard` on */
    size_t heard;
    bool blind;       /* it sees no children */
    int rc;           /* its first answer; 0: the real one */
    enum zk_op first; /* out: its first call */
} plan = {.left = -1};

static void at(int left)
{
    memset(&plan, 0, sizeof plan);
    plan.left = left;
}

static enum dlock_status failed(struct zk_flight *flight, size_t from, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;
    struct zk_call *call = NULL;

    for (size_t i = from; (call = zk_flight_call(flight, i)) != NULL; i++) {
        call->done = false;
        if (call->op == ZK_CREATE || call->op == ZK_DELETE)
            status = DLOCK_UNKNOWN;
    }
    return dlock_fail(err, ZK_ORIGIN, status, 0, "as the test wants it");
}

static void children_hide(struct zk_flight *flight)
{
    struct zk_call *call = NULL;

    for (size_t i = 0; (call = zk_flight_call(flight, i)) != NULL; i++) {
        for (int32_t j = 0; j < call->children.count; j++)
            free(call->children.data[j]);
        call->children.count = 0;
    }
}

static bool now_is_it(void)
{
    return plan.left-- == 0;
}

enum dlock_status __wrap_zk_flight_run(struct zk_flight *flight, int64_t *id, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    const bool now = now_is_it();
    enum dlock_status status = DLOCK_INTERNAL;

    if (now)
        plan.first = zk_flight_call(flight, 0)->op;
    if (now && plan.ask != NULL)
        (void)dlt_zk_ask(&server, "%s", plan.ask);
    if (now && plan.expires != NULL)
        expire(plan.expires);
    if (now && plan.down)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0, "as the test wants it");
    if (now && plan.lost != NULL) {
        *id = session_id(plan.lost);
        return failed(flight, 0, err);
    }
    status = __real_zk_flight_run(flight, id, deadline_ns, err);
    if (now && status == DLOCK_OK && plan.silent)
        return failed(flight, plan.heard, err);
    if (now && status == DLOCK_OK && plan.blind)
        children_hide(flight);
    if (now && status == DLOCK_OK && plan.rc != 0)
        zk_flight_call(flight, 0)->rc = plan.rc;
    return status;
}

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

Test(doubt, LEA_2_dequeue_after_a_lost_create)
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

Test(doubt, LEA_3_TET_3_a_dequeue_in_doubt_is_finished_later)
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
Test(doubt, LEA_2_a_dequeue_by_token_in_doubt_is_finished_later)
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

/* ---- parents ---- */

Test(doubt, TRY_1_a_parent_that_vanishes_is_made_again)
{
    open_all("vanish");
    at(2); /* the create, the parents, and the create again */
    plan.ask = "delete /vanish/job";
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_lt(plan.left, 0);
    cr_assert_eq(nodes_count("job", ""), 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)dlt_zk_ask(&server, "deleteall /vanish");
    at(2); /* the create, the parent alone, and all of them */
    plan.silent = true;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNAVAILABLE, "nobody cares for a node without children");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    close_all();
}
