/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/config.c plugins/postgresql/connection.c */
/* Tests: plugins/postgresql/plugin.c plugins/postgresql/open.c plugins/postgresql/connect.c */
/* Tests: plugins/postgresql/query.c plugins/postgresql/probe.c */
/* URIs that are refused before a server is asked, a port where no server is, and the meaning of the
 * server's errors. */
#include "connection.h"
#include "session_kit.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const struct dlock_plugin *dlock_plugin_postgresql(void);

static struct dlt_session s;

/* A port of this machine with no server. */
static void port_without_server(char *out, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert(fd >= 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    (void)snprintf(out, size, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
}

static void set_up(void)
{
    char address[32];

    port_without_server(address, sizeof address);
    dlt_session_target(&s, dlock_plugin_postgresql(), "postgresql", address);
    s.call_ms = 5000;
    s.target.user = "u";
    s.target.password = "secret";
    s.target.path = "/locks";
    cr_assert_eq(dlock_plugin_postgresql()->init(&s.host.table, &s.err), DLOCK_OK);
}

TestSuite(config, .init = set_up);

static void want(enum dlock_status status, const char *text)
{
    cr_assert_eq(dlt_session_open(&s), status, "want \"%s\", got %d: %s", text, (int)s.err.status,
                 s.err.message);
    cr_assert(strstr(s.err.message, text) != NULL, "\"%s\" has no \"%s\"", s.err.message, text);
    cr_assert(strstr(s.err.message, "secret") == NULL, "C17");
    dlt_session_close(&s);
}

Test(config, OPN3_no_server_is_unavailable)
{
    want(DLOCK_UNAVAILABLE, "onnection refused");
    s.target.hosts = NULL;
    dlt_session_option(&s, "unix_socket", "/nonexistent/.s.PGSQL.5433");
    want(DLOCK_UNAVAILABLE, "/nonexistent/.s.PGSQL.5433");
}

Test(config, OPN3_hosts)
{
    static const char *const bad[] = {"a,b", "/tmp", "h:0", "h:65536", "h:x", "@x", "[::1", ""};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s.hosts[0] = bad[i];
        want(DLOCK_INVALID, "want a host");
    }
    s.hosts[0] = s.address;
    s.hosts[1] = "other:5432";
    want(DLOCK_INVALID, "one host only");
    s.hosts[0] = NULL;
    want(DLOCK_INVALID, "want a host, or unix_socket=");
}

Test(config, OPN3_user_and_database)
{
    static const char name_of_64_bytes[] =
        "/0123456789012345678901234567890123456789012345678901234567890123";
    static const char *const bad[] = {"", "/", "/a/b", "/host=evil", name_of_64_bytes};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        s.target.path = bad[i];
        want(DLOCK_INVALID, "name of a database");
    }
    s.target.path = "/locks";
    s.target.user = NULL;
    want(DLOCK_INVALID, "want a user");
}

static void want_option(const char *name, const char *value, const char *text)
{
    dlt_session_option(&s, name, value);
    want(DLOCK_INVALID, text);
}

Test(config, OPN3_socket)
{
    dlt_session_option(&s, "unix_socket", "/tmp");
    want(DLOCK_INVALID, "instead of a host");
    s.target.hosts = NULL;
    want_option("unix_socket", "tmp", "absolute path");
    want_option("unix_socket", "/tmp/a,b", "comma");
    want_option("unix_socket", "/tmp/.s.PGSQL.0", "PORT");
    want_option("unix_socket", "/tmp/.s.PGSQL.5432x", "PORT");
    want_option("unix_socket", "/tmp/.s.PGSQL.", "PORT");
    want_option("unix_socket", "/tmp/.s.PGSQL.99999", "PORT");
    dlt_session_option(&s, "unix_socket", "/tmp");
    dlt_session_option(&s, "tls", "1");
    want(DLOCK_INVALID, "tls=on is for TCP");
}

Test(config, OPN3_names_of_tables)
{
    want_option("schema", "pub\"lic", "schema=");
    set_up();
    want_option("table_prefix", "a b", "table_prefix=");
    want_option("table_prefix", "Ab", "table_prefix=");
    want_option("table_prefix", "x23456789012345678901234567890123", "table_prefix=");
}

Test(config, OPN3_key)
{
    want_option("key", "advisory:1", "strategy=session");
    dlt_session_option(&s, "strategy", "session");
    want_option("key", "4711", "advisory:NUMBER");
    want_option("key", "advisory:", "9223372036854775807");
    want_option("key", "advisory: 1", "9223372036854775807");
    want_option("key", "advisory:1x", "9223372036854775807");
    want_option("key", "advisory:9223372036854775808", "9223372036854775807");
    dlt_session_option(&s, "key", "advisory:-9223372036854775808");
    want(DLOCK_UNAVAILABLE, "onnection refused");
}

Test(config, OPN3_tls)
{
    want_option("verify", "none", "verify= is for TLS: tls=on");
    set_up();
    dlt_session_option(&s, "tls", "1");
    want_option("verify", "ca", "verify=ca wants ca=");
    want_option("ca", "/nonexistent/ca.pem", "/nonexistent/ca.pem");
}

Test(config, an_error_that_undoes_a_statement_is_definite)
{
    static const struct {
        const char *state;
        bool fatal;
        enum dlock_status status;
    } cases[] = {
        {"40001", false, DLOCK_UNAVAILABLE}, {"40P01", false, DLOCK_UNAVAILABLE},
        {"55P03", false, DLOCK_UNAVAILABLE}, {"57014", false, DLOCK_UNAVAILABLE},
        {"53100", false, DLOCK_UNAVAILABLE}, {"25006", false, DLOCK_UNAVAILABLE},
        {"53300", true, DLOCK_UNAVAILABLE},  {"57P03", true, DLOCK_UNAVAILABLE},
        {"57P05", true, DLOCK_UNAVAILABLE},  {"57P01", true, DLOCK_UNKNOWN},
        {"57P02", true, DLOCK_UNKNOWN},      {"08006", false, DLOCK_UNKNOWN},
        {"XX000", true, DLOCK_UNKNOWN},      {"XX000", false, DLOCK_UNAVAILABLE},
        {"42501", false, DLOCK_AUTH},        {"28P01", true, DLOCK_AUTH},
        {"42P01", false, DLOCK_CONFIG},      {"42883", false, DLOCK_CONFIG},
        {"42703", false, DLOCK_CONFIG},      {"3D000", true, DLOCK_CONFIG},
        {NULL, true, DLOCK_UNKNOWN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(pg_connection_error_status(cases[i].state, cases[i].fatal), cases[i].status,
                     "%s", cases[i].state);
    cr_expect(pg_connection_is_contention(pg_connection_error_code("40P01")));
    cr_expect(pg_connection_is_contention(pg_connection_error_code("23505")));
    cr_expect_not(pg_connection_is_contention(pg_connection_error_code("23503")));
    cr_expect_eq(pg_connection_error_code("4000"), 0);
    cr_expect_eq(pg_connection_error_code(NULL), 0);
}
