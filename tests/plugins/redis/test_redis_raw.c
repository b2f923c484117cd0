/* SPDX-License-Identifier: MIT */
/* key=raw: does a name exclude other programs, clients with key=raw and clients without, in each
 * order? (C1, C12) */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session plain, raw;
static struct dlt_request a, b, r; /* r: of the client with key=raw */

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&plain, &server), DLOCK_OK);
    dlt_session_init(&raw, "redis", server.address);
    dlt_session_trusted(&raw);
    dlt_session_option(&raw, "key", "raw");
    cr_assert_eq(dlt_session_open(&raw), DLOCK_OK, "%s", raw.err.message);
    dlt_request(&plain, &a, "job", 'a', 60000);
    dlt_request(&plain, &b, "job", 'b', 60000);
    dlt_request(&raw, &r, "job", 'r', 60000);
}

static void tear_down(void)
{
    plain.ops->forget(plain.self, &b.req);
    dlt_session_close(&plain);
    dlt_session_close(&raw);
    dlt_redis_stop(&server);
}

TestSuite(raw, .init = set_up, .fini = tear_down, .timeout = 60);

/* The next one of this name, by another owner. */
static void again(struct dlt_session *session, struct dlt_request *request, unsigned char owner)
{
    session->ops->forget(session->self, &request->req);
    dlt_request(session, request, "job", owner, 60000);
}

Test(raw, C1_C12_with_and_without_exclude_each_other_and_the_queue_is_served)
{
    uint64_t fence = 0;

    for (unsigned char round = 0; round < 25; round++) {
        again(&plain, &a, (unsigned char)(3 * round + 1));
        again(&plain, &b, (unsigned char)(3 * round + 2));
        again(&raw, &r, (unsigned char)(3 * round + 3));
        cr_assert_eq(dlt_try(&plain, &a), DLOCK_OK);
        cr_assert_gt(plain.grant.fence, fence);
        cr_assert_eq(dlt_enqueue(&plain, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_try(&raw, &r), DLOCK_BUSY, "round %u: the other one holds it", round);
        cr_assert_gt(raw.grant.holder_ms, 50000);
        cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS job"), "0");
        cr_assert_eq(dlt_refresh(&plain, &b), DLOCK_BUSY, "round %u: nobody let it in", round);
        cr_assert_eq(dlt_unlock(&plain, &a), DLOCK_OK);
        cr_assert_eq(dlt_refresh(&plain, &b), DLOCK_OK, "round %u: the queue is served", round);
        fence = plain.grant.fence;
        cr_assert_eq(dlt_try(&raw, &r), DLOCK_BUSY, "round %u: and it holds it, too", round);
        cr_assert_eq(dlt_unlock(&plain, &b), DLOCK_OK);

        cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK, "%s", raw.err.message);
        cr_assert_gt(raw.grant.fence, fence, "C6 one counter for both");
        fence = raw.grant.fence;
        again(&plain, &a, (unsigned char)(3 * round + 100));
        again(&plain, &b, (unsigned char)(3 * round + 101));
        cr_assert_eq(dlt_try(&plain, &a), DLOCK_BUSY, "round %u", round);
        cr_assert_eq(dlt_enqueue(&plain, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_renew(&raw, &r), DLOCK_OK, "%s", raw.err.message);
        cr_assert_eq(dlt_refresh(&plain, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_unlock(&raw, &r), DLOCK_OK);
        cr_assert_eq(dlt_refresh(&plain, &b), DLOCK_OK, "round %u: the next one has it", round);
        fence = plain.grant.fence;
        cr_assert_eq(dlt_unlock(&plain, &b), DLOCK_OK);
    }
}

Test(raw, inspect_shows_the_fence_and_the_label_of_either)
{
    struct dlt_holder holders[4];
    size_t count = 4;

    r.req.label = "host:1:nightly";
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&raw, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_gt(holders[0].fence, 0);
    cr_assert_str_eq(holders[0].label, "host:1:nightly");
    cr_assert_eq(dlt_unlock(&raw, &r), DLOCK_OK);
    cr_assert_eq(dlt_try(&plain, &a), DLOCK_OK);
    count = 4;
    cr_assert_eq(dlt_inspect(&raw, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1, "a client without key=raw is seen");
    cr_assert_str_eq(holders[0].owner, "61616161616161616161616161616161");
    cr_assert_gt(holders[0].fence, 0);
}

/* C14, C5: a lease is kept only if both keys are. */
Test(raw, REN_2_a_lease_is_lost_with_either_key)
{
    static const char *const keys[] = {"job", "dl:{job}"};

    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK, "%s", raw.err.message);
        (void)dlt_redis_ask(&server, "PEXPIRE job 30000");
        cr_assert_eq(dlt_renew(&raw, &r), DLOCK_OK);
        cr_assert_gt(strtol(dlt_redis_ask(&server, "PTTL job"), NULL, 10), 50000);
        (void)dlt_redis_ask(&server, "SET %s other PX 60000", keys[i]);
        cr_assert_eq(dlt_renew(&raw, &r), DLOCK_LOST, "%s", keys[i]);
        cr_assert_eq(dlt_unlock(&raw, &r), DLOCK_LOST, "%s", keys[i]);
        cr_assert_str_eq(dlt_redis_ask(&server, "GET %s", keys[i]), "other");
        cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS job dl:{job}"), "1", "ours is given back");
        (void)dlt_redis_ask(&server, "DEL job dl:{job}");
    }
}

/* UNL-1, BRK-1 */
Test(raw, BRK_1_break_ends_either)
{
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK);
    cr_assert_eq(dlt_break(&raw, "job", "somebody"), DLOCK_NOT_HELD);
    cr_assert_eq(dlt_break(&raw, "job", "72727272727272727272727272727272"), DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS job dl:{job}"), "0");
    cr_assert_eq(dlt_unlock(&raw, &r), DLOCK_LOST);
    cr_assert_eq(dlt_break(&raw, "job", NULL), DLOCK_NOT_HELD);
    (void)dlt_redis_ask(&server, "SET job somebody PX 60000");
    cr_assert_eq(dlt_break(&raw, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_try(&plain, &a), DLOCK_OK);
    cr_assert_eq(dlt_break(&raw, "job", NULL), DLOCK_OK);
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK);
}

/* Symfony Lock keeps a sorted set under the name, others a hash; both end by themselves. */
Test(raw, C1_other_types_of_other_programs_are_waited_for)
{
    struct dlt_holder holders[4];
    size_t count = 4;

    (void)dlt_redis_ask(&server, "ZADD job 1 x");
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_CONFIG, "it does not end: %s", raw.err.message);
    cr_assert(strstr(raw.err.message, "the key job,") != NULL, "%s", raw.err.message);
    (void)dlt_redis_ask(&server, "PEXPIRE job 60000");
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_BUSY, "%s", raw.err.message);
    cr_assert_gt(raw.grant.holder_ms, 50000);
    cr_assert_eq(dlt_inspect(&raw, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holders[0].label, "held by another program");
    cr_assert_eq(dlt_break(&raw, "job", NULL), DLOCK_CONFIG, "not ours to end");
    count = 4;
    cr_assert_eq(dlt_list(&raw, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 0, "many a key ends by itself and is no lock");
    (void)dlt_redis_ask(&server, "DEL job");
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK);
}

/* TRY-5 */
Test(raw, TRY_5_asked_again_it_is_the_same_lease)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK);
    fence = raw.grant.fence;
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK);
    cr_assert_eq(raw.grant.fence, fence);
    (void)dlt_redis_ask(&server, "DEL job");
    cr_assert_eq(dlt_try(&raw, &r), DLOCK_OK);
    cr_assert_gt(strtol(dlt_redis_ask(&server, "PTTL job"), NULL, 10), 50000);
}

/* C4: a waiter that died as it was granted the name costs its ttl, where that is the shorter. */
Test(raw, TRY_2_a_grant_by_the_queue_lasts_no_longer_than_the_ttl)
{
    static const char *const modes[] = {"dl:{job}", "dl:{job}:r"};

    for (size_t i = 0; i < 2; i++) {
        again(&plain, &b, (unsigned char)('b' + i));
        b.req.ttl_ms = 500; /* shorter than a place; nothing is done while it lasts */
        b.req.mode = i == 0 ? DLOCK_EXCLUSIVE : DLOCK_SHARED;
        cr_assert_eq(dlt_try(&plain, &a), DLOCK_OK);
        cr_assert_eq(dlt_enqueue(&plain, &b), DLOCK_BUSY);
        cr_assert_eq(plain.grant.lease_ms, 3000, "of the place");
        cr_assert_eq(dlt_unlock(&plain, &a), DLOCK_OK);
        cr_assert_leq(strtol(dlt_redis_ask(&server, "PTTL %s", modes[i]), NULL, 10), 500);
        (void)dlt_unlock(&plain, &b);
    }
}
