/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/tls_option.c plugins/mysql/connect.c */
/* tls_tests.c, on MariaDB (M15), and what libmariadb 3.4 would do by itself. */
#include "my_kit.h"
#include "scripted_client.h"
#include "tls_tests.h"
#include "want.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_maria server;

/* What the library says of certificates changes with its versions. */
const struct dlt_tls dlt_tls = {
    .other_host = "", .stranger = "", .unsupported = "the server does not support"};

struct dlt_store_server dlt_tls_server(void)
{
    return dlt_store_maria(&server);
}

bool dlt_tls_server_start_plain(void)
{
    return dlt_maria_start(&server, (const char *[]){"--skip-ssl", NULL});
}

void dlt_tls_session(struct dlt_session *session)
{
    dlt_session_init(session, &server);
}

void dlt_tls_session_certified(struct dlt_session *session)
{
    (void)session;
    (void)dlt_maria_ask(&server, "ALTER USER u REQUIRE X509");
}

bool dlt_tls_session_is_encrypted(void)
{
    static const char none[] = "Ssl_finished_accepts 0";

    return strcmp(dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'"), none) !=
           0;
}

static struct dlt_session session;

/* A server with this certificate, by its name, and a client of another password: a login that gets
 * there is refused with "Access denied". */
static void start(const char *certificate)
{
    cr_assert(dlt_maria_start_tls(&server, certificate, NULL), "%s", server.why);
    (void)dlt_maria_ask(&server, "ALTER USER u IDENTIFIED BY 'another'");
    dlt_session_init(&session, &server);
    dlt_session_option(&session, "tls", "1");
}

static void ca(const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s.pem", server.directory, name);
    dlt_session_option(&session, "ca", path);
}

/* At each address of this machine. No "Access denied": the login stayed here. */
static void refused_everywhere(void)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        (void)snprintf(session.address, sizeof session.address, "%s:%u", hosts[i], server.port);
        cr_assert_eq(dlt_session_open(&session), DLOCK_AUTH, "%s", session.err.message);
        cr_assert(strstr(session.err.message, "Access denied") == NULL, "%s", session.err.message);
        dlt_session_close(&session);
    }
}

Test(mysql_tls, a_server_that_fails_the_check_gets_no_login_at_local_addresses_either)
{
    start("other");
    ca("ca");
    refused_everywhere();
    ca("stranger");
    refused_everywhere();
    dlt_session_option(&session, "verify", "ca");
    refused_everywhere();
    dlt_maria_stop(&server);
}

Test(mysql_tls, a_certificate_that_has_signed_itself_is_AUTH_and_gets_no_login)
{
    start("stranger");
    refused_everywhere(); /* by the authorities of the system */
    ca("ca");
    refused_everywhere();
    dlt_session_option(&session, "verify", "ca");
    refused_everywhere();
    dlt_maria_stop(&server);
}

Test(mysql_tls, a_certificate_that_has_run_out_is_AUTH)
{
    start("old");
    ca("ca");
    refused_everywhere();
    dlt_session_option(&session, "verify", "ca");
    refused_everywhere();
    dlt_maria_stop(&server);
}

Test(mysql_tls, no_variable_of_the_environment_switches_the_check_off)
{
    start("other");
    cr_assert_eq(setenv("MARIADB_TLS_DISABLE_PEER_VERIFICATION", "1", 1), 0);
    ca("ca");
    refused_everywhere();
    dlt_session_option(&session, "verify", "ca");
    ca("stranger");
    refused_everywhere();
    dlt_maria_stop(&server);
}

/* What a server that offers no TLS says first, up to its capabilities, and the rest. */
#define FIRST        \
    "10.11.0\\0"     \
    "\\x07\\0\\0\\0" \
    "12345678\\0"    \
    "\\xfe"
#define REST                                                          \
    "\\xf7\\x2d\\x02\\0\\xff\\x81\\x15\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0" \
    "123456789012\\0mysql_native_password\\0"

/* With this version of the protocol. */
#define GREETING(version) "\"\\x" version FIRST REST "\"\n"

/* For the library, all of these are a greeting of a server without TLS; the last one has a report
 * of progress before it. */
static const char *const plain_scripts[] = {
    "conn\nsend-packet 0 " GREETING("0a") "end\n",
    "conn\nsend \"\\x4b\\0\"\ndelay 50\nsend \"\\0\\0\\x0a" FIRST "\"\ndelay 50\nsend \"" REST
    "\"\nend\n",
    "conn\nsend-packet 0 " GREETING("0b") "end\n",
    "conn\nsend-packet 0 " GREETING("fe") "end\n",
    "conn\nsend "
    "\"\\x0b\\0\\0\\0\\xff\\xff\\xff\\x01\\x01\\x01\\0\\0\\0\\x01x\\x4b\\0\\0\\x01\\x0a" FIRST REST
    "\"\nend\n",
};

Test(mysql_tls, a_server_without_TLS_gets_no_login)
{
    static const char *const checks[] = {"full", "ca", "none"};
    const size_t count = sizeof plain_scripts / sizeof plain_scripts[0];

    for (size_t i = 0; i < 3 * count; i++) {
        struct dlt_scripted plain;

        cr_assert(dlt_scripted_start(&plain, plain_scripts[i % count]), "%s", plain.report);
        server.port = plain.port;
        dlt_session_init(&session, &server);
        (void)snprintf(session.address, sizeof session.address, "%s", plain.address);
        dlt_session_option(&session, "tls", "1");
        dlt_session_option(&session, "ca", "/dev/null");
        dlt_session_option(&session, "verify", checks[i / count]);
        dlt_want(&session, DLOCK_CONFIG, "does not support TLS");
        cr_assert(dlt_scripted_finish(&plain, 5000), "%s", plain.report);
    }
}

Test(mysql_tls, TLS_over_a_socket_is_INVALID)
{
    struct dlt_maria nobody = {.socket = "/nowhere"};

    dlt_session_init(&session, &nobody);
    session.hosts[0] = NULL;
    dlt_session_option(&session, "unix_socket", nobody.socket);
    dlt_session_option(&session, "tls", "1");
    dlt_want(&session, DLOCK_INVALID, "wants a host");
}
