/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/connect.c */
/* A login that lasts longer than the call that began it. */
#include "my_kit.h"
#include "proxy_client.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_maria server;
static struct dlt_proxy proxy;
static struct dlt_session s, t; /* of one client */
static struct dlt_request a;

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static void start(void)
{
    cr_assert(dlt_maria_start(&server, NULL), "%s", server.why);
    cr_assert(dlt_proxy_start(&proxy, server.address, "mysql", NULL), "%s", proxy.answer);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "strategy", "session");
    (void)snprintf(s.address, sizeof s.address, "%s", proxy.address);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void stop(void)
{
    dlt_session_close(&t);
    dlt_session_close(&s);
    (void)dlt_proxy_stop(&proxy);
    dlt_maria_stop(&server);
}

/* Another session, in less time than the server needs for its greeting. */
static void too_short_while(const char *line)
{
    s.call_ms = 100;
    tell(line);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_UNAVAILABLE, "%s", t.err.message);
    dlt_session_close(&t);
    s.call_ms = 5000;
}

static void too_short(void)
{
    too_short_while("hold s2c *");
}

/* How many connections the proxy has passed on. */
static bool accepted(const char *count)
{
    char want[32];

    tell("stats");
    (void)snprintf(want, sizeof want, "accepted=%s ", count);
    return strstr(proxy.answer, want) != NULL;
}

static void lets_in(void)
{
    tell("pass s2c");
    tell("deliver");
}

/* Waits until so many connections of ours, that are like this, are at the server. */
static void await_connections(const char *count, const char *like)
{
    const char *got = "";

    for (int i = 0; i < 500 && strcmp(got, count) != 0; i++) {
        dlt_sleep_ms(10);
        got = dlt_maria_ask(&server,
                            "SELECT COUNT(*) FROM information_schema.processlist"
                            " WHERE user = 'u' AND command LIKE '%s'",
                            like);
    }
    cr_assert_str_eq(got, count);
}

Test(session, C8_the_login_of_a_call_that_was_too_short_is_used_by_the_next)
{
    start();
    too_short();
    tell("await accepted=2 5000");
    lets_in();
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert(accepted("2"), "a second login: %s", proxy.answer);
    dlt_request(&t, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&t, &a), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &a), DLOCK_OK, "%s", t.err.message);
    stop();
}

/* ... by one that comes after the login has ended, too. */
Test(session, C8_a_login_that_has_ended_waits_for_the_next_call)
{
    start();
    too_short();
    lets_in();
    await_connections("2", "Sleep");
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert(accepted("2"), "a second login: %s", proxy.answer);
    stop();
}

/* The call after two silent seconds begins anew. */
Test(session, C8_a_login_that_never_ends_keeps_nobody_out)
{
    start();
    too_short();
    dlt_sleep_ms(2100);
    tell("pass s2c"); /* what is held stays so */
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert(accepted("3"), "%s", proxy.answer);
    stop();
}

/* Nor does it shorten a call that has more time than it has itself. */
Test(session, C8_a_login_that_is_about_to_be_given_up_ends_no_call)
{
    start();
    too_short_while("blackhole both conn=2");
    dlt_sleep_ms(1000);
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert(accepted("3"), "%s", proxy.answer);
    stop();
}

/* A restart of the server, or its limit for connections that say nothing. */
Test(session, C8_a_login_that_the_server_has_ended_meanwhile_is_not_used)
{
    start();
    too_short();
    lets_in();
    await_connections("2", "Sleep");
    tell("kill fin");
    await_connections("0", "%");
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    stop();
}

/* Another password is another login. */
Test(session, SEC_1_a_login_by_the_password_of_before_is_not_used)
{
    start();
    too_short();
    lets_in();
    cr_assert_str_eq(dlt_maria_ask(&server, "ALTER USER u IDENTIFIED BY 'secret2'"), "");
    s.target.password = "secret2";
    cr_assert_eq(dlt_session_join(&t, &s), DLOCK_OK, "%s", t.err.message);
    cr_assert(accepted("3"), "%s", proxy.answer);
    stop();
}

Test(session, a_client_that_closes_ends_its_logins)
{
    start();
    too_short();
    lets_in();
    dlt_session_close(&s);
    await_connections("0", "%");
    stop();
}
