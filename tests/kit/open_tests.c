/* SPDX-License-Identifier: MIT */
/* What a connection does on its way, and in the child of a fork. */
#include "open_tests.h"
#include "want.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dlt_session s;
static struct dlt_request a;
static const char *port; /* of the server: ":PORT" */

static void set_up(void)
{
    static char address[128];

    dlt_open_session(&s);
    (void)snprintf(address, sizeof address, "%s", s.address);
    port = strrchr(address, ':');
}

static void tear_down(void)
{
    dlt_session_close(&s);
}

TestSuite(connection, .init = set_up, .fini = tear_down);

/* ---- passwords ---- */

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
Test(connection, SEC_1_a_password_that_was_rotated_is_tried_at_once)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        (void)snprintf(s.address, sizeof s.address, "%s%s", hosts[i], port);
        s.target.read_secret = read_rotating;
        s.target.password = "secretly old";
        readings = 0;
        rotated = "secret";
        dlt_want(&s, DLOCK_OK, "");
        cr_assert_eq(readings, 2);
        readings = 0;
        rotated = "secretly wrong";
        dlt_want(&s, DLOCK_AUTH, dlt_open.denied);
        cr_assert_eq(readings, 2);
    }
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

Test(connection, SEC_1_a_password_that_cannot_be_read)
{
    s.target.read_secret = read_failing;
    dlt_want(&s, DLOCK_CONFIG, "pass_file=/gone");
}

/* ---- time [C8] ---- */

int dlt_open_silent(char *address, size_t size)
{
    struct sockaddr_in bound = {.sin_family = AF_INET};
    socklen_t len = sizeof bound;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(listen(fd, 4), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&bound, &len), 0);
    (void)snprintf(address, size, "127.0.0.1:%u", (unsigned)ntohs(bound.sin_port));
    return fd;
}

Test(connection, C8_a_server_that_says_nothing)
{
    int fd = dlt_open_silent(s.address, sizeof s.address);

    for (int tls = 0; tls < 2; tls++) {
        int64_t begin_ns = dlt_host_now(&s.host);

        dlt_session_option(&s, "tls", tls ? "1" : "0");
        s.call_ms = 300;
        dlt_want(&s, DLOCK_UNAVAILABLE, "in time");
        cr_assert_geq(dlt_host_now(&s.host) - begin_ns, 290 * DLT_NS_PER_MS);
        cr_assert(dlt_host_within(&s.host, begin_ns, 20000), "%s", dlt_within_text());
    }
    (void)close(fd);
}

/* "two" is an address where nobody listens, and one where the server is. */
static int resolve_two(__typeof__(getaddrinfo) *real, const char *service,
                       const struct addrinfo *req, struct addrinfo **pai)
{
    struct addrinfo *rest = NULL;
    int failed = real("127.0.0.9", service, req, pai);

    if (failed == 0)
        failed = real("127.0.0.1", service, req, &rest);
    if (failed == 0)
        (*pai)->ai_next = rest;
    return failed;
}

/* The libraries call this one. "slow" is resolved when the test lets it be. */
static _Atomic int resolving, resolved, may_resolve;
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *req,
                                                       struct addrinfo **pai)
{
    __typeof__(getaddrinfo) *real = NULL;
    bool is_number = req != NULL && (req->ai_flags & AI_NUMERICHOST) != 0;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (name != NULL && strcmp(name, "two") == 0 && !is_number)
        return resolve_two(real, service, req, pai);
    if (name != NULL && strcmp(name, "slow") == 0 && !is_number) {
        resolving++;
        for (int i = 0; i < 3000 && !may_resolve; i++)
            dlt_sleep_ms(10);
        resolving--;
        resolved++;
        return EAI_NONAME;
    }
    return real(name, service, req, pai);
}

Test(connection, C8_a_name_that_takes_its_time)
{
    int64_t begin_ns = dlt_host_now(&s.host);

    (void)snprintf(s.address, sizeof s.address, "slow:1");
    s.call_ms = 200;
    dlt_want(&s, DLOCK_UNAVAILABLE, "in time");
    cr_assert(dlt_host_within(&s.host, begin_ns, 20000), "%s", dlt_within_text());
    may_resolve = 1;
    for (int i = 0; i < 1000 && resolved == 0; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(resolved, 1, "nothing asked for the name");
    cr_assert_eq(resolving, 0);
}

/* A resolver that is silent is asked by as many threads as the store says; when it has spoken, the
 * next attempt asks again. */
Test(connection, C8_a_name_that_is_asked_for_again)
{
    (void)snprintf(s.address, sizeof s.address, "slow:1");
    for (int i = 0; i < 3; i++) {
        int64_t begin_ns = dlt_host_now(&s.host);

        s.call_ms = 100;
        dlt_want(&s, DLOCK_UNAVAILABLE, "in time");
        cr_assert(dlt_host_within(&s.host, begin_ns, 20000), "%s", dlt_within_text());
        cr_assert_leq(resolving, dlt_open.lookups);
    }
    may_resolve = 1;
    s.call_ms = 10000;
    dlt_want(&s, DLOCK_UNAVAILABLE, "");
    for (int i = 0; i < 1000 && resolved < 2; i++)
        dlt_sleep_ms(10);
    cr_assert_geq(resolved, 2);
}

Test(connection, the_next_address_of_a_name_is_tried)
{
    (void)snprintf(s.address, sizeof s.address, "two%s", port);
    dlt_want(&s, DLOCK_OK, "");
}

/* ---- forks [C10] ---- */

Test(connection, CLS_1_a_child_closes_without_a_word)
{
    int status = 0;
    pid_t pid = 0;

    dlt_request(&s, &a, "forked", 'a', 60000);
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
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
}

/* ... and what it opens then has nothing to do with that: not the connection, not the tables. */
static void child_opens_its_own(const char *strategy)
{
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

Test(connection, C10_a_child_opens_its_own_where_the_row_of_the_parent_was)
{
    child_opens_its_own("row");
}

Test(connection, C10_a_child_opens_its_own_where_the_session_of_the_parent_was)
{
    child_opens_its_own("session");
}

Test(connection, C8_C10_the_descriptor)
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
        cr_assert_eq(user_timeout_ms, dlt_open.user_timeout_ms,
                     "the kernel tells of a server that has vanished");
    }
    cr_assert_eq(count, 1);
}

/* The libraries call this one, too. */
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

Test(connection, C10_nobody_forks_while_a_socket_is_not_close_on_exec)
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
