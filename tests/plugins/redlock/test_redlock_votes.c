/* SPDX-License-Identifier: MIT */
/* What is said while nodes have no vote on new locks, and for how long? The slots of the plugin,
 * three real servers that were just started (CRASH_SAFE, TRY-3). */
#include "heap_search.h"
#include "redis_server.h"
#include "redlock_slots.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>
#include <string.h>

#define NODES  3
#define TTL_MS 20000

static struct dlt_redis servers[NODES];
static struct dlt_session session;
static struct dlt_request request;

static void set_up(void)
{
    dlt_redlock_start(&session, servers, NODES);
    dlt_session_option(&session, "restart_guard", "3600000");
    dlt_request(&session, &request, "x", 1, TTL_MS);
}

static void tear_down(void)
{
    dlt_redlock_stop(&session, servers, NODES);
}

TestSuite(redlock_votes, .init = set_up, .fini = tear_down, .timeout = 60);

static void open_it(void)
{
    cr_assert_eq(dlt_session_open(&session), DLOCK_OK, "%s", session.err.message);
}

static void expect_try(enum dlock_status status, const char *text)
{
    cr_expect_eq(dlt_try(&session, &request), status, "%s", session.err.message);
    cr_expect_not_null(strstr(session.err.message, text), "%s", session.err.message);
    if (status != DLOCK_OK)
        session.ops->forget(session.self, &request.req);
}

/* Nobody may hold the name, and it cannot be had: like one that is held, and why. */
Test(redlock_votes, CRASH_SAFE_a_guard_is_waited_for_like_a_holder)
{
    open_it();
    expect_try(DLOCK_BUSY, "3 of 3 nodes were started less than 3600 s ago; a lock from before may "
                           "still be in use for 3");
    cr_expect_not_null(strstr(session.err.message, "Z); see restart_guard"), "%s",
                       session.err.message);
    cr_expect(session.grant.holder_ms > 3000000 && session.grant.holder_ms <= 3601000, "%lld",
              (long long)session.grant.holder_ms);
    cr_expect_eq(session.grant.flags, 0u, "no place in a queue");
    cr_expect_eq(session.err.nodes[0].status, DLOCK_BUSY);
    cr_expect_not_null(strstr(session.err.nodes[0].message, "no vote for 3"), "%s",
                       session.err.nodes[0].message);
}

/* One more is gone, and two would be enough. */
Test(redlock_votes, CRASH_SAFE_guards_beside_a_node_that_is_gone)
{
    dlt_redis_kill(&servers[2]);
    open_it();
    expect_try(DLOCK_BUSY, "2 of 3 nodes were started less than");
}

/* Without the guards there would be no majority either. */
Test(redlock_votes, TRY_4_guards_beside_too_many_nodes_that_are_gone)
{
    open_it();
    dlt_redis_kill(&servers[1]);
    dlt_redis_kill(&servers[2]);
    expect_try(DLOCK_NO_QUORUM, "could be asked for the lock");
}

/* Held by somebody: the status says it all, and no text stands in its place. */
Test(redlock_votes, TRY_3_a_holder_is_no_guard)
{
    dlt_session_option(&session, "restart_guard", "0");
    for (unsigned i = 0; i < NODES; i++)
        (void)dlt_redis_ask(&servers[i], "SET rl:{x} foreign PX 60000");
    open_it();
    expect_try(DLOCK_BUSY, "");
    cr_expect_str_eq(session.err.message, "");
    cr_expect_gt(session.grant.holder_ms, 0);
    cr_expect_eq(session.err.node_count, NODES);
}

/* OPN-1: a lease that outlasts the guard; what to write stands in the message. */
Test(redlock_votes, OPN_1_a_ttl_longer_than_the_guard)
{
    dlt_session_option(&session, "restart_guard", "30000");
    dlt_session_option(&session, "ttl", "60000");
    cr_expect_eq(dlt_session_open(&session), DLOCK_CONFIG);
    cr_expect_not_null(strstr(session.err.message, "add restart_guard=60s to the URI of all "),
                       "%s", session.err.message);
    dlt_session_option(&session, "ttl", "30000");
    open_it();
    request.req.ttl_ms = 60000;
    expect_try(DLOCK_CONFIG, "add restart_guard=60s to the URI of all clients");
}

static char logged[256];
static unsigned log_lines;

static void log_note(void *ctx, enum dlock_log_level level, const char *message)
{
    (void)ctx;
    cr_expect_eq(level, DLOCK_LOG_INFO);
    (void)snprintf(logged, sizeof logged, "%s", message);
    log_lines++;
}

/* OPN-2: without a guard less is promised, and one line a client says so. */
Test(redlock_votes, OPN_2_no_guard)
{
    struct dlt_session other;

    session.host.table.log = log_note;
    dlt_session_option(&session, "restart_guard", "0");
    dlt_session_option(&session, "ttl", "60000");
    open_it();
    cr_expect_eq(session.info.caps & DLOCK_CAP_CRASH_SAFE, 0u);
    cr_expect_not_null(strstr(logged, "restart_guard is off"), "%s", logged);
    other = session;
    other.shared = &session.host;
    other.target.hosts = other.hosts;
    cr_assert_eq(dlt_session_open(&other), DLOCK_OK, "%s", other.err.message);
    cr_expect_eq(log_lines, 1u);
    dlt_session_close(&other);
}

static unsigned secrets_read;

/* It is changed between the reading and the server's answer. */
static int secret_rotates(const struct dlock_target *target, const char *option, char *buf,
                          size_t size, struct dlock_error *err)
{
    (void)target;
    (void)option;
    (void)err;
    return snprintf(buf, size, "%s", secrets_read++ == 0 ? "before" : "after");
}

/* SEC-1: a refused password that is another one by now is tried at once. */
Test(redlock_votes, SEC_1_a_password_that_was_just_changed)
{
    const char *addresses[] = {servers[0].address};

    (void)dlt_redis_ask(&servers[0], "ACL SETUSER ann on >after ~* &* +@all");
    dlt_redlock_target(&session, addresses, 1);
    dlt_session_option(&session, "any_count", "1");
    session.target.user = "ann";
    session.target.read_secret = secret_rotates;
    open_it();
    cr_expect_eq(secrets_read, 3u);
    expect_try(DLOCK_OK, "");
    cr_expect_eq(dlt_unlock(&session, &request), DLOCK_OK, "%s", session.err.message);
}

#ifdef DLT_HEAP_SEARCH
static char password[2001]; /* its end is not where the next command comes to lie */

static int secret_read(const struct dlock_target *target, const char *option, char *buf,
                       size_t size, struct dlock_error *err)
{
    (void)target;
    (void)option;
    (void)err;
    return snprintf(buf, size, "%s", password);
}

/* C17: at once, and after a buffer that was sent from has grown and the old one was freed. */
Test(redlock_votes, C17_a_password_that_was_sent_is_wiped)
{
    char *copy = NULL;

    for (size_t i = 0; i < sizeof password - 1; i++)
        password[i] = (char)('a' + (i * 7 + i / 11) % 26);
    copy = strdup(password);
    cr_assert(dlt_heap_has(password + 1900, 100), "the search finds what is there");
    explicit_bzero(copy, strlen(copy));
    free(copy);
    for (unsigned i = 0; i < NODES; i++)
        (void)dlt_redis_ask(&servers[i], "ACL SETUSER ann on nopass ~* &* +@all");
    dlt_session_option(&session, "restart_guard", "0");
    session.target.user = "ann";
    session.target.read_secret = secret_read;
    open_it();
    cr_expect_not(dlt_heap_has(password + 1900, 100), "it was sent");
    request.req.mode = DLOCK_SHARED; /* takes a script, whose text the server needs */
    expect_try(DLOCK_OK, "");
    cr_expect_eq(dlt_unlock(&session, &request), DLOCK_OK, "%s", session.err.message);
    cr_expect_not(dlt_heap_has(password + 1900, 100));
}
#endif
