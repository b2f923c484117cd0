/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/connect.c plugins/postgresql/errmap.c */
/* TLS is what the URI says: never less than that, and only with the host that it names. */
#include "pg_kit.h"
#include "proxy_client.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct dlt_postgres server;
static struct dlt_session s;
static struct dlock_session_info info = {.struct_size = sizeof info};

static const char *file(const char *name)
{
    static char path[160];

    (void)snprintf(path, sizeof path, "%s/%s", server.directory, name);
    return path;
}

/* A server that shows this certificate. */
static void start(const char *name)
{
    cr_assert(dlt_postgres_start_tls(&server, name, NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "ca", file("ca.pem"));
}

static void stop(void)
{
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
}

static void at(const char *host)
{
    (void)snprintf(s.address, sizeof s.address, "%s:%u", host, server.port);
}

static void want(enum dlock_status status, const char *text)
{
    cr_assert_eq(dlt_session_open(&s), status, "%s (%d): %s", text, (int)s.err.status,
                 s.err.message);
    if (status != DLOCK_OK)
        cr_assert(strstr(s.err.message, text) != NULL, "\"%s\" has no \"%s\"", s.err.message, text);
    dlt_session_close(&s);
}

static const char *encrypted(void)
{
    return dlt_postgres_ask(&server, "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity "
                                     "USING (pid) WHERE ssl AND usename IN ('u', 'certified')");
}

Test(tls, a_server_that_proves_itself)
{
    start("server");
    at("localhost");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(encrypted(), "1");
    dlt_session_close(&s);
    at("127.0.0.1");
    want(DLOCK_OK, "");
    stop();
}

/* As in redis: ca is a valid certificate for any host, none is any at all. */
Test(tls, verify_says_how_much_is_checked)
{
    start("other");
    at("localhost");
    want(DLOCK_AUTH, "does not match host name");
    dlt_session_option(&s, "verify", "full");
    want(DLOCK_AUTH, "does not match host name");
    dlt_session_option(&s, "verify", "ca");
    want(DLOCK_OK, "");
    dlt_session_option(&s, "ca", file("stranger.pem"));
    want(DLOCK_AUTH, "certificate verify failed");
    dlt_session_option(&s, "verify", "none");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(encrypted(), "1", "it is not in the clear");
    stop();
}

Test(tls, an_authority_that_the_system_does_not_know_is_AUTH)
{
    start("server");
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    at("localhost");
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
    stop();
}

Test(tls, no_TLS_at_the_server_is_CONFIG_and_nothing_is_sent_in_the_clear)
{
    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "verify", "none");
    want(DLOCK_CONFIG, "does not support SSL");
    stop();
}

Test(tls, a_role_that_must_show_a_certificate)
{
    start("server");
    at("localhost");
    s.target.user = "certified";
    s.target.password = NULL;
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
    dlt_session_option(&s, "cert", file("client.pem"));
    dlt_session_option(&s, "key_file", file("client.key"));
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(encrypted(), "1");
    stop();
}

Test(tls, OPN_3_files_that_are_no_use_are_INVALID)
{
    start("server");
    at("localhost");
    dlt_session_option(&s, "ca", file("postgresql.conf"));
    dlt_session_option(&s, "ca", "/dev/null");
    want(DLOCK_INVALID, "root certificate file");
    dlt_session_option(&s, "ca", file("ca.pem"));
    dlt_session_option(&s, "cert", file("client.pem"));
    dlt_session_option(&s, "key_file", file("server.key")); /* another one's */
    want(DLOCK_INVALID, "private key file");
    dlt_session_option(&s, "key_file", file("locked.key")); /* nobody is asked for a passphrase */
    (void)chmod(file("locked.key"), 0600);
    want(DLOCK_INVALID, "private key file");
    (void)chmod(file("client.key"), 0644);
    dlt_session_option(&s, "key_file", file("client.key"));
    want(DLOCK_INVALID, "group or world access");
    stop();
}

/* OpenSSL writes with write(2). The disposition is the default one: a signal would end the test. */
Test(tls, C10_a_dead_peer_sends_no_SIGPIPE_to_anybody)
{
    start("server");
    at("localhost");
    (void)signal(SIGPIPE, SIG_DFL);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_postgres_kill(&server);
    for (int i = 0; i < 3; i++)
        cr_assert_neq(s.ops->probe(s.self, dlt_host_in(&s.host, 2000), &info, NULL, NULL, &s.err),
                      DLOCK_OK);
    stop();
}

/* ---- C8 on a network that stalls: inside of the handshake, of a record, or of each ---- */

#define SHORT_MS 200
#define SLACK_MS 3000 /* of a busy machine; a hang lasts longer */

static struct dlt_proxy proxy;

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

static void in_time(int64_t begin_ns, const char *fault)
{
    cr_assert_lt((dlt_host_now(&s.host) - begin_ns) / DLT_NS_PER_MS, SHORT_MS + SLACK_MS, "%s",
                 fault);
}

/* False: opened. */
static bool open_stalls(const char *fault)
{
    int64_t begin_ns = dlt_host_now(&s.host);
    enum dlock_status status = DLOCK_INTERNAL;

    tell(fault);
    s.call_ms = SHORT_MS;
    status = dlt_session_open(&s);
    in_time(begin_ns, fault);
    cr_assert(status == DLOCK_OK || status == DLOCK_UNAVAILABLE, "%s: %s", fault, s.err.message);
    dlt_session_close(&s);
    in_time(begin_ns, fault);
    tell("pass");
    return status != DLOCK_OK;
}

Test(tls, C8_a_connection_that_stalls_at_each_place, .timeout = 60)
{
    char fault[48];
    bool opened = false;

    start("server");
    cr_assert(dlt_proxy_start(&proxy, server.address, "raw", NULL), "%s", proxy.answer);
    (void)snprintf(s.address, sizeof s.address, "localhost:%u", proxy.port);
    s.call_ms = 5000;
    want(DLOCK_OK, "");
    for (unsigned byte = 0; !opened; byte += 397) {
        cr_assert_lt(byte, 20000);
        (void)snprintf(fault, sizeof fault, "cut s2c %u hang", byte);
        opened = !open_stalls(fault);
        cr_assert(!opened || byte > 1000, "a certificate is longer than that");
    }
    cr_assert(open_stalls("slice s2c 1 40"));
    (void)dlt_proxy_stop(&proxy);
    stop();
}
