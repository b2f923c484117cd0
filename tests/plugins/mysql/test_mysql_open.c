/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/open.c plugins/mysql/schema.c plugins/mysql/config.c */
/* What is refused at open, with which status, and what is not; open_tests.c has more. */
#include "my_kit.h"
#include "open_tests.h"
#include "want.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dlt_maria server;
static struct dlt_session s;

static void set_up(void)
{
    dlt_open_session(&s);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_maria_stop(&server);
}

TestSuite(open, .init = set_up, .fini = tear_down);

const struct dlt_open dlt_open = {.denied = "denied", .lookups = 1};

void dlt_open_session(struct dlt_session *session)
{
    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    dlt_session_init(session, &server);
}

/* A wait for it would never end. Root may open each socket, and is somebody else here. */
static void socket_of_others(const char *strategy)
{
    const bool is_root = geteuid() == 0;

    dlt_session_option(&s, "strategy", strategy);
    cr_assert(is_root ? seteuid(65534) == 0 : chmod(server.socket, 0) == 0);
    (void)dlt_session_open(&s);
    cr_assert(is_root ? seteuid(0) == 0 : chmod(server.socket, 0777) == 0);
    cr_assert_eq(s.err.status, DLOCK_AUTH, "%s", s.err.message);
    cr_assert(strstr(s.err.message, server.socket) != NULL, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "Permission denied") != NULL, "%s", s.err.message);
    dlt_session_close(&s);
}

Test(open, OPN_3_a_unix_socket_that_the_user_may_not_open_is_AUTH)
{
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", server.socket);
    cr_assert_eq(chmod(server.socket, 0700), 0);
    socket_of_others("row");
    socket_of_others("insert");
    socket_of_others("session");
    cr_assert_eq(chmod(server.socket, 0777), 0);
}

Test(open, C12_one_prefix_serves_one_strategy)
{
    static const char *const strategies[] = {"row", "insert", "session"};

    for (size_t i = 0; i < 3; i++) {
        char prefix[32];

        (void)snprintf(prefix, sizeof prefix, "c12_%s_", strategies[i]);
        dlt_session_option(&s, "table_prefix", prefix);
        dlt_session_option(&s, "strategy", strategies[i]);
        dlt_want(&s, DLOCK_OK, "");
        for (size_t j = 0; j < 3; j++) {
            dlt_session_option(&s, "strategy", strategies[j]);
            dlt_want(&s, i == j ? DLOCK_OK : DLOCK_CONFIG, strategies[i]);
        }
    }
}

/* Makes the tables, changes one of them ({ stands for the prefix), and opens again. */
static void want_after(const char *change, const char *text)
{
    char prefix[32], sql[256] = "";
    static int count;

    (void)snprintf(prefix, sizeof prefix, "odd%d_%d_", (int)getpid(), ++count);
    dlt_session_option(&s, "table_prefix", prefix);
    dlt_want(&s, DLOCK_OK, "");
    for (const char *in = change; *in != '\0'; in++) {
        if (*in == '{')
            (void)strncat(sql, prefix, sizeof sql - strlen(sql) - 1);
        else
            (void)strncat(sql, in, 1);
    }
    cr_assert_str_eq(dlt_maria_ask(&server, "%s", sql), "");
    dlt_want(&s, DLOCK_CONFIG, text);
}

Test(open, OPN_1_tables_that_cannot_keep_a_lock)
{
    want_after("ALTER TABLE {names ENGINE=MyISAM", "InnoDB");
    want_after("ALTER TABLE {readers ENGINE=MEMORY", "InnoDB");
    want_after("ALTER TABLE {names MODIFY name VARCHAR(255) NOT NULL", "bytes");
    want_after("ALTER TABLE {names MODIFY token VARBINARY(8) NOT NULL", "token");
    want_after("ALTER TABLE {names MODIFY until_us DOUBLE NOT NULL", "until_us");
    want_after("ALTER TABLE {names DROP PRIMARY KEY", "primary key");
    want_after("ALTER TABLE {names DROP COLUMN fence", "not there");
    want_after("DROP TABLE {readers", "readers");
    want_after("UPDATE {meta SET version = 99", "99");
    want_after("RENAME TABLE {names TO {old", "names");
}

Test(open, OPN_1_a_view_is_not_a_table)
{
    want_after("RENAME TABLE {names TO {base", "names");
    cr_assert_str_eq(dlt_maria_ask(&server, "CREATE VIEW %snames AS SELECT * FROM %sbase",
                                   s.options[1][1], s.options[1][1]),
                     "");
    dlt_want(&s, DLOCK_CONFIG, "");
}

Test(open, OPN_4_nothing_is_made_with_create_off)
{
    dlt_session_option(&s, "table_prefix", "none_");
    dlt_session_option(&s, "create", "0");
    dlt_want(&s, DLOCK_NO_STORE, "create=off");
    s.target.path = "/no_such_database";
    cr_assert_str_eq(dlt_maria_ask(&server, "GRANT SELECT ON `no_such_database`.* TO u"), "");
    dlt_want(&s, DLOCK_NO_STORE, "no_such_database");
    dlt_session_option(&s, "create", "1");
    dlt_want(&s, DLOCK_CONFIG, "no_such_database");
    s.target.path = "/locks";
    dlt_session_option(&s, "create", "0");
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT COUNT(*) FROM information_schema.tables WHERE "
                                            "table_name LIKE 'none%%'"),
                     "0");
    dlt_session_option(&s, "create", "1");
    dlt_want(&s, DLOCK_OK, "");
    dlt_session_option(&s, "create", "0");
    dlt_want(&s, DLOCK_OK, "");
}

Test(open, OPN_3_AUTH)
{
    s.target.password = "secretly wrong";
    dlt_want(&s, DLOCK_AUTH, "denied");
    s.target.password = "secret";
    s.target.user = "nobody";
    dlt_want(&s, DLOCK_AUTH, "denied");
    s.target.user = "u";
    s.target.path = "/mysql";
    dlt_want(&s, DLOCK_AUTH, "denied");
}

Test(open, OPN_3_UNAVAILABLE_when_nobody_listens)
{
    (void)snprintf(s.address, sizeof s.address, "127.0.0.1:1");
    dlt_want(&s, DLOCK_UNAVAILABLE, "127.0.0.1:1");
    dlt_want(&s, DLOCK_UNAVAILABLE, ": Connection refused");
    (void)snprintf(s.address, sizeof s.address, "localhost:1");
    dlt_want(&s, DLOCK_UNAVAILABLE, "localhost:1");
    (void)snprintf(s.address, sizeof s.address, "no-such-host.invalid:1");
    dlt_want(&s, DLOCK_UNAVAILABLE, "host 'no-such-host.invalid': ");
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", "/tmp/no/such/socket");
    dlt_want(&s, DLOCK_UNAVAILABLE, "'/tmp/no/such/socket': No such file or directory");
}

Test(open, OPN_3_INVALID)
{
    static const char *const addresses[] = {
        "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x", "a;b=c", "", "/tmp/socket", "host name:1"};
    static const char *const paths[] = {
        "", "/", "/a/b",
        "/0123456789012345678901234567890123456789012345678901234567"
        "890123456789"};

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        (void)snprintf(s.address, sizeof s.address, "%s", addresses[i]);
        dlt_want(&s, DLOCK_INVALID, "");
    }
    (void)snprintf(s.address, sizeof s.address, "%s", server.address);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        s.target.path = paths[i];
        dlt_want(&s, DLOCK_INVALID, "database");
    }
    s.target.path = "/locks";
    s.target.user = NULL;
    dlt_want(&s, DLOCK_INVALID, "user");
    s.target.user = "";
    dlt_want(&s, DLOCK_INVALID, "user");
    s.target.user = "u";
    s.hosts[1] = "127.0.0.2";
    dlt_want(&s, DLOCK_INVALID, "one host");
    s.hosts[1] = NULL;
    dlt_session_option(&s, "table_prefix", "a`b");
    dlt_want(&s, DLOCK_INVALID, "table_prefix");
    dlt_session_option(&s, "table_prefix", "ok_");
}

/* C17: who asks for a certificate to be looked at is not served in the clear. */
Test(open, OPN_3_INVALID_options_of_TLS)
{
    static const char *const options[] = {"ca", "cert", "key_file", "verify"};

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char text[40];

        dlt_session_init(&s, &server);
        dlt_session_option(&s, options[i], "full");
        (void)snprintf(text, sizeof text, "%s= is for TLS: tls=on", options[i]);
        dlt_want(&s, DLOCK_INVALID, text);
    }
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "verify", "ca");
    dlt_want(&s, DLOCK_INVALID, "verify=ca wants ca=");
    dlt_session_option(&s, "verify", "full");
    dlt_session_option(&s, "ca", "/no/file");
    dlt_want(&s, DLOCK_INVALID, "ca=/no/file: No such file or directory");
    dlt_session_option(&s, "ca", "/dev/null");
    dlt_session_option(&s, "cert", "/dev/null");
    dlt_want(&s, DLOCK_INVALID, "cert= and key_file= go together");
    dlt_session_option(&s, "key_file", "/");
    dlt_want(&s, DLOCK_INVALID, "key_file=/: Is a directory");
}

/* C16: what is shown is where the locks are. */
Test(open, OPN_3_INVALID_a_host_beside_a_socket)
{
    dlt_session_option(&s, "unix_socket", server.socket);
    dlt_want(&s, DLOCK_INVALID, "unix_socket= is instead of a host");
    s.hosts[0] = NULL;
    dlt_want(&s, DLOCK_OK, "");
}

/* M13: what steers other clients of this library does not steer us. */
Test(open, no_file_and_no_variable_changes_where_we_go)
{
    (void)setenv("MYSQL_TCP_PORT", "1", 1);
    (void)setenv("MYSQL_UNIX_PORT", "/tmp/nowhere", 1);
    (void)setenv("MYSQL_HOST", "203.0.113.1", 1);
    (void)setenv("MYSQL_PWD", "wrong", 1);
    dlt_want(&s, DLOCK_OK, "");
}
