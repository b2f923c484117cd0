/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/take.c plugins/zookeeper/unlock.c */
/* Tests: plugins/zookeeper/slot.c plugins/zookeeper/exchange.c */
/*
 * Does each element of a batch get its own answer, in few exchanges, also when answers are lost?
 * (C19, BAT-1 to BAT-4)
 */
#include "batch_kit.h"
#include "proxy_client.h"

/* ---- on a server that behaves ---- */

/* Elements 1 to 6 of eight have each a trouble of its own. */
static void troubles_make(void)
{
    rival.requests[1].req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&t, &rival.requests[1]), DLOCK_OK);
    (void)dlt_zk_ask(&server, "create %s/b002", base);
    (void)dlt_zk_ask(&server, "create %s/b002/_c_7-lock-0000000000", base);
    (void)dlt_zk_ask(&server, "create %s/b003", base);
    (void)dlt_zk_ask(&server, "setAcl %s/b003 world:anyone:r", base);
    (void)dlt_zk_ask(&server, "create %s/b004", base);
    (void)dlt_zk_ask(&server, "create %s/b004/_c_7-lock-2147483647", base);
    rival.requests[5].req.limit = 3;
    cr_assert_eq(dlt_try(&t, &rival.requests[5]), DLOCK_OK);
    (void)dlt_zk_ask(&server, "create %s/b006", base);
    (void)dlt_zk_ask(&server, "setAcl %s/b006 world:anyone:cd", base);
}

Test(batch, BAT_1_each_has_its_own_outcome)
{
    static const enum dlock_status want[MANY] = {DLOCK_OK,     DLOCK_BUSY,   DLOCK_BUSY, DLOCK_AUTH,
                                                 DLOCK_CONFIG, DLOCK_CONFIG, DLOCK_AUTH, DLOCK_OK};

    batches_open("own", MANY);
    troubles_make();
    (void)dlt_zk_ask(&server, "deleteall %s/b007", base); /* a name without a node */
    dlt_batch_try(&all, &s);
    for (size_t i = 0; i < MANY; i++) {
        const bool held = want[i] == DLOCK_OK;

        dlt_batch_is(&all, i, i + 1, want[i]);
        cr_assert_eq(all.elements[i].grant.fence > 0, held, "%zu", i);
        cr_assert_eq(all.elements[i].grant.lease_ms > 0, held, "%zu", i);
        cr_assert_eq(all.errors[i].message[0] == '\0', held || want[i] == DLOCK_BUSY, "%zu: %s", i,
                     all.errors[i].message);
        cr_assert_eq(nodes_count(all.names[i], ""), i != 3 && i != 6, "%zu", i);
    }
    cr_assert_not_null(strstr(all.errors[3].message, "own/b003"), "%s", all.errors[3].message);
    cr_assert_not_null(strstr(all.errors[4].message, "used up"), "%s", all.errors[4].message);
    cr_assert_not_null(strstr(all.errors[5].message, "limit of 3"), "%s", all.errors[5].message);
    cr_assert_not_null(strstr(all.errors[6].message, "own/b006"), "%s", all.errors[6].message);
    dlt_batch_unlock(&all, &s);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(all.elements[i].status == DLOCK_OK, want[i] == DLOCK_OK, "%zu: %s", i,
                     all.errors[i].message);
    dlt_batch_is(&all, 1, 3, DLOCK_LOST);
    cr_assert_eq(nodes_count("b000", ""), 0);
    cr_assert_eq(nodes_count("b002", "_c_7-lock-"), 1, "of somebody else");
    cr_assert_eq(dlt_unlock(&t, &rival.requests[1]), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &rival.requests[5]), DLOCK_OK);
    batches_close();
}

/* One exchange for each step, however many need it. */
Test(batch, BAT_1_a_step_is_one_exchange_for_all)
{
    batches_open("steps", MOST / 2 - 1);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK); /* the base is there */
    cr_assert_eq(exchanges_of(dlt_batch_try), 3, "create, the nodes of the names, create");
    dlt_batch_is(&all, 0, all.n, DLOCK_OK);
    each_has_nodes(1);
    dlt_batch_try(&rival, &t);
    dlt_batch_is(&rival, 0, all.n, DLOCK_BUSY);
    each_has_nodes(1);
    cr_assert_eq(exchanges_of(dlt_batch_unlock), 1);
    dlt_batch_is(&all, 0, all.n, DLOCK_OK);
    each_has_nodes(0);
    cr_assert_eq(exchanges_of(dlt_batch_try), 1);
    dlt_batch_unlock(&all, &s);
    dlt_batch_try(&rival, &t);
    dlt_batch_is(&rival, 0, all.n, DLOCK_OK);
    cr_assert_eq(exchanges_of(dlt_batch_try), 2, "create, delete");
    dlt_batch_is(&all, 0, all.n, DLOCK_BUSY);
    each_has_nodes(1);
    dlt_batch_unlock(&rival, &t);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    batches_close();
}

/* Each element has its place behind the holder, and keeps it. */
Test(batch, BAT_1_queue_entries)
{
    batches_open("queued", MANY);
    dlt_batch_try(&rival, &t);
    dlt_batch_is(&rival, 0, MANY, DLOCK_OK);
    for (int i = 0; i < 2; i++) {
        flags_set(&all, i == 0 ? DLOCK_REQ_ENQUEUE : DLOCK_REQ_REFRESH);
        cr_assert_eq(exchanges_of(dlt_batch_try), 1);
        dlt_batch_is(&all, 0, MANY, DLOCK_BUSY);
        for (size_t j = 0; j < MANY; j++)
            cr_assert(all.elements[j].grant.flags & DLOCK_GRANT_QUEUED, "%zu", j);
        each_has_nodes(2);
    }
    dlt_batch_unlock(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_LOST);
    each_has_nodes(2); /* [UNL-1] */
    dlt_batch_unlock(&rival, &t);
    dlt_batch_is(&rival, 0, MANY, DLOCK_OK);
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_OK);
    for (size_t j = 0; j < MANY; j++)
        cr_assert_gt(all.elements[j].grant.fence, rival.elements[j].grant.fence);
    dlt_batch_unlock(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_OK);
    each_has_nodes(0);
    batches_close();
}

/* What waits without an entry knows what to wait for. */
Test(batch, WAT_2_a_refused_element_is_woken)
{
    batches_open("woken", MANY);
    dlt_batch_try(&rival, &t);
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_BUSY);
    cr_assert_eq(dlt_watch(&s, &all.requests[2], 300), DLOCK_TIMEOUT);
    dlt_batch_unlock(&rival, &t);
    cr_assert_eq(dlt_watch(&s, &all.requests[2], 30000), DLOCK_BUSY);
    batches_close();
}

Test(batch, UNL_1_leases_of_two_sessions)
{
    batches_open("sessions", MANY);
    all.n = 3;
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, 3, DLOCK_OK);
    expire(&s);
    for (size_t i = 3; i < MANY; i++)
        cr_assert_eq(dlt_try(&s, &all.requests[i]), DLOCK_OK, "%s", s.err.message);
    all.n = MANY;
    cr_assert_eq(exchanges_of(dlt_batch_unlock), 2);
    dlt_batch_is(&all, 0, 3, DLOCK_LOST);
    dlt_batch_is(&all, 3, MANY, DLOCK_OK);
    each_has_nodes(0);
    batches_close();
}

/* ---- on bad days ---- */

/* The names have nodes. */
static void warm_up(void)
{
    dlt_batch_try(&all, &s);
    dlt_batch_unlock(&all, &s);
    dlt_batch_is(&all, 0, all.n, DLOCK_OK);
}

/* Two answers for each element: two elements have both, and the next one the first of them. */
Test(batch, BAT_2_an_element_without_an_answer_is_UNKNOWN)
{
    batches_open("lost", MANY);
    warm_up();
    at(0);
    plan.silent = true;
    plan.heard = 5;
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, 2, DLOCK_OK);
    dlt_batch_is(&all, 2, MANY, DLOCK_UNKNOWN);
    for (size_t i = 2; i < MANY; i++) {
        cr_assert_eq(all.errors[i].status, DLOCK_UNKNOWN);
        cr_assert_not_null(strstr(all.errors[i].message, all.names[i]), "%s",
                           all.errors[i].message);
    }
    each_has_nodes(1);
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_OK); /* the nodes are found again [TRY-5] */
    each_has_nodes(1);
    dlt_batch_unlock(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_OK);
    each_has_nodes(0);
    cr_assert_eq(zk_leftover_count(&inside(&s)->leftovers), 0, "nothing is in doubt");
    batches_close();
}

/* Old and new attempts, an entry that is gone, and answers that are lost, in one batch. */
Test(batch, BAT_1_BAT_2_tokens_from_before)
{
    batches_open("before", MANY);
    rival.n = 4;
    dlt_batch_try(&rival, &t);
    all.n = 6;
    flags_set(&all, DLOCK_REQ_ENQUEUE);
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, 4, DLOCK_BUSY);
    dlt_batch_is(&all, 4, 6, DLOCK_OK);
    all.n = MANY;
    (void)dlt_zk_ask(&server, "deleteall %s/b001", base);
    all.requests[2].req.flags = DLOCK_REQ_REFRESH;
    (void)dlt_zk_ask(&server, "deleteall %s/b002", base);
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, 1, DLOCK_BUSY);
    dlt_batch_is(&all, 1, 2, DLOCK_OK); /* a new place, and nobody before it */
    dlt_batch_is(&all, 2, 4, DLOCK_BUSY);
    cr_assert_eq(all.elements[2].grant.flags, 0, "not queued any more");
    cr_assert(all.elements[3].grant.flags & DLOCK_GRANT_QUEUED);
    dlt_batch_is(&all, 4, MANY, DLOCK_OK);
    flags_set(&all, 0);
    all.requests[0].req.flags = all.requests[3].req.flags = DLOCK_REQ_REFRESH;
    at(0);
    plan.silent = true;
    plan.heard = 2;
    all.n = 6;
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, 1, DLOCK_BUSY);
    dlt_batch_is(&all, 1, 2, DLOCK_OK);
    dlt_batch_is(&all, 3, 4, DLOCK_UNAVAILABLE); /* of a refresh */
    dlt_batch_is(&all, 4, 6, DLOCK_UNKNOWN);
    all.n = MANY;
    expire(&s);
    flags_set(&all, DLOCK_REQ_REFRESH);
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_BUSY);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(all.elements[i].grant.flags, 0, "%zu", i);
    batches_close();
}

/* Core gives them up: no node stays. */
Test(batch, BAT_2_TET_3_elements_in_doubt_leave_no_node)
{
    batches_open("given", MANY);
    warm_up();
    for (int i = 0; i < 2; i++) {
        at(0);
        plan.silent = true;
        dlt_batch_try(&all, &s);
        dlt_batch_is(&all, 0, MANY, DLOCK_UNKNOWN);
        each_has_nodes(1);
        if (i == 0)
            dlt_batch_unlock(&all, &s);
        batch_forget(&all, &s);
        for (size_t j = 0; j < MANY; j++)
            nodes_left(all.names[j], "", 0);
    }
    batches_close();
}

Test(batch, BAT_2_what_was_not_sent_is_UNAVAILABLE)
{
    batches_open("down", MANY);
    warm_up();
    at(0);
    plan.down = true;
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_UNAVAILABLE);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_neq(all.errors[i].message[0], '\0');
    each_has_nodes(0);
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_OK);
    at(0);
    plan.down = true;
    dlt_batch_unlock(&all, &s);
    dlt_batch_is(&all, 0, MANY, DLOCK_UNAVAILABLE);
    for (size_t i = 0; i < MANY; i++)
        nodes_left(all.names[i], "", 0);
    batches_close();
}

/* BUSY is said of an element whose node is gone. */
Test(batch, BAT_2_TRY_4_BUSY_waits_for_its_own_delete)
{
    batches_open("back", MANY);
    dlt_batch_try(&rival, &t);
    dlt_batch_is(&rival, 0, MANY, DLOCK_OK);
    at(1);
    plan.silent = true;
    plan.heard = 3;
    dlt_batch_try(&all, &s);
    cr_assert_eq(plan.first, ZK_DELETE);
    dlt_batch_is(&all, 0, 3, DLOCK_BUSY);
    dlt_batch_is(&all, 3, MANY, DLOCK_UNKNOWN);
    at(2); /* a question for the nodes in doubt, the creates, the deletes */
    plan.down = true;
    dlt_batch_try(&all, &s);
    cr_assert_eq(plan.first, ZK_DELETE);
    dlt_batch_is(&all, 0, MANY, DLOCK_UNKNOWN); /* made, and not deleted */
    each_has_nodes(2);
    batch_forget(&all, &s);
    for (size_t i = 0; i < MANY; i++)
        nodes_left(all.names[i], "", 1);
    dlt_batch_unlock(&rival, &t);
    dlt_batch_is(&rival, 0, MANY, DLOCK_OK);
    batches_close();
}

Test(batch, BAT_2_UNL_2_unlocks_without_an_answer)
{
    batches_open("unlocks", MANY);
    for (int i = 0; i < 2; i++) {
        dlt_batch_try(&all, &s);
        dlt_batch_is(&all, 0, MANY, DLOCK_OK);
        at(0);
        plan.lost = i == 0 ? &s : NULL;
        plan.silent = i == 1;
        plan.heard = 3;
        dlt_batch_unlock(&all, &s);
        dlt_batch_is(&all, 0, i == 0 ? 0 : 3, DLOCK_OK);
        dlt_batch_is(&all, i == 0 ? 0 : 3, MANY, DLOCK_UNKNOWN);
        for (size_t j = 0; j < MANY; j++) {
            nodes_left(all.names[j], "", 0);
            cr_assert_eq(dlt_unlock(&s, &all.requests[j]), DLOCK_LOST);
        }
    }
    batches_close();
}

/* ---- with a network ---- */

/* The connection ends after some of the answers. */
Test(batch, BAT_2_a_connection_that_is_cut)
{
    static struct dlt_proxy proxy;
    static struct dlt_session far;
    size_t answered = 0;

    batches_open("cut", MANY);
    warm_up();
    batch_forget(&all, &s);
    cr_assert(dlt_proxy_start(&proxy, server.members[0].address, "raw", NULL), "%s", proxy.answer);
    dlt_session_init_at(&far, proxy.address);
    dlt_session_base(&far, base);
    far.call_ms = 20000;
    cr_assert_eq(dlt_session_open(&far), DLOCK_OK, "%s", far.err.message);
    cr_assert(dlt_proxy_tell(&proxy, "cut s2c 1000 rst"), "%s", proxy.answer);
    dlt_batch_try(&all, &far);
    while (answered < MANY && all.elements[answered].status == DLOCK_OK)
        answered++;
    cr_assert(answered > 0 && answered < MANY, "%zu: %s", answered, all.errors[0].message);
    dlt_batch_is(&all, answered, MANY, DLOCK_UNKNOWN);
    dlt_batch_try(&rival, &t);
    dlt_batch_is(&rival, 0, answered, DLOCK_BUSY);
    dlt_batch_unlock(&rival, &t);
    cr_assert(dlt_proxy_tell(&proxy, "pass"), "%s", proxy.answer);
    dlt_batch_try(&all, &far);
    dlt_batch_is(&all, 0, MANY, DLOCK_OK);
    each_has_nodes(1);
    dlt_batch_unlock(&all, &far);
    dlt_batch_is(&all, 0, MANY, DLOCK_OK);
    batch_forget(&all, &far);
    dlt_session_close(&far);
    (void)dlt_proxy_stop(&proxy);
    each_has_nodes(0);
    batches_close();
}
