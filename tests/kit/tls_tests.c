/* SPDX-License-Identifier: MIT */
/* TLS is what the URI says: never less than that, and only with the host that it names. */
#include "tls_tests.h"
#include "proxy_client.h"
#include "want.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_store_server server;
static struct dlt_session s;
static struct dlt_request a;

static const char *file(const char *name)
{
    static char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", server.directory, name);
    return path;
}

static void at(const char *host)
{
    (void)snprintf(s.address, sizeof s.address, "%s%s", host, strrchr(server.address, ':'));
}

/* A server that shows this certificate, by its name. */
static void start(const char *certificate)
{
    server = dlt_tls_server();
    cr_assert(server.start_tls(server.self, certificate), "%s", server.why);
    dlt_tls_session(&s);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "ca", file("ca.pem"));
    at("localhost");
}

static void stop(void)
{
    dlt_session_close(&s);
    server.stop(server.self);
}

Test(tls, a_server_that_proves_itself)
{
    start("server");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert(dlt_tls_session_is_encrypted());
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_session_close(&s);
    at("127.0.0.1");
    dlt_want(&s, DLOCK_OK, "");
    stop();
}

/* The directory of the open, "/" here, whatever the working directory is by now. */
Test(tls, a_relative_path_counts_from_the_directory_of_the_open)
{
    char ca[96], cert[96], key[96];

    start("server");
    dlt_tls_session_certified(&s);
    (void)snprintf(ca, sizeof ca, "%s", file("ca.pem") + 1);
    (void)snprintf(cert, sizeof cert, "%s", file("client.pem") + 1);
    (void)snprintf(key, sizeof key, "%s", file("client.key") + 1);
    dlt_session_option(&s, "ca", ca);
    dlt_session_option(&s, "cert", cert);
    dlt_session_option(&s, "key_file", key);
    dlt_want(&s, DLOCK_OK, "");
    dlt_session_option(&s, "ca", "none.pem");
    dlt_want(&s, DLOCK_INVALID, "/none.pem: No such file");
    stop();
}

Test(tls, a_certificate_for_another_host_is_AUTH)
{
    start("other");
    dlt_want(&s, DLOCK_AUTH, dlt_tls.other_host);
    stop();
}

Test(tls, a_certificate_of_a_stranger_is_AUTH)
{
    start("server");
    dlt_session_option(&s, "ca", file("stranger.pem"));
    dlt_want(&s, DLOCK_AUTH, dlt_tls.stranger);
    stop();
}

/* ca is a valid certificate for any host, none is any at all. */
Test(tls, verify_says_how_much_is_checked)
{
    start("other");
    dlt_session_option(&s, "verify", "full");
    dlt_want(&s, DLOCK_AUTH, dlt_tls.other_host);
    dlt_session_option(&s, "verify", "ca");
    dlt_want(&s, DLOCK_OK, "");
    dlt_session_option(&s, "ca", file("stranger.pem"));
    dlt_want(&s, DLOCK_AUTH, dlt_tls.stranger);
    dlt_session_option(&s, "verify", "none");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert(dlt_tls_session_is_encrypted(), "it is not in the clear");
    stop();
}

Test(tls, an_authority_that_the_system_does_not_know_is_AUTH)
{
    start("server");
    dlt_tls_session(&s);
    dlt_session_option(&s, "tls", "1");
    at("localhost");
    dlt_want(&s, DLOCK_AUTH, dlt_tls.stranger);
    stop();
}

Test(tls, no_TLS_at_the_server_is_CONFIG_and_nothing_is_sent_in_the_clear)
{
    static const char *const checks[] = {"full", "ca", "none"};
    char directory[DLT_DIRECTORY_SIZE], ca[96];

    cr_assert(dlt_directory_make(directory, "tls") && dlt_certificates_make(directory));
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", directory);
    server = dlt_tls_server();
    cr_assert(dlt_tls_server_start_plain(), "%s", server.why);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        dlt_tls_session(&s);
        dlt_session_option(&s, "tls", "1");
        dlt_session_option(&s, "ca", ca);
        dlt_session_option(&s, "verify", checks[i]);
        dlt_want(&s, DLOCK_CONFIG, dlt_tls.unsupported);
    }
    stop();
    dlt_directory_remove(directory);
}

Test(tls, a_user_that_must_show_a_certificate)
{
    start("server");
    dlt_tls_session_certified(&s);
    dlt_want(&s, DLOCK_AUTH, "");
    dlt_session_option(&s, "cert", file("client.pem"));
    dlt_session_option(&s, "key_file", file("client.key"));
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert(dlt_tls_session_is_encrypted());
    stop();
}

/* OpenSSL writes with write(2). The disposition is the default one: a signal would end the test. */
Test(tls, C10_a_dead_peer_sends_no_SIGPIPE_to_anybody)
{
    start("server");
    (void)signal(SIGPIPE, SIG_DFL);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_request(&s, &a, "job", 'a', 60000);
    server.kill(server.self);
    for (int i = 0; i < 3; i++)
        cr_assert_neq(dlt_try(&s, &a), DLOCK_OK);
    stop();
}

/* ---- C8 on a network that stalls: inside of the handshake, of a record, or of each ---- */

#define SHORT_MS  200
#define CALM_MS   10000
#define SLACK_MS  3000 /* of a busy machine; a hang lasts longer */
#define OPEN_MOST 8000 /* bytes; no server of the tests sends more while a session opens */

static struct dlt_proxy proxy;

static void start_proxy(const char *host)
{
    start("server");
    cr_assert(dlt_proxy_start(&proxy, server.address, "raw", NULL), "%s", proxy.answer);
    (void)snprintf(s.address, sizeof s.address, "%s:%u", host, proxy.port);
    dlt_want(&s, DLOCK_OK, "");
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
    cr_assert(dlt_host_within(&s.host, begin_ns, s.call_ms + SLACK_MS), "%s: %s", fault,
              dlt_within_text());
}

/* False: opened. */
static bool open_stalls(const char *fault, int64_t call_ms)
{
    int64_t begin_ns = dlt_host_now(&s.host);
    enum dlock_status status = DLOCK_INTERNAL;

    tell(fault);
    s.call_ms = call_ms;
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
    for (unsigned byte = 3; !opened; byte += 397) {
        cr_assert_lt(byte, 20000);
        (void)snprintf(fault, sizeof fault, "cut s2c %u hang", byte);
        opened = !open_stalls(fault, byte < OPEN_MOST ? SHORT_MS : CALM_MS);
        cr_assert(!opened || byte > 1000, "a certificate is longer than that");
    }
    cr_assert(open_stalls("slice s2c 1 40", SHORT_MS));
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

        s.call_ms = CALM_MS;
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
