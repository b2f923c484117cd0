/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/tls_option.c plugins/mysql/connect_thread.c plugins/mysql/connect.c */
/* M15: TLS is what the URI says: never less than that, and only with the host that it names. */
#include "my_kit.h"
#include "proxy_client.h"

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
    dlt_session_option(&s, "ca", file("ca.pem"));
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
    dlt_session_option(&s, "ca", file("stranger.pem"));
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
    stop();
}

/* As in redis: ca is a valid certificate for whatever host, none is any at all. */
Test(tls, verify_says_how_much_is_checked)
{
    start("other");
    at("localhost");
    dlt_session_option(&s, "verify", "full");
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
    dlt_session_option(&s, "verify", "ca");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    dlt_session_option(&s, "ca", file("stranger.pem"));
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH, "%s", s.err.message);
    dlt_session_option(&s, "verify", "none");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_neq(dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'"),
                      "Ssl_finished_accepts 0", "it is not in the clear");
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
    dlt_session_option(&s, "cert", file("client.pem"));
    dlt_session_option(&s, "key_file", file("client.key"));
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

/* ---- C8 on a link that stalls: inside of the handshake, of a record, or of each ---- */

#define SHORT_MS 200
#define SLACK_MS 3000 /* of a busy machine; a hang lasts longer */

static struct dlt_proxy proxy;

static void start_proxy(const char *host)
{
    start("server");
    cr_assert(dlt_proxy_start(&proxy, server.address, "raw", NULL), "%s", proxy.answer);
    (void)snprintf(s.address, sizeof s.address, "%s:%u", host, proxy.port);
}

static void stop_proxy(void)
{
    (void)dlt_proxy_stop(&proxy);
    stop();
}

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

static void opens_stall(const char *host)
{
    char fault[48];
    bool opened = false;

    start_proxy(host);
    for (unsigned at = 3; !opened; at += 397) {
        cr_assert_lt(at, 20000);
        (void)snprintf(fault, sizeof fault, "cut s2c %u hang", at);
        opened = !open_stalls(fault);
        cr_assert(!opened || at > 1000, "a certificate is longer than that");
    }
    cr_assert(open_stalls("slice s2c 1 40"));
    stop_proxy();
}

Test(tls, C8_a_connection_to_an_address_that_stalls, .timeout = 60)
{
    opens_stall("127.0.0.1");
}

Test(tls, C8_a_connection_to_a_name_that_stalls, .timeout = 60)
{
    opens_stall("localhost");
}

Test(tls, C8_an_answer_that_stalls, .timeout = 60)
{
    static const char *const faults[] = {"cut s2c 0 hang", "cut s2c 3 hang", "cut s2c 20 hang",
                                         "cut c2s 7 hang", "slice s2c 1 40"};

    start_proxy("127.0.0.1");
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        enum dlock_status status = DLOCK_INTERNAL;
        int64_t begin_ns = 0;

        s.call_ms = 10000;
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
        dlt_request(&s, &a, "job", (unsigned char)('a' + i), 1);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        tell(faults[i]);
        s.call_ms = SHORT_MS;
        begin_ns = dlt_host_now(&s.host);
        status = dlt_unlock(&s, &a);
        cr_assert(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE, "%s: %s", faults[i],
                  s.err.message);
        in_time(begin_ns, faults[i]);
        dlt_session_close(&s);
        in_time(begin_ns, faults[i]);
        tell("pass");
    }
    stop_proxy();
}
