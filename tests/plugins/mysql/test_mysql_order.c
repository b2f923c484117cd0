/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_queue.c plugins/mysql/row_lease.c
 * plugins/mysql/connect.c
 */
/* Do waiters get locks and permits in the order in which the server queues them, also if the head
 * is slow, or its connections are? (C13, C21) */
#include "fault_fixture.h"
#include "proxy_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define HELD_BY_C                                                                 \
    "SELECT COUNT(*) FROM f_names WHERE name = 'job' AND token = REPEAT('c', 16)" \
    " AND until_us > 1000"

static struct dlt_request d, e, f;

/* Nothing else ends the wait of a head but an answer that the machine was too busy for, which costs
 * its session and not its place. */
static void waits_in_vain(struct waiter *head)
{
    const struct dlock_error *err = &head->session->err;

    waiter_start(head);
    if (waiter_join(head) == DLOCK_UNAVAILABLE && err->code == 0)
        reopen(head->session);
    else
        cr_assert_eq(head->status, DLOCK_TIMEOUT, "it went on: %s", err->message);
}

/* s takes all that there is; t is the head, and u waits behind it. */
static void two_wait(uint32_t limit, struct waiter *head, struct waiter *second)
{
    dlt_request(&s, &d, "job", 'd', 60000);
    a.req.limit = b.req.limit = c.req.limit = d.req.limit = limit;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    if (limit > 1)
        cr_assert_eq(dlt_try(&s, &d), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    becomes_head(head);
    waits_in_vain(head);
    waiter_start(second);
    cr_assert_eq(waiter_join(second), DLOCK_TIMEOUT, "%s", u.err.message);
}

/* The one behind looks at the name after each wait, too. */
static void want_order(uint32_t limit)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 400};

    two_wait(limit, &head, &second);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK); /* and the head has reserved nothing any more */
    for (int i = 0; i < 2; i++)
        cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY, "the head is before it");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    second.timeout_ms = 20000;
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "it is the head now: %s", u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
}

LEASED(C13_a_waiter_behind_the_head_takes_nothing)
{
    want_order(1);
}

LEASED(C21_a_waiter_behind_the_head_takes_no_permit)
{
    want_order(2);
}

/* It has no fence yet. */
LEASED(C13_a_waiter_behind_the_head_of_a_name_that_was_only_read)
{
    a.req.mode = DLOCK_SHARED;
    want_order(1);
}

/* One of the readers holds it at each moment. */
LEASED(C13_a_head_reserves_a_name_that_was_only_read)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 60000};
    enum dlock_status status = DLOCK_OK;
    uint64_t fence = 0;

    dlt_request_shared(&u, &c, "job", 'c', 60000);
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    becomes_head(&head);
    waiter_start(&head);
    for (int i = 0; i < 500 && status == DLOCK_OK; i++) {
        dlt_sleep_ms(10);
        status = dlt_try(&u, &c);
        if (status == DLOCK_OK)
            cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK, "%s", u.err.message);
    }
    cr_assert_eq(status, DLOCK_BUSY, "readers pass the first waiter");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(waiter_join(&head), DLOCK_BUSY, "%s", t.err.message);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
        cr_assert_gt(t.grant.fence, fence);
        fence = t.grant.fence;
        cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    }
}

/* The head has made the row of the fence since this caller looked for it. */
static void want_no_grant_beside_a_new_fence(uint32_t limit)
{
    a.req.limit = limit;
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "CREATE TRIGGER t BEFORE INSERT ON f_fences FOR EACH ROW"
                                   " SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062"),
                     "");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "%s", s.err.message);
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TRIGGER t"), "");
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT COUNT(*) FROM f_names WHERE until_us > 0"),
                     "0");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
}

static void TRY_4_C13_a_fence_that_the_head_has_made(void)
{
    want_no_grant_beside_a_new_fence(1);
}

DLT_IN(insert, TRY_4_C13_a_fence_that_the_head_has_made)

static void TRY_4_C21_a_fence_that_the_head_has_made(void)
{
    want_no_grant_beside_a_new_fence(2);
}

DLT_IN(insert, TRY_4_C21_a_fence_that_the_head_has_made)

/* The answer to the head would be its turn, and may be lost with the connection. Another waiter in
 * the same place does not wait for the head again, even if a third one takes the name meanwhile. */
static void want_the_last_resort(uint32_t limit, const char *last_sign)
{
    const char *table = strcmp(s.options[1][1], "row") == 0 ? "f_names" : "f_fences";
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 400};
    struct waiter third = {.session = &s, .request = &e, .timeout_ms = 400};

    dlt_request(&s, &e, "job", 'e', 60000);
    dlt_request(&t, &f, "job", 'f', 60000);
    e.req.limit = f.req.limit = limit;
    two_wait(limit, &head, &second);
    cr_assert_eq(dlt_try(&s, &e), DLOCK_BUSY);
    waiter_start(&third);
    cr_assert_eq(waiter_join(&third), DLOCK_TIMEOUT, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    cr_assert_str_eq(dlt_maria_ask(&server, "UPDATE %s SET next_us = %s", table, last_sign), "");
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "no head was there for 7 s: %s", u.err.message);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(dlt_try(&t, &f), DLOCK_OK, "it has not waited: %s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &f), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&s, &e), DLOCK_OK, "no head was there since: %s", s.err.message);
}

#define SEVEN_SECONDS_AGO "7000000 - ABS(next_us)"

LEASED(C13_a_waiter_whose_turn_does_not_come)
{
    want_the_last_resort(1, SEVEN_SECONDS_AGO);
}

LEASED(C21_a_waiter_whose_turn_does_not_come)
{
    want_the_last_resort(2, SEVEN_SECONDS_AGO);
}

LEASED(C13_a_waiter_whose_turn_does_not_come_after_a_step_back)
{
    want_the_last_resort(1, "-3600000000 - ABS(next_us)");
}

/* A request without an answer may have taken the name, before there was a queue. */
LEASED(TRY_5_a_waiter_behind_the_head_that_holds_the_name)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 400};

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_maria_pause(&server, true);
    u.call_ms = 300;
    cr_assert_eq(dlt_try(&u, &c), DLOCK_UNKNOWN, "%s", u.err.message);
    dlt_maria_pause(&server, false);
    u.call_ms = 5000;
    for (int i = 0; i < 500 && strcmp(dlt_maria_ask(&server, HELD_BY_C), "1") != 0; i++)
        dlt_sleep_ms(10);
    cr_assert_str_eq(dlt_maria_ask(&server, HELD_BY_C), "1");
    reopen(&u);
    becomes_head(&head);
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_TIMEOUT, "%s", u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_OK, "%s", u.err.message);
}

static long executed(const char *what)
{
    const char *text = dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE '%s'", what);

    return strtol(text + strcspn(text, " "), NULL, 10);
}

static struct dlt_proxy proxy;
static struct dlt_session far; /* through the proxy */

static void far_begin(void)
{
    cr_assert(dlt_proxy_start(&proxy, server.address, "mysql", NULL), "%s", proxy.answer);
    dlt_session_init(&far, &server);
    dlt_session_option(&far, "strategy", s.options[1][1]);
    dlt_session_option(&far, "table_prefix", "f_");
    (void)snprintf(far.address, sizeof far.address, "%s", proxy.address);
    cr_assert_eq(dlt_session_open(&far), DLOCK_OK, "%s", far.err.message);
    dlt_request(&far, &f, "job", 'f', 60000);
}

static void far_end(void)
{
    dlt_session_close(&far);
    cr_assert(dlt_proxy_stop(&proxy));
}

/* As of a busy machine: it is later than the next poll. */
LEASED(C13_a_head_keeps_its_place_though_each_answer_comes_late)
{
    struct waiter head = {.session = &far, .request = &f, .timeout_ms = 30000};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 30000};
    long pings = 0;

    far_begin();
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    becomes_head(&head);
    cr_assert(dlt_proxy_tell(&proxy, "delay s2c 300"), "%s", proxy.answer);
    pings = executed("Com_do");
    waiter_start(&head);
    waiter_start(&second);
    for (int i = 0; i < 1000 && executed("Com_do") < pings + 3; i++)
        dlt_sleep_ms(10);
    cr_assert_geq(executed("Com_do"), pings + 3, "the head gave its place up");
    await_state("%GET_LOCK%", 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(waiter_join(&head), DLOCK_BUSY, "%s", far.err.message);
    cr_assert_eq(dlt_try(&far, &f), DLOCK_OK, "%s", far.err.message);
    cr_assert_eq(dlt_unlock(&far, &f), DLOCK_OK, "%s", far.err.message);
    cr_assert_eq(waiter_join(&second), DLOCK_BUSY, "%s", u.err.message);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK, "%s", u.err.message);
    far_end();
}

#define IN_LINE                                                  \
    "SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE" \
    " 'SET STATEMENT max_statement_time=%'"

/* The server gives up before the wait ends, and its answer comes after that. An answer that is too
 * late would cost all idle connections. */
LEASED(FAI_1_a_head_in_line_at_the_end_of_a_short_wait)
{
    struct waiter head = {.session = &far, .request = &f, .timeout_ms = 75};
    pthread_t thread;
    char id[32] = "";
    bool stood = false;

    row_hold_table = strcmp(s.options[1][1], "row") == 0 ? "names" : "fences";
    far_begin();
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    becomes_head(&head);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "job"));
    (void)dlt_maria_ask(&server, "SET GLOBAL log_output = 'TABLE', general_log = ON");
    cr_assert(dlt_proxy_tell(&proxy, "delay s2c 25"), "%s", proxy.answer);
    for (int i = 0; i < 30 && !(stood && head.status == DLOCK_TIMEOUT); i++) {
        if (i > 0)
            reopen(&far);
        (void)dlt_maria_ask(&server, "TRUNCATE mysql.general_log");
        waiter_start(&head);
        (void)waiter_join(&head);
        stood = strcmp(dlt_maria_ask(&server, "%s", IN_LINE), "0") != 0;
    }
    cr_assert(stood, "it did not stand in line");
    cr_assert_eq(head.status, DLOCK_TIMEOUT, "%s", far.err.message);
    row_hold_end(thread, id);
    row_hold_table = "names";
    far_end();
}

/* Another transaction has the row of the reservations for longer than the server waits for a sign
 * of life. */
LEASED(C13_a_head_that_cannot_reserve_keeps_its_place)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 300};
    struct waiter second = {.session = &u, .request = &c, .timeout_ms = 400};
    pthread_t thread;
    char id[32] = "";

    row_hold_table = strcmp(s.options[1][1], "row") == 0 ? "names" : "fences";
    two_wait(1, &head, &second);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "job"));
    head.timeout_ms = 4000;
    waits_in_vain(&head);
    waiter_start(&second);
    cr_assert_eq(waiter_join(&second), DLOCK_TIMEOUT, "it is the head now: %s", u.err.message);
    row_hold_end(thread, id);
    row_hold_table = "names";
    head.timeout_ms = 300;
    waits_in_vain(&head);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY, "the head is before it");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
}

/* Three transactions in turn: one has the row at any time, and another is next. */
#define USERS 3

static atomic_int unused;

static void *row_use(void *arg)
{
    const char *table = arg;

    while (atomic_load(&unused) == 0)
        (void)dlt_maria_ask(&server,
                            "BEGIN; SELECT 1 FROM f_%s WHERE name = 'job' FOR UPDATE;"
                            " DO SLEEP(0.05); COMMIT",
                            table);
    return NULL;
}

/* Readers and permits use it so, and would pass a head for as long as it has reserved nothing. */
LEASED(C13_a_head_reserves_a_row_that_others_have_in_turn)
{
    const char *table = strcmp(s.options[1][1], "row") == 0 ? "names" : "fences";
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 1500};
    pthread_t users[USERS];

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    becomes_head(&head);
    for (int i = 0; i < USERS; i++)
        cr_assert_eq(pthread_create(&users[i], NULL, row_use, (void *)table), 0);
    (void)await_sleep();
    waits_in_vain(&head);
    atomic_store(&unused, 1);
    for (int i = 0; i < USERS; i++)
        (void)pthread_join(users[i], NULL);
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT next_token FROM f_%s", table),
                     "bbbbbbbbbbbbbbbb");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "it has kept its place: %s", t.err.message);
}

#define RESERVED_US                                                                         \
    "SELECT MAX(CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(argument, ' + ', -1), ' WHERE', 1) AS" \
    " SIGNED)) FROM mysql.general_log WHERE command_type IN ('Query', 'Execute')"           \
    " AND argument LIKE '%UPDATE%SET next_token = %' AND argument NOT LIKE '%general_log%'"

/* Nobody takes back a reservation after the end of the wait. */
LEASED(C13_a_reservation_ends_with_the_wait)
{
    struct waiter head = {.session = &t, .request = &b, .timeout_ms = 100};
    long us = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    becomes_head(&head);
    (void)dlt_maria_ask(&server, "SET GLOBAL log_output = 'TABLE', general_log = ON");
    waits_in_vain(&head);
    us = strtol(dlt_maria_ask(&server, "%s", RESERVED_US), NULL, 10);
    cr_assert_gt(us, 0);
    cr_assert_leq(us, 100000);
}

/* Nobody was there any more to take it back when the clock stepped back. */
LEASED(C13_a_reservation_of_before_a_step_back)
{
    const char *table = strcmp(s.options[1][1], "row") == 0 ? "f_names" : "f_fences";

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "UPDATE %s SET next_token = 'x', next_us = 3600000000 + "
                                   "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
                                   table),
                     "");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
}

static bool notices_a_dead_peer(int fd)
{
    int idle_s = 0;
    socklen_t size = sizeof idle_s;

    return getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &size) == 0 && idle_s < 60;
}

/* A wait lasts for as long as the server says nothing. */
LEASED(C13_a_waiter_notices_that_the_server_has_vanished)
{
    struct waiter w = {.session = &t, .request = &b, .timeout_ms = 300};
    int before = 0, after = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (int fd = 0; fd < 1024; fd++)
        before += notices_a_dead_peer(fd);
    becomes_head(&w);
    for (int fd = 0; fd < 1024; fd++)
        after += notices_a_dead_peer(fd);
    cr_assert_eq(after, before + 1, "%d sockets notice it", after);
}
