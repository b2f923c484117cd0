/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/round.c plugins/redlock/acquire.c plugins/redlock/take.c */
/* Tests: plugins/redlock/unlock.c plugins/redlock/node.c */
/*
 * Has each name of a batch its own quorum, its own deadline and its own undoing, whatever one of
 * the nodes does? Three real servers behind proxies, the slots of the plugin (C1, C4, C6, C19,
 * BAT-1 to BAT-4).
 */
#include "batch_calls.h"
#include "proxy_client.h"
#include "redis_server.h"
#include "redlock_slots.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { NODES = 3, MAJORITY = 2, MANY = 8, FULL = 64, HELD = 3, SOON = 2000 /* times 10 ms */ };

static struct dlt_redis servers[NODES];
static struct dlt_proxy proxies[NODES];
static struct dlt_session s, direct; /* s: through the proxies */
static struct dlt_batch batch;

static void tell(unsigned node, const char *line)
{
    cr_assert(dlt_proxy_tell(&proxies[node], "%s", line), "%s: %s", line, proxies[node].answer);
}

static void tell_all(const char *line)
{
    for (unsigned i = 0; i < NODES; i++)
        tell(i, line);
}

static void target(struct dlt_session *session, bool proxied)
{
    const char *addresses[NODES];

    for (unsigned i = 0; i < NODES; i++)
        addresses[i] = proxied ? proxies[i].address : servers[i].address;
    dlt_redlock_target(session, addresses, NODES);
    session->call_ms = 30000;
}

static void open_it(struct dlt_session *session)
{
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

/* A session with one more option; NULL: without. It is connected to all nodes. */
static void open_with(const char *option, const char *value)
{
    target(&s, true);
    if (option != NULL)
        dlt_session_option(&s, option, value);
    open_it(&s);
}

static void set_up(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert(dlt_redis_start(&servers[i], NULL), "%s", servers[i].why);
        cr_assert(dlt_proxy_start(&proxies[i], servers[i].address, "resp", NULL), "%s",
                  proxies[i].answer);
    }
    target(&direct, false);
    open_it(&direct);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_session_close(&direct);
    for (unsigned i = 0; i < NODES; i++) {
        (void)dlt_proxy_stop(&proxies[i]);
        dlt_redis_stop(&servers[i]);
    }
}

TestSuite(redlock_batch, .init = set_up, .fini = tear_down, .timeout = 180);

/* ---- what the nodes have ---- */

static bool has(unsigned node, const char *name)
{
    return strcmp(dlt_redis_ask(&servers[node], "EXISTS rl:{%s}", name), "1") == 0;
}

static unsigned nodes_with(const char *name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        count += servers[i].pid != 0 && has(i, name);
    return count;
}

/* Releases that are pending leave with the next call. */
static void is_free_soon(const char *name)
{
    struct dlt_request other;

    for (int i = 0; i < SOON && nodes_with(name) > 0; i++) {
        dlt_request(&s, &other, "other", 'o', 60000);
        if (dlt_try(&s, &other) == DLOCK_OK)
            (void)dlt_unlock(&s, &other);
        s.ops->forget(s.self, &other.req);
        dlt_sleep_ms(10);
    }
    cr_assert_eq(nodes_with(name), 0u, "%s stays on %u nodes", name, nodes_with(name));
}

static void all_free_soon(void)
{
    for (size_t i = 0; i < batch.n; i++)
        is_free_soon(batch.names[i]);
}

static void foreign_set(unsigned node, const char *name, const char *owner, int ms)
{
    cr_assert_str_eq(dlt_redis_ask(&servers[node], "SET rl:{%s} %s PX %d", name, owner, ms), "OK");
}

/* Nobody else gets the name. */
static void is_excluded(const char *name)
{
    struct dlt_request other;

    dlt_request(&direct, &other, name, 'o', 60000);
    cr_assert_eq(dlt_try(&direct, &other), DLOCK_BUSY, "%s: %s", name, direct.err.message);
    direct.ops->forget(direct.self, &other.req);
}

static void all_unlock(void)
{
    dlt_batch_unlock(&batch, &s);
    dlt_batch_is(&batch, 0, batch.n, DLOCK_OK);
    all_free_soon();
}

/* Until the session has asked all nodes. */
static void warm_up(void)
{
    bool whole = false;

    for (int i = 0; i < SOON && !whole; i++) {
        dlt_batch_init(&batch, &s, 1, "w");
        dlt_batch_try(&batch, &s);
        dlt_batch_is(&batch, 0, 1, DLOCK_OK);
        dlt_sleep_ms(10);
        whole = nodes_with("w000") == NODES;
        all_unlock();
    }
    cr_assert(whole);
}

/* ---- each name by itself ---- */

/* Each way takes so long that there is no time for an exchange for each name, also if the nodes
 * have lost the scripts, which take more room than a connection has for all. */
Test(redlock_batch, BAT_1_all_names_leave_together)
{
    enum { DELAY_MS = 250, MOST_MS = 20000 }; /* FULL exchanges last for longer */

    target(&s, true);
    dlt_session_option(&s, "node_timeout", "10000");
    dlt_session_option(&s, "fence", "1");
    open_it(&s);
    warm_up();
    for (int i = 0; i < 2; i++) {
        for (unsigned node = 0; node < NODES; node++) {
            cr_assert_str_eq(dlt_redis_ask(&servers[node], "SCRIPT FLUSH"), "OK");
            cr_assert(dlt_proxy_tell(&proxies[node], "delay both %d", DELAY_MS), "%s",
                      proxies[node].answer);
        }
        s.call_ms = MOST_MS;
        if (i == 0)
            dlt_batch_init(&batch, &s, FULL, "b");
        dlt_batch_call(&batch, &s, i == 1);
        tell_all("pass");
        dlt_batch_is(&batch, 0, FULL, DLOCK_OK);
    }
    all_free_soon();
}

/* ---- fencing tokens ---- */

static uint64_t number_on(unsigned node, const char *name)
{
    uint64_t number = 0;

    if (sscanf(dlt_redis_ask(&servers[node], "GET rl:{%s}", name), "%*s %*s %" SCNu64, &number) !=
        1)
        return 0;
    return number;
}

static void is_on_a_majority(size_t i)
{
    uint64_t fence = batch.elements[i].grant.fence;
    unsigned count = 0;

    for (unsigned node = 0; node < NODES; node++)
        count += number_on(node, batch.names[i]) == fence;
    cr_assert(fence > 0 && count >= MAJORITY, "%s: %" PRIu64 " is on %u nodes", batch.names[i],
              fence, count);
}

/* Of the last lease of a name: no number that a node chooses is smaller. */
static void counter_set(unsigned node, const char *name, int64_t ahead_us)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    cr_assert_str_eq(dlt_redis_ask(&servers[node], "SET rl:{%s}:f %" PRId64 " PX 60000", name,
                                   (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + ahead_us),
                     "OK");
}

/* For some names no two nodes choose the same number: these are raised, in a second exchange. */
Test(redlock_batch, C6_each_name_has_one_number_on_a_majority)
{
    static const size_t apart[] = {2, 5};
    uint64_t before[MANY];

    open_with("fence", "1");
    warm_up();
    dlt_batch_init(&batch, &s, MANY, "b");
    for (size_t i = 0; i < 2; i++) {
        counter_set(0, batch.names[apart[i]], 2000000);
        counter_set(1, batch.names[apart[i]], 1000000);
    }
    dlt_batch_try(&batch, &s);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    for (size_t i = 0; i < MANY; i++) {
        is_on_a_majority(i);
        before[i] = batch.elements[i].grant.fence;
    }
    all_unlock();
    dlt_batch_init(&batch, &s, MANY, "b");
    dlt_batch_try(&batch, &s);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_gt(batch.elements[i].grant.fence, before[i], "%s", batch.names[i]);
    all_unlock();
}

/* ---- nodes that fail ---- */

Test(redlock_batch, C1_one_node_is_dead)
{
    open_with(NULL, NULL);
    warm_up();
    dlt_redis_kill(&servers[0]);
    dlt_batch_init(&batch, &s, FULL, "b");
    dlt_batch_try(&batch, &s);
    dlt_batch_is(&batch, 0, FULL, DLOCK_OK);
    for (size_t i = 0; i < FULL; i++)
        cr_assert_eq(nodes_with(batch.names[i]), MAJORITY);
    all_unlock();
}

/* What the third one granted is undone for each name. */
Test(redlock_batch, BAT_1_a_minority_keeps_nothing)
{
    open_with(NULL, NULL);
    warm_up();
    dlt_redis_kill(&servers[0]);
    dlt_redis_kill(&servers[1]);
    dlt_batch_init(&batch, &s, MANY, "b");
    dlt_batch_try(&batch, &s);
    for (size_t i = 0; i < MANY; i++) {
        cr_assert(batch.elements[i].status == DLOCK_NO_QUORUM ||
                      batch.elements[i].status == DLOCK_UNKNOWN,
                  "%s", dlock_status_name((int)batch.elements[i].status));
        cr_assert_neq(batch.errors[i].message[0], '\0');
    }
    all_free_soon();
}

/* Bytes from a node: answers to requests, of which each 16 have a look behind them, and a part of
 * the next ones. */
static size_t answers_len(struct dlt_redis *node, unsigned rechecks, size_t more)
{
    size_t info = strlen(dlt_redis_ask(node, "INFO replication"));

    return rechecks * (16 * strlen("+OK\r\n") + strlen("$xxx\r\n\r\n") + info) + more;
}

/* The connections to two nodes end after some of the answers. What a look confirmed counts. */
Test(redlock_batch, BAT_2_names_that_a_majority_answered_have_their_answers)
{
    char cut[2][64];
    size_t answered = 0;

    open_with(NULL, NULL);
    warm_up();
    for (unsigned i = 0; i < 2; i++)
        (void)snprintf(cut[i], sizeof cut[i], "cut s2c %zu rst",
                       answers_len(&servers[i], i + 1, 22));
    tell(0, cut[0]);
    tell(1, cut[1]);
    dlt_batch_init(&batch, &s, FULL, "b");
    dlt_batch_try(&batch, &s);
    while (answered < FULL && batch.elements[answered].status == DLOCK_OK)
        answered++;
    cr_assert(answered >= 16 && answered < FULL, "%zu", answered);
    dlt_batch_is(&batch, answered, FULL, DLOCK_UNKNOWN);
    for (size_t i = 0; i < answered; i++)
        is_excluded(batch.names[i]);
    tell_all("pass");
    for (size_t i = answered; i < FULL; i++)
        is_free_soon(batch.names[i]);
    for (size_t i = 0; i < answered; i++)
        is_excluded(batch.names[i]);
    dlt_batch_try(&batch, &s); /* the same tokens [TRY-5] */
    dlt_batch_is(&batch, 0, FULL, DLOCK_OK);
    all_unlock();
}

/* One node answers after its time. It decides nothing, and gives back what it granted of the name
 * that was not won, and nothing else. */
Test(redlock_batch, TRY_4_a_node_that_answers_late)
{
    open_with("node_timeout", "300");
    warm_up();
    foreign_set(1, "b003", "foreign", 60000);
    tell(0, "delay s2c 1500");
    dlt_batch_init(&batch, &s, MANY, "b");
    dlt_batch_try(&batch, &s);
    dlt_batch_others_are(&batch, HELD, DLOCK_OK);
    dlt_batch_is(&batch, HELD, HELD + 1, DLOCK_BUSY);
    tell(0, "pass");
    cr_assert_str_eq(dlt_redis_ask(&servers[1], "DEL rl:{b003}"), "1");
    is_free_soon("b003");
    for (size_t i = 0; i < MANY; i++)
        if (i != HELD)
            cr_assert_eq(nodes_with(batch.names[i]), NODES, "%s", batch.names[i]);
    dlt_batch_unlock(&batch, &s);
    dlt_batch_others_are(&batch, HELD, DLOCK_OK);
    all_free_soon();
}

/* Batch after batch, while one node takes requests and answers none. */
Test(redlock_batch, C1_one_node_is_silent)
{
    open_with(NULL, NULL);
    warm_up();
    tell(0, "blackhole s2c");
    for (int i = 0; i < 6; i++) {
        dlt_batch_init(&batch, &s, FULL, "b");
        dlt_batch_try(&batch, &s);
        dlt_batch_is(&batch, 0, FULL, DLOCK_OK);
        dlt_batch_unlock(&batch, &s);
        dlt_batch_is(&batch, 0, FULL, DLOCK_OK);
    }
    tell(0, "pass");
    all_free_soon();
}

Test(redlock_batch, BAT_3_the_deadline_ends_the_call)
{
    int64_t begin_ns = 0, took_ms = 0;

    open_with("node_timeout", "10000");
    warm_up();
    tell_all("blackhole s2c");
    s.call_ms = 400;
    dlt_batch_init(&batch, &s, MANY, "b");
    begin_ns = dlt_host_now(s.shared);
    dlt_batch_try(&batch, &s);
    took_ms = (dlt_host_now(s.shared) - begin_ns) / 1000000;
    dlt_batch_is(&batch, 0, MANY, DLOCK_UNKNOWN);
    cr_assert_geq(took_ms, 400);
    tell_all("pass");
    s.call_ms = 30000;
    all_free_soon();
}

/* ---- votes ---- */

/* Nobody has a majority of one name. It is asked for again until the others' leases have ended, and
 * its own lease counts from then. */
Test(redlock_batch, TRY_3_a_split_vote_is_repeated_for_its_name_alone)
{
    target(&s, true);
    dlt_session_option(&s, "retry_count", "100");
    dlt_session_option(&s, "retry_delay", "300");
    open_it(&s);
    warm_up();
    foreign_set(0, "b003", "aa", 3000);
    foreign_set(1, "b003", "bb", 3000);
    dlt_batch_init(&batch, &s, MANY, "b");
    dlt_batch_try(&batch, &s);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(batch.elements[i].grant.since_ns != 0, i == HELD, "%s", batch.names[i]);
    is_excluded("b003");
    all_unlock();
}

Test(redlock_batch, CRASH_SAFE_nodes_in_their_guard_time_have_no_vote)
{
    open_with("restart_guard", "3600000");
    dlt_batch_init(&batch, &s, MANY, "b");
    dlt_batch_try(&batch, &s);
    dlt_batch_is(&batch, 0, MANY, DLOCK_BUSY);
    for (size_t i = 0; i < MANY; i++) {
        cr_assert_not_null(strstr(batch.errors[i].message, "3 of 3 nodes were started less than"),
                           "%s", batch.errors[i].message);
        cr_assert_gt(batch.elements[i].grant.holder_ms, 0);
        cr_assert_eq(nodes_with(batch.names[i]), 0u);
    }
}

/* A lease that is longer than the guard is refused, and the others are not. */
Test(redlock_batch, OPN_1_one_ttl_is_longer_than_the_guard)
{
    open_with("restart_guard", "1000");
    dlt_sleep_ms(3000); /* the guards are over: a server counts whole seconds */
    dlt_session_close(&s);
    open_with("restart_guard", "1000");
    dlt_batch_init(&batch, &s, MANY, "b");
    for (size_t i = 0; i < MANY; i++)
        batch.requests[i].req.ttl_ms = i == HELD ? 2000 : 1000;
    dlt_batch_try(&batch, &s);
    dlt_batch_others_are(&batch, HELD, DLOCK_OK);
    dlt_batch_is(&batch, HELD, HELD + 1, DLOCK_CONFIG);
}
