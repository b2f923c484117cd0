/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/connect.c plugins/net/tls.c */
/* TLS is what the URI says: never less than that, and only with the member that it names. */
#include "endpoint_fixture.h"

#include <signal.h>
#include <stdlib.h>

static struct dlt_etcd server;

static void tear_down(void)
{
    e_close();
    dlt_etcd_stop(&server);
}

TestSuite(tls, .fini = tear_down, .timeout = 60);

static const char *file(const char *name)
{
    static char path[160];

    (void)snprintf(path, sizeof path, "%s/%s", server.directory, name);
    return path;
}

static void target(const char *host)
{
    char address[64];

    (void)snprintf(address, sizeof address, "%s:%u", host, server.members[0].port);
    e_target("etcds", address, NULL, NULL);
    dlt_session_option(&e.s, "ca", file("ca.pem"));
}

/* A member that shows this certificate. */
static void start(const char *certificate, bool certified)
{
    cr_assert(dlt_etcd_start_tls(&server, certificate, certified, NULL), "%s", server.why);
    target("localhost");
}

Test(tls, a_member_that_proves_itself)
{
    start("server", false);
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    target("127.0.0.1");
    e_want_open(DLOCK_OK, "");
}

Test(tls, verify_says_how_much_is_checked)
{
    start("other", false);
    e_want_open(DLOCK_AUTH, "certificate is refused");
    dlt_session_option(&e.s, "verify", "ca");
    e_want_open(DLOCK_OK, "");
    dlt_session_option(&e.s, "ca", file("stranger.pem"));
    e_want_open(DLOCK_AUTH, "certificate is refused");
    dlt_session_option(&e.s, "verify", "none");
    e_want_open(DLOCK_OK, "");
}

Test(tls, sni_is_the_name_that_the_certificate_has_to_be_for)
{
    start("other", false);
    dlt_session_option(&e.s, "sni", "other.example");
    e_want_open(DLOCK_OK, "");
    dlt_session_option(&e.s, "sni", "another.example");
    e_want_open(DLOCK_AUTH, "another.example");
}

Test(tls, OPN_3_a_plain_connection_to_a_member_with_TLS)
{
    start("server", false);
    e.s.target.scheme = "etcd";
    e.s.options[0][0][0] = '\0';
    e_want_open(DLOCK_PROTOCOL, "the server speaks TLS: write etcds://");
}

static void show(const char *certificate, const char *key)
{
    char path[160];

    (void)snprintf(path, sizeof path, "%s/%s", server.directory, certificate);
    dlt_session_option(&e.s, "cert", path);
    dlt_session_option(&e.s, "key_file", file(key));
}

/* With TLS 1.3 the handshake ends well, and the member refuses us at the first call. */
Test(tls, OPN_3_AUTH_for_a_certificate_of_ours_that_is_missing_or_wrong)
{
    start("server", true);
    for (int i = 0; i < 10; i++)
        e_want_open(DLOCK_AUTH, "the server wants a certificate, cert=");
    show("client.pem", "client.key");
    e_want_open(DLOCK_OK, "");
    for (int i = 0; i < 10; i++) {
        show("stranger.pem", "stranger.key");
        e_want_open(DLOCK_AUTH, "the server refused our certificate");
        show("old.pem", "old.key");
        e_want_open(DLOCK_AUTH, "the server refused our certificate");
    }
}

Test(tls, the_certificate_names_the_user_and_a_login_counts_more)
{
    start("server", true);
    cr_assert(dlt_etcd_auth(&server, "locks/"), "%s", server.why);
    show("client.pem", "client.key");
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(e_put("other/a"), DLOCK_AUTH, "%s", e.s.err.message);
    e.s.target.user = "root";
    e.s.target.password = "root";
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(e_put("other/a"), DLOCK_OK, "%s", e.s.err.message);
}

Test(tls, OPN_3_files_that_are_no_use_are_INVALID)
{
    start("server", false);
    dlt_session_option(&e.s, "ca", "/dev/null");
    e_want_open(DLOCK_INVALID, "ca=/dev/null");
    dlt_session_option(&e.s, "ca", file("ca.pem"));
    show("client.pem", "server.key");
    e_want_open(DLOCK_INVALID, "key_file=");
}

/* The disposition is the default one: a signal would end the test. */
Test(tls, C10_a_dead_peer_sends_no_SIGPIPE_to_anybody)
{
    start("server", false);
    (void)signal(SIGPIPE, SIG_DFL);
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    dlt_etcd_kill(&server, 0);
    for (int i = 0; i < 3; i++)
        cr_assert_neq(e_put("locks/a"), DLOCK_OK);
    cr_assert(dlt_etcd_again(&server, 0), "%s", server.why);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
}
