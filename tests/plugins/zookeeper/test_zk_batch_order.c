/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/take.c */
/* Are the steps of a batch in an order in which no element is in the way of another? (C19, BAT-1)
 */
#include "batch_kit.h"

/* Its node is gone before another element of the name is judged, also that of an earlier call. */
Test(batch, BAT_1_a_refused_writer_is_not_in_the_way_of_readers)
{
    batches_open("modes", 4);
    rival.requests[0].req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&t, &rival.requests[0]), DLOCK_OK);
    for (size_t i = 0; i < 4; i++) {
        memcpy(all.names[i], rival.names[0], sizeof all.names[i]);
        all.requests[i].req.mode = i % 2 == 0 ? DLOCK_EXCLUSIVE : DLOCK_SHARED;
    }
    cr_assert_eq(exchanges_of(dlt_batch_try), 2, "create, delete");
    for (size_t i = 0; i < 4; i++)
        dlt_batch_is(&all, i, i + 1, i % 2 == 0 ? DLOCK_BUSY : DLOCK_OK);
    dlt_batch_unlock(&all, &s);
    all.n = 1;
    at(1);
    plan.down = true;
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, 1, DLOCK_UNKNOWN); /* made, and not deleted */
    all.n = 2;
    dlt_batch_try(&all, &s);
    dlt_batch_is(&all, 0, 1, DLOCK_BUSY);
    dlt_batch_is(&all, 1, 2, DLOCK_OK);
    dlt_batch_unlock(&all, &s);
    cr_assert_eq(dlt_unlock(&t, &rival.requests[0]), DLOCK_OK);
    batches_close();
}

Test(batch, BAT_1_refused_nodes_go_before_other_names_are_made)
{
    batches_open("early", 2);
    cr_assert_eq(dlt_try(&t, &rival.requests[0]), DLOCK_OK);
    at(1);
    dlt_batch_try(&all, &s);
    cr_assert_eq(plan.first, ZK_DELETE);
    dlt_batch_is(&all, 0, 1, DLOCK_BUSY);
    dlt_batch_is(&all, 1, 2, DLOCK_OK);
    dlt_batch_unlock(&all, &s);
    cr_assert_eq(dlt_unlock(&t, &rival.requests[0]), DLOCK_OK);
    batches_close();
}

Test(batch, BAT_1_names_without_a_base)
{
    static struct dlt_session raw;

    batches_open("bare", MOST / 2 - 1);
    cr_assert_eq(exchanges_of(dlt_batch_try), 5, "create, names, one path, names, create");
    dlt_batch_is(&all, 0, all.n, DLOCK_OK);
    dlt_batch_unlock(&all, &s);
    client_init(&raw);
    dlt_session_option(&raw, "key", "raw");
    cr_assert_eq(dlt_session_open(&raw), DLOCK_OK, "%s", raw.err.message);
    all.n = MANY;
    for (size_t i = 0; i < MANY; i++)
        (void)snprintf(all.names[i], sizeof all.names[i], "%zu/ab", i / 2);
    dlt_batch_try(&all, &raw);
    for (size_t i = 0; i < MANY; i++)
        dlt_batch_is(&all, i, i + 1, i % 2 == 0 ? DLOCK_OK : DLOCK_BUSY);
    each_has_nodes(1);
    batch_forget(&all, &raw);
    leftovers_gone(&raw);
    dlt_session_close(&raw);
    batches_close();
}

/* A semaphore whose first contender does not choose: each question is two exchanges, 12 in all. */
Test(batch, BAT_3_permits_of_a_batch_share_their_patience)
{
    int exchanges = 0;

    batches_open("permits", 4);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK); /* the base is there */
    for (size_t i = 0; i < all.n; i++) {
        all.requests[i].req.limit = 2;
        (void)dlt_zk_ask(&server, "create %s/%s", base, all.names[i]);
        (void)dlt_zk_ask(&server, "create -s %s/%s/_c_%032d-l2-__WRIT__", base, all.names[i], 7);
    }
    exchanges = exchanges_of(dlt_batch_try);
    cr_assert(exchanges > 4 * 3 && exchanges <= 4 * 3 + 12 * 2, "%d", exchanges);
    dlt_batch_is(&all, 0, all.n, DLOCK_BUSY);
    each_has_nodes(1);
    batches_close();
}
