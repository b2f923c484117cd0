/* SPDX-License-Identifier: MIT */
/* Is TLS what the URI says, and is it said what is wrong with it? (OPN-3) */
#include "redis_kit.h"
#include "scripted_client.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request a, b;

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
}

TestSuite(tls, .fini = tear_down, .timeout = 60);

static void refused(enum dlock_status status, const char *text)
{
    cr_assert_eq(dlt_session_open(&s), status, "%d: %s", s.err.status, s.err.message);
    cr_assert(strstr(s.err.message, text) != NULL, "%s", s.err.message);
    cr_assert_eq(s.self, NULL);
}

static void start_tls(const char *certificate, const char *clients, const char *host)
{
    static char where[64], ca[96];

    cr_assert(dlt_redis_start_tls(&server, certificate, clients), "%s", server.why);
    (void)snprintf(where, sizeof where, "%s:%u", host, server.tls_port);
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", server.directory);
    dlt_session_init(&s, "rediss", where);
    dlt_session_option(&s, "ca", ca);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
}

/* The directory of the server's files in place of %s. */
static void text_fill(char *text, size_t size, const char *format)
{
    const char *at = strstr(format, "%s");

    (void)snprintf(text, size, "%.*s%s%s", (int)(at - format), format, server.directory, at + 2);
}

/* What is wrong with which file of which option: in these words, and no more than the path. */
Test(tls, files_that_are_no_good)
{
    static const struct {
        const char *ca, *cert, *key, *text; /* files of the directory; the text follows it */
    } bad[] = {
        {"none.pem", NULL, NULL, "ca=%s/none.pem: No such file or directory"},
        {"", NULL, NULL, "ca=%s/: Is a directory"},
        {"server.key", NULL, NULL, "ca=%s/server.key: no certificate in it"},
        {"ca.pem", "none.pem", "client.key", "cert=%s/none.pem: No such file or directory"},
        {"ca.pem", "client.key", "client.key", "cert=%s/client.key: no certificate in it"},
        {"ca.pem", "client.pem", "none.key", "key_file=%s/none.key: No such file or directory"},
        {"ca.pem", "client.pem", "client.pem", "key_file=%s/client.pem: no private key in it"},
        {"ca.pem", "client.pem", "server.key", "key_file=%s/server.key: not the key of cert="},
        {"ca.pem", "client.pem", "locked.key", "key_file=%s/locked.key: it has a passphrase"},
    };
    static const char *const options[] = {"ca", "cert", "key_file"};

    start_tls("server", "no", "127.0.0.1");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const files[] = {bad[i].ca, bad[i].cert, bad[i].key};
        char path[96], text[160];

        for (size_t k = 0; k < sizeof files / sizeof files[0] && files[k] != NULL; k++) {
            (void)snprintf(path, sizeof path, "%s/%s", server.directory, files[k]);
            dlt_session_option(&s, options[k], path);
        }
        text_fill(text, sizeof text, bad[i].text);
        refused(DLOCK_INVALID, text);
    }
}

/* The end of a long path is shown, and why. */
Test(tls, a_file_with_a_long_path)
{
    char path[128] = "/";

    memset(path + 1, 'x', 120);
    dlt_session_init(&s, "rediss", "127.0.0.1:1");
    dlt_session_option(&s, "ca", path);
    refused(DLOCK_INVALID, "xxxx: No such file or directory");
}

Test(tls, works_by_name_and_by_number_and_carries_grants)
{
    struct dlt_session other;

    start_tls("server", "no", "127.0.0.1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_session_join(&other, &s);
    cr_assert_eq(dlt_queue_up(&other, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_watch(&other, &b, 2000), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&other, &b), DLOCK_OK);
    dlt_session_close(&other);
    dlt_session_close(&s);
    (void)snprintf(s.address, sizeof s.address, "localhost:%u", server.tls_port);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

Test(tls, a_certificate_for_another_name)
{
    start_tls("other", "no", "127.0.0.1");
    refused(DLOCK_AUTH, "IP address mismatch");
    (void)snprintf(s.address, sizeof s.address, "localhost:%u", server.tls_port);
    refused(DLOCK_AUTH, "hostname mismatch");
    dlt_session_option(&s, "sni", "other.example");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    dlt_session_option(&s, "sni", "server.example");
    dlt_session_option(&s, "verify", "ca");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

Test(tls, a_certificate_that_has_run_out)
{
    start_tls("old", "no", "127.0.0.1");
    refused(DLOCK_AUTH, "expired");
}

Test(tls, a_certificate_of_an_authority_that_is_not_trusted)
{
    char path[96];

    start_tls("server", "no", "127.0.0.1");
    (void)snprintf(path, sizeof path, "%s/other.pem", server.directory);
    dlt_session_option(&s, "ca", path);
    refused(DLOCK_AUTH, "certificate");
    dlt_session_option(&s, "verify", "none");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
}

Test(tls, a_server_that_wants_a_certificate_of_ours)
{
    char cert[96], key[96];

    start_tls("server", "yes", "127.0.0.1");
    cr_assert_neq(dlt_session_open(&s), DLOCK_OK);
    cr_assert(strstr(s.err.message, "certificate") != NULL, "%s", s.err.message);
    (void)snprintf(cert, sizeof cert, "%s/client.pem", server.directory);
    (void)snprintf(key, sizeof key, "%s/client.key", server.directory);
    dlt_session_option(&s, "cert", cert);
    dlt_session_option(&s, "key_file", key);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

/* It hangs up without a word, as a proxy does whose server is down; for that one a client waits. */
Test(tls, a_server_that_wants_it_and_a_URI_without)
{
    struct dlt_scripted silent;
    char where[64];

    start_tls("server", "no", "127.0.0.1");
    (void)snprintf(where, sizeof where, "127.0.0.1:%u", server.tls_port);
    dlt_session_init(&s, "redis", where);
    refused(DLOCK_PROTOCOL, "rediss://");
    cr_assert(dlt_scripted_start(&silent, "conn\nany\nclose\nconn\nany\nclose\n"), "%s",
              silent.report);
    (void)snprintf(s.address, sizeof s.address, "%s", silent.address);
    refused(DLOCK_UNAVAILABLE, "closed the connection");
    (void)dlt_scripted_finish(&silent, 0);
}

/* Redis waits for the end of a line that never comes; others answer, in plain text. */
Test(tls, a_plaintext_server_behind_rediss)
{
    static const char *const plain[] = {"--requirepass", "secret", NULL};
    struct dlt_scripted other;

    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    dlt_session_init(&s, "rediss", server.address);
    dlt_session_option(&s, "verify", "none");
    s.call_ms = 20000;
    refused(DLOCK_PROTOCOL, "redis://");
    dlt_redis_stop(&server);
    cr_assert(dlt_redis_start(&server, plain), "%s", server.why);
    (void)snprintf(s.address, sizeof s.address, "%s", server.address);
    refused(DLOCK_PROTOCOL, "redis://");
    cr_assert(dlt_scripted_start(&other, "conn\nany\nsend \"-ERR unknown command\\r\\n\"\nend\n"),
              "%s", other.report);
    (void)snprintf(s.address, sizeof s.address, "%s", other.address);
    refused(DLOCK_PROTOCOL, "does not speak TLS");
    (void)dlt_scripted_finish(&other, 0);
}

/* A server with TLS that is slow may tell a plain client so in plain text. It is asked without a
 * secret, and waited for. */
Test(tls, a_silent_server_behind_rediss)
{
    static const char *const scripts[] = {
        "conn\nany\nend\nconn\nexpect \"PING\\r\\n\"\nsend \"-ERR Bad TLS header\\r\\n\"\nend\n",
        "conn\nany\nend\nconn\nexpect \"PING\\r\\n\"\nend\n",
    };
    struct dlt_scripted silent;

    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        cr_assert(dlt_scripted_start(&silent, scripts[i]), "%s", silent.report);
        dlt_session_init(&s, "rediss", silent.address);
        s.target.password = "secret";
        s.call_ms = 3000;
        refused(DLOCK_UNAVAILABLE, "does the server speak TLS?");
        cr_assert(dlt_scripted_finish(&silent, 5000), "%s", silent.report);
    }
}

static void *resume_later(void *arg)
{
    dlt_sleep_ms(1500);
    dlt_redis_pause(arg, false);
    return NULL;
}

/* It is asked after a second, and the handshake goes on. */
Test(tls, a_slow_server)
{
    pthread_t thread;

    start_tls("server", "no", "127.0.0.1");
    s.call_ms = 20000;
    dlt_redis_pause(&server, true);
    cr_assert_eq(pthread_create(&thread, NULL, resume_later, &server), 0);
    cr_expect_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
}

Test(tls, a_stopped_server_keeps_nobody)
{
    int64_t begin = 0;

    start_tls("server", "no", "127.0.0.1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    dlt_redis_pause(&server, true);
    s.call_ms = 300;
    begin = dlt_host_now(&s.host);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNKNOWN);
    dlt_session_close(&s);
    cr_assert_eq(dlt_session_open(&s), DLOCK_UNAVAILABLE);
    cr_assert(dlt_host_within(&s.host, begin, 5000), "%s", dlt_within_text());
}

Test(tls, FAI_2_a_connection_that_ended_before_is_replaced)
{
    start_tls("server", "no", "127.0.0.1");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "CLIENT KILL TYPE normal SKIPME yes");
    dlt_sleep_ms(20);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}
