/* SPDX-License-Identifier: MIT */
/* M15: TLS is what the URI says: never less than that, and only with the host that it names. */
#include "my_kit.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static char directory[DLT_DIRECTORY_SIZE], certificate[96], key[96], authority[96];
static struct dlt_maria server;
static struct dlt_session s;
static struct dlt_request a;

static const char *file(const char *name)
{
    static char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* A server that shows this certificate. */
static void start(const char *name)
{
    cr_assert(dlt_directory_make(directory, "tls") && dlt_certificates_make(directory));
    (void)snprintf(certificate, sizeof certificate, "--ssl-cert=%s/%s.pem", directory, name);
    (void)snprintf(key, sizeof key, "--ssl-key=%s/%s.key", directory, name);
    (void)snprintf(authority, sizeof authority, "--ssl-ca=%s/ca.pem", directory);
    cr_assert(dlt_maria_start(&server, (const char *[]){certificate, key, authority, NULL}), "%s",
              server.why);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "tls_ca", file("ca.pem"));
}

static void stop(void)
{
    dlt_session_close(&s);
    dlt_maria_stop(&server);
    dlt_directory_remove(directory);
}

static void at(const char *host)
{
    (void)snprintf(s.address, sizeof s.address, "%s:%u", host, server.port);
}

Test(tls, a_server_that_proves_itself)
{
    start("server");
    at("localhost");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_neq(dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'"),
                      "Ssl_finished_accepts 0");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_session_close(&s);
    at("127.0.0.1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    stop();
}

Test(tls, a_certificate_for_another_host_is_AUTH)
{
    start("other");
    at("localhost");
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
    stop();
}

Test(tls, a_certificate_of_a_stranger_is_AUTH)
{
    start("server");
    at("localhost");
    dlt_session_option(&s, "tls_ca", file("stranger.pem"));
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
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
    cr_assert(dlt_maria_start(&server, (const char *[]){"--skip-ssl", NULL}), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    dlt_maria_stop(&server);
}

Test(tls, a_user_that_must_show_a_certificate)
{
    start("server");
    at("localhost");
    cr_assert_str_eq(dlt_maria_ask(&server, "ALTER USER u REQUIRE X509"), "");
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
    dlt_session_option(&s, "tls_cert", file("client.pem"));
    dlt_session_option(&s, "tls_key", file("client.key"));
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    stop();
}

/* OpenSSL writes with write(2). The disposition is the default one: a signal would end the test. */
Test(tls, C10_a_dead_peer_sends_no_SIGPIPE_to_anybody)
{
    start("server");
    at("localhost");
    (void)signal(SIGPIPE, SIG_DFL);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_maria_kill(&server);
    for (int i = 0; i < 3; i++)
        cr_assert_neq(dlt_try(&s, &a), DLOCK_OK);
    dlt_session_close(&s);
    stop();
}
