/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/take.c plugins/redlock/inspect.c */
/*
 * Does a key of somebody else, whose number is no number of a lease, make trouble for its name
 * alone? With fence=on; three real servers, the slots of the plugin (C6, C14, BAT-1, REN-1).
 */
#include "batch_calls.h"
#include "redis_server.h"
#include "redlock_slots.h"
#include "session.h"

#include <inttypes.h>

enum { NODES = 3, MANY = 5, ODD = 2 /* of a batch */, TTL_MS = 60000 };

static struct dlt_redis servers[NODES];
static struct dlt_session session;
static struct dlt_batch batch;
static uint64_t lives[NODES];

/* What a kept number is not. The last two are beyond what a script counts exactly, or so near to
 * it that the next number would be. */
static const char *const unfit[] = {
    "text", "nan", "-1", "1e300", "99999999999999999999", "9007199254740993", "9007199254740991",
};

#define UNFIT (sizeof unfit / sizeof unfit[0])

static void lives_note(void)
{
    const struct redlock_session *self = session.self;

    for (unsigned i = 0; i < NODES; i++)
        lives[i] = self->nodes[i].connection.life;
}

/* No answer ended a connection. */
static void lives_are_the_same(const char *what)
{
    const struct redlock_session *self = session.self;

    for (unsigned i = 0; i < NODES; i++) {
        const struct resp_connection *connection = &self->nodes[i].connection;

        cr_expect_eq(connection->state, RESP_READY, "%s: %s", what, connection->why);
        cr_expect_eq(connection->life, lives[i], "%s: %s", what, connection->why);
    }
}

static void on_nodes(unsigned count, const char *command)
{
    for (unsigned i = 0; i < count; i++)
        (void)dlt_redis_ask(&servers[i], "%s", command);
}

static void keep(unsigned nodes, const char *name, const char *number)
{
    for (unsigned i = 0; i < nodes; i++)
        cr_assert_str_eq(dlt_redis_ask(&servers[i], "SET rl:{%s}:f %s", name, number), "OK");
}

static bool all_are_ready(void)
{
    const struct redlock_session *self = session.self;
    bool ready = true;

    for (unsigned i = 0; i < NODES; i++)
        ready &= self->nodes[i].connection.state == RESP_READY;
    return ready;
}

static enum dlock_status take(struct dlt_request *request, const char *name)
{
    dlt_request(&session, request, name, (unsigned char)name[0], TTL_MS);
    return dlt_try(&session, request);
}

/* An open waits for a majority, and calls connect the rest. */
static void all_await(void)
{
    struct dlt_request request;

    for (int i = 0; i < 1000 && !all_are_ready(); i++) {
        if (take(&request, "w") == DLOCK_OK)
            (void)dlt_unlock(&session, &request);
        session.ops->forget(session.self, &request.req);
        dlt_sleep_ms(5);
    }
    cr_assert(all_are_ready());
}

static void set_up(void)
{
    dlt_redlock_start(&session, servers, NODES);
    dlt_session_option(&session, "fence", "1"); /* DLOCK_ON */
    cr_assert_eq(dlt_session_open(&session), DLOCK_OK, "%s", session.err.message);
    all_await();
    lives_note();
}

static void tear_down(void)
{
    dlt_redlock_stop(&session, servers, NODES);
}

TestSuite(redlock_foreign, .init = set_up, .fini = tear_down, .timeout = 60);

static void says_wrong_type(const char *what)
{
    bool said = strstr(session.err.message, "WRONGTYPE") != NULL;

    for (unsigned i = 0; i < session.err.node_count; i++)
        said |= strstr(session.nodes[i].message, "WRONGTYPE") != NULL;
    cr_expect(said, "%s: %s", what, session.err.message);
}

/* ---- the number that a node keeps ---- */

Test(redlock_foreign, C6_a_kept_number_that_is_none_is_CONFIG)
{
    for (size_t i = 0; i < UNFIT; i++) {
        struct dlt_request request;

        keep(NODES, "x", unfit[i]);
        cr_expect_eq(take(&request, "x"), DLOCK_CONFIG, "%s: %s", unfit[i], session.err.message);
        says_wrong_type(unfit[i]);
        session.ops->forget(session.self, &request.req);
        cr_expect_str_eq(dlt_redis_ask(&servers[0], "GET rl:{x}:f"), unfit[i]);
        cr_expect_str_eq(dlt_redis_ask(&servers[0], "EXISTS rl:{x}"), "0");
        lives_are_the_same(unfit[i]);
    }
}

/* The same by the whole script, which a name with a waiter needs. */
Test(redlock_foreign, C6_a_kept_number_that_is_none_beside_a_queue)
{
    struct dlt_request request;

    keep(NODES, "x", "99999999999999999999");
    on_nodes(NODES, "ZADD rl:{x}:q 1 0123456789abcdef0123456789abcdef");
    cr_expect_eq(take(&request, "x"), DLOCK_CONFIG, "%s", session.err.message);
    says_wrong_type("a queue");
    session.ops->forget(session.self, &request.req);
    lives_are_the_same("a queue");
}

Test(redlock_foreign, C6_a_majority_without_it_decides)
{
    struct dlt_request request;

    keep(NODES / 2, "x", "99999999999999999999");
    cr_assert_eq(take(&request, "x"), DLOCK_OK, "%s", session.err.message);
    cr_expect_gt(session.grant.fence, 0u);
    cr_expect_eq(dlt_renew(&session, &request), DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(dlt_unlock(&session, &request), DLOCK_OK, "%s", session.err.message);
    lives_are_the_same("one node");
}

Test(redlock_foreign, BAT_1_it_is_the_answer_for_its_name_alone)
{
    for (size_t i = 0; i < UNFIT; i++) {
        dlt_batch_init(&batch, &session, MANY, "b");
        keep(NODES, batch.names[ODD], unfit[i]);
        dlt_batch_try(&batch, &session);
        dlt_batch_others_are(&batch, ODD, DLOCK_OK);
        dlt_batch_is(&batch, ODD, ODD + 1, DLOCK_CONFIG);
        session.ops->forget(session.self, &batch.requests[ODD].req);
        dlt_batch_unlock(&batch, &session);
        dlt_batch_others_are(&batch, ODD, DLOCK_OK);
        lives_are_the_same(unfit[i]);
    }
}

/* A lease that is held is renewed and given back whatever became of the number beside it. */
Test(redlock_foreign, REN_1_leases_are_renewed_beside_it)
{
    struct dlt_request held, other, odd;

    cr_assert_eq(take(&held, "held"), DLOCK_OK, "%s", session.err.message);
    cr_assert_eq(take(&other, "other"), DLOCK_OK, "%s", session.err.message);
    keep(NODES, "held", "99999999999999999999");
    keep(NODES, "odd", "99999999999999999999");
    cr_expect_eq(take(&odd, "odd"), DLOCK_CONFIG, "%s", session.err.message);
    session.ops->forget(session.self, &odd.req);
    cr_expect_eq(dlt_renew(&session, &held), DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(dlt_renew(&session, &other), DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(dlt_unlock(&session, &held), DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(dlt_unlock(&session, &other), DLOCK_OK, "%s", session.err.message);
    lives_are_the_same("held");
}

Test(redlock_foreign, C14_inspect_says_that_nobody_can_take_it)
{
    struct dlt_holder holder;
    size_t count = 1;

    keep(NODES, "x", "text");
    cr_expect_eq(dlt_inspect(&session, "x", &holder, &count), DLOCK_CONFIG);
    says_wrong_type("inspect");
    lives_are_the_same("inspect");
}

/* ---- the number of a holder ---- */

/* A value that looks like that of a lease: held, by somebody without a fencing token. */
static void is_held(const char *value)
{
    struct dlt_request request, other;
    struct dlt_holder holder = {.fence = 1};
    size_t count = 1;

    for (unsigned i = 0; i < NODES; i++)
        cr_assert_str_eq(dlt_redis_ask(&servers[i], "SET rl:{x} %s", value), "OK");
    cr_expect_eq(take(&request, "x"), DLOCK_BUSY, "%s: %s", value, session.err.message);
    session.ops->forget(session.self, &request.req);
    cr_expect_eq(dlt_inspect(&session, "x", &holder, &count), DLOCK_OK, "%s: %s", value,
                 session.err.message);
    cr_expect_eq(count, 1u, "%s", value);
    cr_expect_eq(holder.fence, 0u, "%s: %" PRIu64, value, holder.fence);
    count = 1;
    cr_expect_eq(dlt_list(&session, "", &holder, &count), DLOCK_OK, "%s: %s", value,
                 session.err.message);
    cr_expect_eq(count, 1u, "%s", value);
    cr_assert_eq(take(&other, "y"), DLOCK_OK, "%s: %s", value, session.err.message);
    cr_expect_eq(dlt_unlock(&session, &other), DLOCK_OK, "%s: %s", value, session.err.message);
    lives_are_the_same(value);
}

Test(redlock_foreign, C14_a_holder_whose_number_is_none_is_BUSY)
{
    is_held("foreign");
    is_held("aa 1 99999999999999999999 5 label");
    is_held("aa 1 9007199254740993 5 label");
    is_held("aa 1 text 5 label");
}
