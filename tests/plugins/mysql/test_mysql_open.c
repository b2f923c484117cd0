/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/setup.c plugins/mysql/schema.c plugins/mysql/config.c */
/* Tests: plugins/mysql/open.c */
/* What is refused at open, with which status, and what is not. */
#include "my_kit.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dlt_maria server;
static struct dlt_session s;
static struct dlt_request a;

static void set_up(void)
{
    cr_assert(dlt_maria_borrow(&server), "%s", server.why);
    dlt_session_init(&s, &server);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_maria_stop(&server);
}

TestSuite(open, .init = set_up, .fini = tear_down);

static void want(enum dlock_status status, const char *text)
{
    cr_assert_eq(dlt_session_open(&s), status, "%s (%d): %s", text, (int)s.err.status,
                 s.err.message);
    if (status != DLOCK_OK)
        cr_assert(strstr(s.err.message, text) != NULL, "\"%s\" has no \"%s\"", s.err.message, text);
    cr_assert(strstr(s.err.message, "secret") == NULL, "C17");
    dlt_session_close(&s);
}

Test(open, C12_one_prefix_serves_one_strategy)
{
    static const char *const strategies[] = {"row", "insert", "session"};

    for (size_t i = 0; i < 3; i++) {
        char prefix[32];

        (void)snprintf(prefix, sizeof prefix, "c12_%s_", strategies[i]);
        dlt_session_option(&s, "table_prefix", prefix);
        dlt_session_option(&s, "strategy", strategies[i]);
        want(DLOCK_OK, "");
        for (size_t j = 0; j < 3; j++) {
            dlt_session_option(&s, "strategy", strategies[j]);
            want(i == j ? DLOCK_OK : DLOCK_CONFIG, strategies[i]);
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
    want(DLOCK_OK, "");
    for (const char *in = change; *in != '\0'; in++) {
        if (*in == '{')
            (void)strncat(sql, prefix, sizeof sql - strlen(sql) - 1);
        else
            (void)strncat(sql, in, 1);
    }
    cr_assert_str_eq(dlt_maria_ask(&server, "%s", sql), "");
    want(DLOCK_CONFIG, text);
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
    want(DLOCK_CONFIG, "");
}

Test(open, OPN_4_nothing_is_made_with_create_off)
{
    dlt_session_option(&s, "table_prefix", "none_");
    dlt_session_option(&s, "create", "0");
    want(DLOCK_NO_STORE, "create=off");
    s.target.path = "/no_such_database";
    cr_assert_str_eq(dlt_maria_ask(&server, "GRANT SELECT ON `no_such_database`.* TO u"), "");
    want(DLOCK_NO_STORE, "no_such_database");
    dlt_session_option(&s, "create", "1");
    want(DLOCK_CONFIG, "no_such_database");
    s.target.path = "/locks";
    dlt_session_option(&s, "create", "0");
    cr_assert_str_eq(dlt_maria_ask(&server, "SELECT COUNT(*) FROM information_schema.tables WHERE "
                                            "table_name LIKE 'none%%'"),
                     "0");
    dlt_session_option(&s, "create", "1");
    want(DLOCK_OK, "");
    dlt_session_option(&s, "create", "0");
    want(DLOCK_OK, "");
}

Test(open, OPN_3_AUTH)
{
    s.target.password = "secretly wrong";
    want(DLOCK_AUTH, "denied");
    s.target.password = "secret";
    s.target.user = "nobody";
    want(DLOCK_AUTH, "denied");
    s.target.user = "u";
    s.target.path = "/mysql";
    want(DLOCK_AUTH, "denied");
}

/* The secret is another one from the second reading on. */
static int readings;
static const char *rotated;
static int read_rotating(const struct dlock_target *target, const char *option, char *buf,
                         size_t size, struct dlock_error *err)
{
    (void)option;
    (void)err;
    (void)snprintf(buf, size, "%s", ++readings > 1 ? rotated : target->password);
    return (int)strlen(buf);
}

/* C14: with what the server accepted when the client was opened, and does not any more. */
Test(open, SEC_1_a_password_that_was_rotated_is_tried_at_once)
{
    for (int named = 0; named < 2; named++) { /* a name is connected to in a thread of its own */
        (void)snprintf(s.address, sizeof s.address, "%s:%u", named ? "localhost" : "127.0.0.1",
                       server.port);
        s.target.read_secret = read_rotating;
        s.target.password = "secretly old";
        readings = 0;
        rotated = "secret";
        want(DLOCK_OK, "");
        cr_assert_eq(readings, 2);
        readings = 0;
        rotated = "secretly wrong";
        want(DLOCK_AUTH, "denied");
        cr_assert_eq(readings, 2);
    }
}

Test(open, OPN_3_UNAVAILABLE_when_nobody_listens)
{
    (void)snprintf(s.address, sizeof s.address, "127.0.0.1:1");
    want(DLOCK_UNAVAILABLE, "127.0.0.1:1");
    want(DLOCK_UNAVAILABLE, ": Connection refused");
    (void)snprintf(s.address, sizeof s.address, "localhost:1");
    want(DLOCK_UNAVAILABLE, "localhost:1");
    (void)snprintf(s.address, sizeof s.address, "no-such-host.invalid:1");
    want(DLOCK_UNAVAILABLE, "host 'no-such-host.invalid': ");
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", "/tmp/no/such/socket");
    want(DLOCK_UNAVAILABLE, "'/tmp/no/such/socket': No such file or directory");
}

static int silent_listener(void)
{
    struct sockaddr_storage address = {.ss_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char port[16];

    cr_assert_eq(listen(fd, 4), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    cr_assert_eq(
        getnameinfo((struct sockaddr *)&address, size, NULL, 0, port, sizeof port, NI_NUMERICSERV),
        0);
    (void)snprintf(s.address, sizeof s.address, "127.0.0.1:%s", port);
    return fd;
}

Test(open, C8_a_server_that_says_nothing)
{
    int fd = silent_listener();
    int64_t begin_ns = dlt_host_now(&s.host);

    s.call_ms = 300;
    want(DLOCK_UNAVAILABLE, "in time");
    cr_assert_geq(dlt_host_now(&s.host) - begin_ns, 290 * DLT_NS_PER_MS);
    cr_assert_lt(dlt_host_now(&s.host) - begin_ns, 20000 * DLT_NS_PER_MS);
    (void)close(fd);
}

/* The library calls this one: it resolves "slow" when the test lets it. */
static _Atomic int resolving, resolved, may_resolve;
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *req,
                                                       struct addrinfo **pai)
{
    __typeof__(getaddrinfo) *real = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(name, "slow") == 0) {
        resolving++;
        for (int i = 0; i < 3000 && !may_resolve; i++)
            dlt_sleep_ms(10);
        resolving--;
        resolved++;
        return EAI_NONAME;
    }
    return real(name, service, req, pai);
}

Test(open, C8_a_name_that_takes_its_time)
{
    int64_t begin_ns = dlt_host_now(&s.host);

    (void)snprintf(s.address, sizeof s.address, "slow:1");
    s.call_ms = 200;
    want(DLOCK_UNAVAILABLE, "in time");
    cr_assert_lt(dlt_host_now(&s.host) - begin_ns, 20000 * DLT_NS_PER_MS);
    may_resolve = 1;
    for (int i = 0; i < 1000 && resolved == 0; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(resolved, 1, "the library did not ask for the name");
    cr_assert_eq(resolving, 0);
}

/* A resolver that is silent is not asked by a thread more for each attempt; when it has spoken, the
 * next attempt asks again. */
Test(open, C8_a_name_that_is_asked_for_once_at_a_time)
{
    (void)snprintf(s.address, sizeof s.address, "slow:1");
    for (int i = 0; i < 3; i++) {
        int64_t begin_ns = dlt_host_now(&s.host);

        s.call_ms = 100;
        want(DLOCK_UNAVAILABLE, "in time");
        cr_assert_lt(dlt_host_now(&s.host) - begin_ns, 20000 * DLT_NS_PER_MS);
        cr_assert_leq(resolving, 1);
    }
    may_resolve = 1;
    s.call_ms = 10000;
    want(DLOCK_UNAVAILABLE, "slow");
    cr_assert_geq(resolved, 2);
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
        want(DLOCK_INVALID, "");
    }
    (void)snprintf(s.address, sizeof s.address, "%s", server.address);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        s.target.path = paths[i];
        want(DLOCK_INVALID, "database");
    }
    s.target.path = "/locks";
    s.target.user = NULL;
    want(DLOCK_INVALID, "user");
    s.target.user = "";
    want(DLOCK_INVALID, "user");
    s.target.user = "u";
    s.hosts[1] = "127.0.0.2";
    want(DLOCK_INVALID, "one host");
    s.hosts[1] = NULL;
    dlt_session_option(&s, "table_prefix", "a`b");
    want(DLOCK_INVALID, "table_prefix");
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
        want(DLOCK_INVALID, text);
    }
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "verify", "ca");
    want(DLOCK_INVALID, "verify=ca wants ca=");
    dlt_session_option(&s, "verify", "full");
    dlt_session_option(&s, "ca", "/no/file");
    want(DLOCK_INVALID, "ca=/no/file: No such file or directory");
    dlt_session_option(&s, "ca", "/dev/null");
    dlt_session_option(&s, "cert", "/dev/null");
    want(DLOCK_INVALID, "cert= and key_file= go together");
    dlt_session_option(&s, "key_file", "/");
    want(DLOCK_INVALID, "key_file=/: Is a directory");
}

/* C16: what is shown is where the locks are. */
Test(open, OPN_3_INVALID_a_host_beside_a_socket)
{
    dlt_session_option(&s, "unix_socket", server.socket);
    want(DLOCK_INVALID, "unix_socket= is instead of a host");
    s.hosts[0] = NULL;
    want(DLOCK_OK, "");
}

Test(open, CLS_1_a_child_closes_without_a_word)
{
    int status = 0;
    pid_t pid = 0;

    dlt_request(&s, &a, "forked", 'a', 60000);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    pid = fork();
    if (pid == 0) {
        s.ops->close(s.self, 1);
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

/* ... and what it opens then has nothing to do with that: not the connection, not the tables. */
Test(open, C10_a_child_opens_its_own_where_the_parents_was)
{
    int status = 0;
    pid_t pid = 0;

    dlt_session_option(&s, "strategy", "session");
    dlt_session_option(&s, "table_prefix", "parent_");
    dlt_request(&s, &a, "forked", 'a', 60000);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    pid = fork();
    if (pid == 0) {
        s.ops->close(s.self, 1);
        dlt_session_option(&s, "table_prefix", "child_");
        if (dlt_session_open(&s) != DLOCK_OK || dlt_try(&s, &a) != DLOCK_OK ||
            dlt_unlock(&s, &a) != DLOCK_OK)
            printf("# in the child: %s\n", s.err.message);
        (void)fflush(stdout);
        _exit(s.err.status != DLOCK_OK);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

Test(open, C10_descriptors_are_close_on_exec)
{
    int count = 0;

    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof address;

        if (getpeername(fd, (struct sockaddr *)&address, &size) != 0 ||
            address.ss_family != AF_INET)
            continue;
        count++;
        cr_assert_neq(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    }
    cr_assert_eq(count, 1);
}

/* The library calls this one, too. */
static _Atomic bool armed;
static _Atomic int dialing = -1; /* the socket, while it waits here */
__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
    __typeof__(socket) *real = NULL;
    int fd = -1;

    *(void **)&real = dlsym(RTLD_NEXT, "socket");
    fd = real(domain, type, protocol);
    if (armed) {
        dialing = fd;
        dlt_sleep_ms(300);
    }
    return fd;
}

/* A program that starts in the child of now: would it have the socket? */
static void *fork_meanwhile(void *kept)
{
    int status = -1;
    pid_t pid = 0;

    while (dialing < 0)
        dlt_sleep_ms(1);
    pid = fork();
    if (pid == 0)
        _exit((fcntl(dialing, F_GETFD) & FD_CLOEXEC) == 0);
    (void)waitpid(pid, &status, 0);
    *(int *)kept = status;
    return NULL;
}

Test(open, C10_nobody_forks_while_a_socket_is_not_close_on_exec)
{
    pthread_t thread;
    int kept = -1;

    armed = true;
    cr_assert_eq(pthread_create(&thread, NULL, fork_meanwhile, &kept), 0);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    (void)pthread_join(thread, NULL);
    armed = false;
    cr_assert_eq(kept, 0, "a program that was started meanwhile has the connection");
}

/* M13: what steers other clients of this library does not steer us. */
Test(open, no_file_and_no_variable_changes_where_we_go)
{
    (void)setenv("MYSQL_TCP_PORT", "1", 1);
    (void)setenv("MYSQL_UNIX_PORT", "/tmp/nowhere", 1);
    (void)setenv("MYSQL_HOST", "203.0.113.1", 1);
    (void)setenv("MYSQL_PWD", "wrong", 1);
    want(DLOCK_OK, "");
}
