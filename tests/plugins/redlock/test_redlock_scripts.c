/* SPDX-License-Identifier: MIT */
/*
 * Does a script on a node do its part for one name, when a second name or the node's memory is in
 * trouble? The slots of the plugin, three real servers (C14, REN-1, UNL-1).
 */
#include "redis_server.h"
#include "redlock_slots.h"

#include <criterion/criterion.h>
#include <string.h>

#define NODES  3
#define TTL_MS 60000
#define TRIES  100 /* 20 ms apart */

static struct dlt_redis servers[NODES];
static struct dlt_session session;

static void set_up(void)
{
    dlt_redlock_start(&session, servers, NODES);
    cr_assert_eq(dlt_session_open(&session), DLOCK_OK, "%s", session.err.message);
}

static void tear_down(void)
{
    dlt_redlock_stop(&session, servers, NODES);
}

TestSuite(redlock_scripts, .init = set_up, .fini = tear_down, .timeout = 60);

/* The keys of the name with these suffixes become something else. */
static void spoil(const char *name, const char *suffixes)
{
    for (unsigned i = 0; i < NODES; i++)
        for (const char *at = suffixes; *at != '\0'; at++)
            cr_assert_str_eq(
                dlt_redis_ask(&servers[i], "SET rl:{%s}:%s text", name, (char[]){*at, '\0'}), "OK");
}

static void forget_all(void)
{
    for (unsigned i = 0; i < NODES; i++)
        (void)dlt_redis_ask(&servers[i], "FLUSHALL");
}

static unsigned nodes_with(const char *key)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        count += strcmp(dlt_redis_ask(&servers[i], "EXISTS %s", key), "1") == 0;
    return count;
}

/* Takes the name, on all nodes. */
static void take(struct dlt_request *request, const char *name, enum dlock_mode mode)
{
    char key[32];

    (void)snprintf(key, sizeof key, "rl:{%s}", name);
    dlt_request(&session, request, name, (unsigned char)name[0], TTL_MS);
    request->req.mode = mode;
    cr_assert_eq(dlt_try(&session, request), DLOCK_OK, "%s", session.err.message);
    for (int i = 0; i < TRIES && nodes_with(key) < NODES; i++) {
        cr_assert_eq(dlt_renew(&session, request), DLOCK_OK, "%s", session.err.message);
        dlt_sleep_ms(20);
    }
    cr_assert_eq(nodes_with(key), NODES);
}

/* Renews two in one exchange. */
static void renew_two(struct dlt_request *one, struct dlt_request *other, enum dlock_status first,
                      enum dlock_status second)
{
    struct dlock_lease_op ops[] = {
        {.req = dlt_due(&session, one, session.call_ms), .status = DLOCK_INTERNAL},
        {.req = dlt_due(&session, other, session.call_ms), .status = DLOCK_INTERNAL}};

    cr_assert_eq(
        dlt_renew_many(session.ops, session.self, ops, 2, one->req.deadline_ns, &session.err),
        DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(ops[0].status, first, "%s: %s", dlock_status_name((int)ops[0].status),
                 session.err.message);
    cr_expect_eq(ops[1].status, second, "%s: %s", dlock_status_name((int)ops[1].status),
                 session.err.message);
}

/* REN-1, C14: a shared lease is renewed on nodes that have no memory, and nothing new is granted.
 */
Test(redlock_scripts, C14_a_reader_is_renewed_without_memory)
{
    struct dlt_request reader, writer, stranger;

    take(&reader, "r", DLOCK_SHARED);
    take(&writer, "x", DLOCK_EXCLUSIVE);
    for (unsigned i = 0; i < NODES; i++)
        (void)dlt_redis_ask(&servers[i], "CONFIG SET maxmemory 1");
    renew_two(&reader, &writer, DLOCK_OK, DLOCK_OK);
    dlt_request(&session, &stranger, "y", 'y', TTL_MS);
    stranger.req.mode = DLOCK_SHARED;
    cr_expect_neq(dlt_try(&session, &stranger), DLOCK_OK);
    session.ops->forget(session.self, &stranger.req);
    cr_expect_eq(dlt_unlock(&session, &reader), DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(dlt_unlock(&session, &writer), DLOCK_OK, "%s", session.err.message);
    cr_expect_eq(nodes_with("rl:{r}") + nodes_with("rl:{x}"), 0u);
}

/* REN-1: the error of one lease is not the answer for the next one. */
Test(redlock_scripts, REN_1_one_lease_in_trouble_leaves_the_next_one_alone)
{
    struct dlt_request reader, writer;

    take(&reader, "r", DLOCK_SHARED);
    take(&writer, "x", DLOCK_EXCLUSIVE);
    spoil("r", "m");
    renew_two(&reader, &writer, DLOCK_UNAVAILABLE, DLOCK_OK);
    cr_expect_not_null(strstr(session.err.message, "the key rl:{r}, or one beside it, is something "
                                                   "else (WRONGTYPE)"),
                       "%s", session.err.message);
    cr_expect_eq(dlt_unlock(&session, &writer), DLOCK_OK, "%s", session.err.message);
}

/* REN-2: a key that was the lease and is something else holds nothing. */
Test(redlock_scripts, REN_2_a_key_that_is_something_else_is_not_held)
{
    struct dlt_request reader, writer;

    take(&reader, "r", DLOCK_SHARED);
    take(&writer, "x", DLOCK_EXCLUSIVE);
    spoil("r", "r");
    for (unsigned i = 0; i < NODES; i++) {
        (void)dlt_redis_ask(&servers[i], "DEL rl:{x}");
        (void)dlt_redis_ask(&servers[i], "LPUSH rl:{x} text");
    }
    renew_two(&reader, &writer, DLOCK_LOST, DLOCK_LOST);
}

/* The same where an element's downgrade fails. */
Test(redlock_scripts, REN_1_a_downgrade_in_trouble_leaves_the_next_one_alone)
{
    struct dlt_request reader, writer;

    take(&reader, "r", DLOCK_EXCLUSIVE);
    take(&writer, "x", DLOCK_EXCLUSIVE);
    spoil("r", "qw");
    reader.req.mode = DLOCK_SHARED;
    reader.req.flags = DLOCK_REQ_DOWNGRADE;
    renew_two(&reader, &writer, DLOCK_OK, DLOCK_OK);
    cr_expect_eq(dlt_unlock(&session, &writer), DLOCK_OK, "%s", session.err.message);
}

/* REN-1: a downgrade that fails because of a foreign key leaves the writer its lease: UNAVAILABLE
 * does not end it, so that the name must not be free. */
static void keeps_the_writer(const char *suffix)
{
    struct dlt_request writer, other;

    take(&writer, "x", DLOCK_EXCLUSIVE);
    take(&other, "y", DLOCK_EXCLUSIVE);
    spoil("x", suffix);
    writer.req.mode = DLOCK_SHARED;
    writer.req.flags = DLOCK_REQ_DOWNGRADE;
    renew_two(&writer, &other, DLOCK_UNAVAILABLE, DLOCK_OK);
    cr_expect_eq(nodes_with("rl:{x}"), NODES, "%s", suffix);
    cr_expect_eq(dlt_unlock(&session, &writer), DLOCK_OK, "%s: %s", suffix, session.err.message);
    session.ops->forget(session.self, &writer.req);
    session.ops->forget(session.self, &other.req);
    forget_all();
}

Test(redlock_scripts, REN_1_a_downgrade_that_fails_leaves_the_lease)
{
    keeps_the_writer("m");
    keeps_the_writer("r");
}

/* UNL-1: what freed the name on all nodes is OK, whatever the keys beside it are. */
static void unlocks_beside(const char *suffixes, enum dlock_mode mode)
{
    const char *held = mode == DLOCK_SHARED ? "rl:{x}:r" : "rl:{x}";
    struct dlt_request request;

    take(&request, "x", mode);
    spoil("x", suffixes);
    cr_expect_eq(dlt_unlock(&session, &request), DLOCK_OK, "%s: %s", suffixes, session.err.message);
    for (int i = 0; i < TRIES && nodes_with(held) > 0; i++)
        dlt_sleep_ms(20);
    cr_expect_eq(nodes_with(held), 0u, "%s", suffixes);
    forget_all();
}

Test(redlock_scripts, UNL_1_keys_beside_the_lock_that_are_something_else)
{
    unlocks_beside("r", DLOCK_EXCLUSIVE);
    unlocks_beside("q", DLOCK_EXCLUSIVE);
    unlocks_beside("m", DLOCK_EXCLUSIVE);
    unlocks_beside("qwmr", DLOCK_EXCLUSIVE);
}

Test(redlock_scripts, UNL_1_keys_beside_a_reader_that_are_something_else)
{
    unlocks_beside("m", DLOCK_SHARED);
    unlocks_beside("q", DLOCK_SHARED);
    unlocks_beside("w", DLOCK_SHARED);
}

/* UNL-2: a node that refuses to give a reader back has given nothing back. */
Test(redlock_scripts, UNL_2_a_refused_release_of_a_reader_is_not_done)
{
    struct dlt_request reader;

    take(&reader, "r", DLOCK_SHARED);
    for (unsigned i = 0; i < NODES; i++)
        (void)dlt_redis_ask(&servers[i], "ACL SETUSER default -zrem");
    cr_expect_eq(dlt_unlock(&session, &reader), DLOCK_UNKNOWN, "%s", session.err.message);
    cr_expect_eq(nodes_with("rl:{r}:r"), NODES);
    for (unsigned i = 0; i < NODES; i++)
        (void)dlt_redis_ask(&servers[i], "ACL SETUSER default +zrem");
    (void)dlt_unlock(&session, &reader); /* LOST, if the nodes have been told again before */
    cr_expect_eq(nodes_with("rl:{r}:r"), 0u);
}
