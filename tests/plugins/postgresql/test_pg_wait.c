/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_listener.c plugins/postgresql/row_watch.c */
/* Tests: plugins/postgresql/row_lease.c */
/* Waiting in the store's queue: who is told of a grant, when, and what it costs. */
#include "session.h"
#include "wait_fixture.h"

#include <arpa/inet.h>
#include <unistd.h>

static void setup(void)
{
    cr_assert(dlt_postgres_start(&server, log_settings), "%s", server.why);
    open_at(server.address);
}

static void teardown(void)
{
    close_all();
    dlt_postgres_stop(&server);
}

TestSuite(pg_wait, .init = setup, .fini = teardown, .timeout = 120);

Test(pg_wait, WAT_1_readers_are_granted_together_and_each_is_told)
{
    struct watcher w = {.session = &two, .request = &b, .timeout_ms = 20000};
    struct watcher v = {.session = &also, .request = &c, .timeout_ms = 20000};

    b.req.mode = c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue_up(&two, &b);
    queue(&also, &c);
    watcher_start(&w);
    watcher_start(&v);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(watcher_join(&w), DLOCK_OK, "%s", two.err.message);
    cr_assert_eq(watcher_join(&v), DLOCK_OK, "%s", also.err.message);
    cr_assert_eq(logged(&server, "SELECT pg_notify("), 1, "one message statement for both");
}

/* A socket to which one can connect, and which never answers. */
static int silent_socket(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fd, 8), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* C13: one thread connects to a server that says nothing. The others ask for their names. */
Test(pg_wait, WAT_1_the_others_ask_while_one_connects)
{
    struct watcher w = {.session = &two, .request = &b, .timeout_ms = 60000};
    struct watcher v = {.session = &also, .request = &c, .timeout_ms = 20000};
    int fd = silent_socket(&((struct pg_session *)two.self)->config.address.port);

    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
    queue(&also, &c);
    queue(&two, &b);
    watcher_start(&w);
    dlt_sleep_ms(300);
    watcher_start(&v);
    dlt_sleep_ms(200);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(watcher_join(&v), DLOCK_BUSY, "%s", also.err.message);
    cr_assert_eq(refresh(&also, &c), DLOCK_OK, "%s", also.err.message);
    two.ops->interrupt(two.self, &b.req);
    cr_assert_eq(watcher_join(&w), DLOCK_CANCELED, "%s", two.err.message);
    (void)close(fd);
}

Test(pg_wait, INT_2_a_grant_that_came_before_the_interrupt)
{
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    queue_up(&two, &b);
    queue(&also, &c);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    dlt_sleep_ms(50);
    cr_assert_eq(watch(&also, &c, 50), DLOCK_TIMEOUT, "it reads for the other one, too");
    two.ops->interrupt(two.self, &b.req);
    cr_assert_eq(watch(&two, &b, 5000), DLOCK_OK, "%s", two.err.message);
}

/* The administrator's release sends no message: the one that was sent is lost. */
Test(pg_wait, C13_a_lost_message_costs_time_and_no_lock)
{
    cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
    queue_up(&two, &b);
    (void)dlt_postgres_ask(&server, "SELECT result FROM w_release('job', '%s', false, false, 1000)",
                           "\\x61616161616161616161616161616161");
    cr_assert_eq(watch(&two, &b, 300), DLOCK_TIMEOUT, "%s", two.err.message);
    cr_assert_eq(refresh(&two, &b), DLOCK_OK, "%s", two.err.message);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
}

Test(pg_wait, NOTIFY_is_sent_only_for_a_waiter_of_another_client)
{
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(dlt_try(&one, &a), DLOCK_OK);
        cr_assert_eq(dlt_try(&two, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_renew(&one, &a), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
        cr_assert_eq(try_with(&two, &b, DLOCK_REQ_ENQUEUE), DLOCK_OK);
        cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    }
    cr_assert_eq(logged(&server, "pg_notify"), 0, "nobody waits");
    cr_assert_eq(logged(&server, "LISTEN"), 0, "nobody waits");
    cr_assert_eq(dlt_try(&two, &b), DLOCK_OK);
    queue_up(&also, &c);
    cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    cr_assert_eq(watch(&also, &c, 5000), DLOCK_OK, "%s", also.err.message);
    cr_assert_eq(logged(&server, "pg_notify"), 0, "the waiter is of the same client");
    queue_up(&one, &a);
    cr_assert_eq(dlt_unlock(&also, &c), DLOCK_OK);
    cr_assert_eq(watch(&one, &a, 5000), DLOCK_OK, "%s", one.err.message);
    cr_assert_eq(logged(&server, "pg_notify"), 1);
    cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK);
    cr_assert_eq(logged(&server, "pg_notify"), 1);
}

/* The unlock is answered, and its message is not: the unlock stays OK, and the log says it once. */
Test(pg_wait, UNL_1_a_message_that_cannot_be_sent_fails_no_unlock)
{
    (void)dlt_postgres_ask(&server, "REVOKE EXECUTE ON FUNCTION pg_notify FROM PUBLIC");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(dlt_try(&one, &a), DLOCK_OK, "%s", one.err.message);
        queue(&two, &b);
        cr_assert_eq(dlt_unlock(&one, &a), DLOCK_OK, "%s", one.err.message);
        cr_assert_eq(refresh(&two, &b), DLOCK_OK, "%s", two.err.message);
        cr_assert_eq(dlt_unlock(&two, &b), DLOCK_OK);
    }
    cr_assert_eq(one.host.logs, 1, "%s", one.host.logged);
    cr_assert_not_null(strstr(one.host.logged, "pg_notify"), "%s", one.host.logged);
}
