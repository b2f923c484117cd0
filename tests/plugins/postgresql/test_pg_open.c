/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/connect.c plugins/postgresql/open.c plugins/postgresql/setup.c */
/* Tests: plugins/net/cloexec.c */
/* What is refused at open, with which status, and what is not. */
#include "pg_kit.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dlt_postgres server;
static struct dlt_session s;

static void set_up(void)
{
    cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    dlt_session_init(&s, &server);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
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

Test(open, OPN_3_AUTH)
{
    s.target.password = "secretly wrong";
    want(DLOCK_AUTH, "password authentication failed for user \"u\" (28P01)");
    s.target.user = "nobody";
    want(DLOCK_AUTH, "authentication failed");
    s.target.user = "u";
    s.target.password = NULL;
    want(DLOCK_AUTH, "no password supplied");
}

Test(open, OPN_3_a_database_that_is_not_there)
{
    s.target.path = "/no_such_database";
    want(DLOCK_CONFIG, "does not exist (3D000)");
    dlt_session_option(&s, "create", "0");
    want(DLOCK_NO_STORE, "no_such_database");
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
    s.target.read_secret = read_rotating;
    s.target.password = "secretly old";
    rotated = "secret";
    want(DLOCK_OK, "");
    cr_assert_eq(readings, 2);
    readings = 0;
    rotated = "secretly wrong";
    want(DLOCK_AUTH, "authentication failed");
    cr_assert_eq(readings, 2);
}

static int read_failing(const struct dlock_target *target, const char *option, char *buf,
                        size_t size, struct dlock_error *err)
{
    (void)target;
    (void)option;
    (void)buf;
    (void)size;
    (void)dlock_fail(err, "core", DLOCK_CONFIG, 0, "pass_file=/gone: No such file or directory");
    return -2;
}

Test(open, SEC_1_a_password_that_cannot_be_read)
{
    s.target.read_secret = read_failing;
    want(DLOCK_CONFIG, "pass_file=/gone");
}

Test(open, OPN_3_UNAVAILABLE_when_nobody_listens)
{
    (void)snprintf(s.address, sizeof s.address, "127.0.0.1:1");
    want(DLOCK_UNAVAILABLE, "127.0.0.1:1: Connection refused");
    (void)snprintf(s.address, sizeof s.address, "localhost:1");
    want(DLOCK_UNAVAILABLE, "localhost:1: Connection refused");
    (void)snprintf(s.address, sizeof s.address, "no-such-host.invalid:1");
    want(DLOCK_UNAVAILABLE, "looking up the host");
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", "/tmp/no/such");
    want(DLOCK_UNAVAILABLE, "No such file or directory");
}

Test(open, a_unix_socket_by_its_directory_or_by_its_file)
{
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", server.socket);
    want(DLOCK_OK, "");
    *strrchr(s.options[2][1], '/') = '\0'; /* on the default port nobody listens */
    want(DLOCK_UNAVAILABLE, ".s.PGSQL.5432");
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

    for (int tls = 0; tls < 2; tls++) {
        int64_t begin_ns = dlt_host_now(&s.host);

        dlt_session_option(&s, "tls", tls ? "1" : "0");
        s.call_ms = 300;
        want(DLOCK_UNAVAILABLE, "in time");
        cr_assert_geq(dlt_host_now(&s.host) - begin_ns, 290 * DLT_NS_PER_MS);
        cr_assert_lt(dlt_host_now(&s.host) - begin_ns, 20000 * DLT_NS_PER_MS);
    }
    (void)close(fd);
}

/* What a server says to the first client, whatever that asks. */
struct speech {
    int fd;
    const char *bytes;
    size_t len;
};

static void *speak(void *arg)
{
    const struct speech *speech = arg;
    char request[1024];
    int fd = accept(speech->fd, NULL, NULL);

    cr_assert_gt(recv(fd, request, sizeof request, 0), 0);
    (void)send(fd, speech->bytes, speech->len, MSG_NOSIGNAL);
    dlt_sleep_ms(200);
    (void)close(fd);
    return NULL;
}

static void want_from(const char *bytes, size_t len, enum dlock_status status, const char *text)
{
    struct speech speech = {.fd = silent_listener(), .bytes = bytes, .len = len};
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, speak, &speech), 0);
    want(status, text);
    (void)pthread_join(thread, NULL);
    (void)close(speech.fd);
}

#define AUTH_OK "R\0\0\0\x8\0\0\0\0"
#define KEY     "K\0\0\0\xc\0\0\0\x1\0\0\0\x2"
#define READY   "Z\0\0\0\x5I"

Test(open, OPN_3_PROTOCOL_and_answers_that_make_no_sense)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    static const char fatal[] = "E\0\0\0\x25SFATAL\0C53300\0Mtoo many\nclients\0\0";
    static const char mute[] = "E\0\0\0\x5\0";
    static const char huge[] = "R\x7f\xff\xff\xff\0\0\0\0";
    static const char idle[] = AUTH_OK KEY READY;

    want_from(http, sizeof http - 1, DLOCK_PROTOCOL, "expected authentication request");
    want_from(fatal, sizeof fatal - 1, DLOCK_UNAVAILABLE, "too many (53300)");
    want_from(mute, sizeof mute - 1, DLOCK_UNAVAILABLE, "");
    want_from(huge, sizeof huge - 1, DLOCK_PROTOCOL, "");
    want_from(idle, sizeof idle - 1, DLOCK_CONFIG, "want PostgreSQL 14"); /* says no version */
}

Test(open, OPN_1_a_server_that_is_too_old_is_CONFIG)
{
    static const char old[] = AUTH_OK "S\0\0\0\x19server_version\00013.11\0" KEY READY;

    want_from(old, sizeof old - 1, DLOCK_CONFIG,
              "want PostgreSQL 14 or later, not PostgreSQL 13.11");
}

/* Resolves "slow" when the test lets it, and "two" as an address where nobody listens and one where
 * the server is. */
static _Atomic int resolved, may_resolve;
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *req,
                                                       struct addrinfo **pai)
{
    __typeof__(getaddrinfo) *real = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (name != NULL && strcmp(name, "two") == 0) {
        struct addrinfo *rest = NULL;
        int failed = 0;

        if ((req->ai_flags & AI_NUMERICHOST) != 0)
            return EAI_NONAME;
        failed = real("127.0.0.9", service, req, pai);
        if (failed == 0)
            failed = real("127.0.0.1", service, req, &rest);
        if (failed == 0)
            (*pai)->ai_next = rest;
        return failed;
    }
    if (name != NULL && strcmp(name, "slow") == 0 && (req->ai_flags & AI_NUMERICHOST) == 0) {
        for (int i = 0; i < 3000 && !may_resolve; i++)
            dlt_sleep_ms(10);
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
    cr_assert_eq(resolved, 1, "nothing asked for the name");
}

Test(open, the_next_address_of_a_name_is_tried)
{
    (void)snprintf(s.address, sizeof s.address, "two:%u", server.port);
    want(DLOCK_OK, "");
}

Test(open, CLS_1_a_child_closes_without_a_word)
{
    struct dlock_session_info info = {.struct_size = sizeof info};
    int status = 0;
    pid_t pid = 0;

    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    pid = fork();
    if (pid == 0) {
        s.ops->close(s.self, true);
        if (dlt_session_open(&s) != DLOCK_OK) /* its own, where the parent's was */
            _exit(1);
        dlt_session_close(&s);
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert_eq(s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &info, NULL, NULL, &s.err),
                 DLOCK_OK, "%s", s.err.message);
}

/* ... and what it opens then has nothing to do with that: not the connection, not the tables. */
static void child_opens_its_own(const char *strategy)
{
    struct dlt_request a;
    int status = 0;
    pid_t pid = 0;

    dlt_session_strategy(&s, strategy, "parent");
    dlt_request(&s, &a, "forked", 'a', 60000);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    pid = fork();
    if (pid == 0) {
        s.ops->close(s.self, true);
        dlt_session_strategy(&s, strategy, "child");
        if (dlt_session_open(&s) != DLOCK_OK || dlt_try(&s, &a) != DLOCK_OK ||
            dlt_unlock(&s, &a) != DLOCK_OK)
            printf("# in the child: %s\n", s.err.message);
        (void)fflush(stdout);
        _exit(s.err.status != DLOCK_OK);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(open, C10_a_child_opens_its_own_where_the_row_of_the_parent_was)
{
    child_opens_its_own("row");
}

Test(open, C10_a_child_opens_its_own_where_the_session_of_the_parent_was)
{
    child_opens_its_own("session");
}

Test(open, C8_C10_the_descriptor)
{
    int count = 0, user_timeout_ms = 0;

    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof address;

        if (getpeername(fd, (struct sockaddr *)&address, &size) != 0 ||
            address.ss_family != AF_INET)
            continue;
        count++;
        cr_assert_neq(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
        size = sizeof user_timeout_ms;
        cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, &size), 0);
        cr_assert_eq(user_timeout_ms, 12000, "the kernel tells of a server that has vanished");
    }
    cr_assert_eq(count, 1);
}

/* The library calls this one, too. */
static _Atomic bool armed;
static _Atomic int connecting = -1; /* the socket, while it waits here */
__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
    __typeof__(socket) *real = NULL;
    int fd = -1;

    *(void **)&real = dlsym(RTLD_NEXT, "socket");
    fd = real(domain, type, protocol);
    if (armed) {
        connecting = fd;
        dlt_sleep_ms(300);
    }
    return fd;
}

/* A program that starts in the child of now: would it have the socket? */
static void *fork_meanwhile(void *kept)
{
    int status = -1;
    pid_t pid = 0;

    while (connecting < 0)
        dlt_sleep_ms(1);
    pid = fork();
    if (pid == 0)
        _exit((fcntl(connecting, F_GETFD) & FD_CLOEXEC) == 0);
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

/* What steers other programs with this library does not steer us. */
Test(open, no_variable_changes_where_we_go)
{
    static const char *const variables[][2] = {
        {"PGOPTIONS", "-c role=nobody"},
        {"PGHOST", "203.0.113.1"},
        {"PGHOSTADDR", "203.0.113.1"},
        {"PGPORT", "1"},
        {"PGUSER", "wrong"},
        {"PGPASSWORD", "wrong"},
        {"PGDATABASE", "wrong"},
        {"PGSSLMODE", "verify-full"},
        {"PGSSLROOTCERT", "/nowhere"},
        {"PGGSSENCMODE", "require"},
        {"PGCLIENTENCODING", "SJIS"},
        {"PGTARGETSESSIONATTRS", "standby"},
        {"PGCONNECT_TIMEOUT", "1"},
        {"PGCHANNELBINDING", "require"},
        {"PGPASSFILE", "/etc/passwd"},
    };

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)setenv(variables[i][0], variables[i][1], 1);
    want(DLOCK_OK, "");
}

/* The address of a variable would be another server than that of the socket. */
Test(open, no_variable_leads_away_from_a_socket)
{
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", server.socket);
    (void)setenv("PGHOSTADDR", "", 1);
    want(DLOCK_OK, "");
    (void)setenv("PGHOSTADDR", "127.0.0.1", 1);
    want(DLOCK_INVALID, "PGHOSTADDR");
}

Test(open, a_service_sets_neither_role_nor_address)
{
    char path[] = "/tmp/dlock-service-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_assert_gt(dprintf(fd, "[other]\nhostaddr=127.0.0.1\noptions=-c role=nobody\n"), 0);
    (void)close(fd);
    (void)setenv("PGSERVICEFILE", path, 1);
    (void)setenv("PGSERVICE", "other", 1);
    want(DLOCK_OK, "");
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", server.socket);
    want(DLOCK_INVALID, "PGSERVICE");
    (void)unlink(path);
}

/* ---- servers of their own ---- */

Test(own, OPN_1_a_standby_is_CONFIG)
{
    char path[160];
    FILE *file = NULL;

    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    want(DLOCK_OK, "");
    dlt_postgres_kill(&server);
    (void)snprintf(path, sizeof path, "%s/data/standby.signal", server.directory);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    (void)fclose(file);
    cr_assert(dlt_postgres_again(&server), "%s", server.why);
    want(DLOCK_CONFIG, "standby");
    tear_down();
}

Test(own, max_connections_reached_is_UNAVAILABLE)
{
    static struct dlt_session held[4];
    enum dlock_status status = DLOCK_OK;
    size_t count = 0;

    cr_assert(dlt_postgres_start(&server, (const char *[]){"-c", "max_connections=4", "-c",
                                                           "superuser_reserved_connections=1", "-c",
                                                           "max_wal_senders=0", NULL}),
              "%s", server.why);
    for (; count < 4 && status == DLOCK_OK; count++) {
        dlt_session_init(&held[count], &server);
        status = dlt_session_open(&held[count]);
    }
    cr_assert_eq(status, DLOCK_UNAVAILABLE);
    cr_assert(strstr(held[count - 1].err.message, "(53300)") != NULL, "%s",
              held[count - 1].err.message);
    while (count-- > 0)
        dlt_session_close(&held[count]);
    dlt_session_init(&s, &server);
    for (int i = 0; i < 100 && status != DLOCK_OK; i++) {
        status = dlt_session_open(&s);
        dlt_session_close(&s);
        dlt_sleep_ms(20);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", s.err.message);
    tear_down();
}
