/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/connect.c plugins/etcd/endpoints.c plugins/etcd/exchange.c */
/* What is refused when a connection is made, with which status, and what is not. */
#include "endpoint_fixture.h"
#include "process.h"
#include "scripted_client.h"

#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static struct dlt_etcd server;

static void tear_down(void)
{
    e_close();
    dlt_etcd_stop(&server);
}

/* ---- no server, or another one ---- */

TestSuite(open, .fini = e_close);

Test(open, OPN_3_UNAVAILABLE_when_nobody_listens)
{
    e_target("etcd", "127.0.0.1:1", NULL, NULL);
    e_want_open(DLOCK_UNAVAILABLE, "127.0.0.1:1: connect: Connection refused");
    e_target("etcds", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3");
    e_want_open(DLOCK_UNAVAILABLE, "127.0.0.1:1: connect: Connection refused");
    e_target("etcd", "no-such-host.invalid", NULL, NULL);
    e_want_open(DLOCK_UNAVAILABLE, "looking up the host");
}

static int silent_listener(char address[32])
{
    struct sockaddr_storage bound = {.ss_family = AF_INET};
    socklen_t size = sizeof bound;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char port[16];

    cr_assert_eq(listen(fd, 4), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&bound, &size), 0);
    cr_assert_eq(
        getnameinfo((struct sockaddr *)&bound, size, NULL, 0, port, sizeof port, NI_NUMERICSERV),
        0);
    (void)snprintf(address, 32, "127.0.0.1:%s", port);
    return fd;
}

Test(open, C8_a_server_that_says_nothing)
{
    char address[32];
    int fd = silent_listener(address);
    static const char *const schemes[] = {"etcd", "etcds"};

    for (int i = 0; i < 2; i++) {
        int64_t begin_ns = 0;

        e_target(schemes[i], address, NULL, NULL);
        begin_ns = dlt_host_now(&e.s.host);
        e.s.call_ms = 300;
        e_want_open(DLOCK_UNAVAILABLE, "in time");
        cr_assert_geq(dlt_host_now(&e.s.host) - begin_ns, 290 * DLT_NS_PER_MS);
        cr_assert(dlt_host_within(&e.s.host, begin_ns, 20000), "%s", dlt_within_text());
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

static void want_from(const char *scheme, const char *bytes, size_t len, enum dlock_status status,
                      const char *text)
{
    char address[32];
    struct speech speech = {.fd = silent_listener(address), .bytes = bytes, .len = len};
    pthread_t thread;

    e_target(scheme, address, NULL, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, speak, &speech), 0);
    e_want_open(status, text);
    (void)pthread_join(thread, NULL);
    (void)close(speech.fd);
}

Test(open, OPN_3_PROTOCOL_for_a_server_that_is_no_etcd)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    static const char redis[] = "-ERR unknown command 'PRI'\r\n";
    static const char goaway[] = "\0\0\0\4\0\0\0\0\0"
                                 "\0\0\x8\7\0\0\0\0\0"
                                 "\0\0\0\0\0\0\0\0";

    want_from("etcd", http, sizeof http - 1, DLOCK_PROTOCOL, "");
    want_from("etcd", redis, sizeof redis - 1, DLOCK_PROTOCOL, "");
    want_from("etcds", http, sizeof http - 1, DLOCK_PROTOCOL, "does not speak TLS");
    want_from("etcd", goaway, sizeof goaway - 1, DLOCK_UNAVAILABLE, "");
}

/* Resolves "slow" when the test lets it. */
static _Atomic int resolved, may_resolve;
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *req,
                                                       struct addrinfo **pai)
{
    __typeof__(getaddrinfo) *real = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
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
    int64_t begin_ns = 0;

    e_target("etcd", "slow:1", NULL, NULL);
    begin_ns = dlt_host_now(&e.s.host);
    e.s.call_ms = 200;
    e_want_open(DLOCK_UNAVAILABLE, "looking up the host");
    cr_assert(dlt_host_within(&e.s.host, begin_ns, 20000), "%s", dlt_within_text());
    may_resolve = 1;
    for (int i = 0; i < 1000 && resolved == 0; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(resolved, 1, "nothing asked for the name");
}

/* ---- a cluster without users ---- */

TestSuite(plain, .fini = tear_down);

static void start(const char *const *args)
{
    cr_assert(dlt_etcd_start(&server, args), "%s", server.why);
    e_target("etcd", server.members[0].address, NULL, NULL);
}

Test(plain, a_member_says_who_it_is)
{
    start(NULL);
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_str_eq(e.endpoints.member.endpoint, server.members[0].address);
    cr_assert(strncmp(e.endpoints.member.version, "3.", 2) == 0, "%s", e.endpoints.member.version);
    cr_assert_neq(e.endpoints.member.cluster_id, 0);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_gt(e.endpoints.cluster.revision, 1);
    e.s.target.path = "";
    e_want_open(DLOCK_OK, "");
}

/* The operator may first give the users to the programs, and then switch authentication on. */
Test(plain, a_user_before_and_after_authentication_is_switched_on)
{
    start(NULL);
    e.s.target.user = "u";
    e.s.target.password = "secret";
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert(dlt_etcd_auth(&server, "locks/"), "%s", server.why);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    e_close();
    e.s.target.user = NULL;
    e.s.target.password = NULL;
    e_want_open(DLOCK_AUTH, "user name is empty");
}

/* It just hangs up. */
Test(plain, OPN_3_TLS_with_a_member_that_has_none)
{
    start(NULL);
    e_target("etcds", server.members[0].address, NULL, NULL);
    e_want_open(DLOCK_PROTOCOL, "the server does not speak TLS");
}

/* So does a proxy whose member is down: that is waited for, with either scheme. */
Test(plain, OPN_3_a_server_that_hangs_up_whatever_it_is_asked)
{
    static const char *const schemes[] = {"etcd", "etcds"};
    static const char *const hints[] = {"does it want TLS", "does it speak TLS"};
    struct dlt_scripted silent;

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        cr_assert(dlt_scripted_start(&silent, "conn\nany\nclose\nconn\nany\nclose\n"), "%s",
                  silent.report);
        e_target(schemes[i], silent.address, NULL, NULL);
        e_want_open(DLOCK_UNAVAILABLE, hints[i]);
        (void)dlt_scripted_finish(&silent, 0);
    }
}

/* ---- behind a proxy of etcd ---- */

static struct {
    pid_t pid;
    unsigned port;
    char address[32];
} grpc_proxy;

static bool is_listening(void *arg)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)grpc_proxy.port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool listening = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;

    (void)arg;
    (void)close(fd);
    return listening;
}

static void proxy_start(void)
{
    const char *const argv[] = {
        "etcd",          "grpc-proxy",       "start", "--endpoints", server.hosts,
        "--listen-addr", grpc_proxy.address, NULL};
    const char *directory = server.members[0].directory;

    grpc_proxy.port = dlt_port_free();
    (void)snprintf(grpc_proxy.address, sizeof grpc_proxy.address, "127.0.0.1:%u", grpc_proxy.port);
    grpc_proxy.pid = dlt_process_spawn(directory, argv, NULL);
    cr_assert_gt(grpc_proxy.pid, 0);
    cr_assert(dlt_process_wait(&grpc_proxy.pid, is_listening, NULL));
}

static void proxy_tear_down(void)
{
    dlt_process_kill(&grpc_proxy.pid);
    tear_down();
}

TestSuite(proxied, .fini = proxy_tear_down);

/* It would grant locks that cannot be renewed. */
Test(proxied, OPN_1_CONFIG_for_a_grpc_proxy)
{
    start(NULL);
    proxy_start();
    e_target("etcd", grpc_proxy.address, NULL, NULL);
    for (int i = 0; i < 10; i++)
        e_want_open(DLOCK_CONFIG, "grpc-proxy");
    e_target("etcd", server.members[0].address, NULL, NULL);
    e_want_open(DLOCK_OK, "");
}

/* ---- a cluster with users ---- */

static void start_auth(const char *const *args)
{
    start(args);
    cr_assert(dlt_etcd_auth(&server, "locks/"), "%s", server.why);
    e.s.target.user = "u";
    e.s.target.password = "secret";
}

TestSuite(auth, .fini = tear_down);

Test(auth, OPN_3_AUTH)
{
    start_auth(NULL);
    e_want_open(DLOCK_OK, "");
    e.s.target.password = "secretly wrong";
    e_want_open(DLOCK_AUTH, "authentication failed");
    e.s.target.user = "nobody";
    e_want_open(DLOCK_AUTH, "authentication failed");
    e.s.target.password = NULL;
    e_want_open(DLOCK_AUTH, "needs a password");
    e.s.target.user = NULL;
    e_want_open(DLOCK_AUTH, "want a login");
}

Test(auth, a_user_without_rights_on_the_keys_is_AUTH_and_nothing_is_executed)
{
    size_t found = 1;

    start_auth(NULL);
    e.s.target.path = "/other"; /* rights may be on some names only: it opens */
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(e_put("other/a"), DLOCK_AUTH, "%s", e.s.err.message);
    cr_assert(strstr(e.s.err.message, "permission denied") != NULL, "%s", e.s.err.message);
    cr_assert_eq(e.s.err.code, 7);
    cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(e_get("locks/a", &found), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(found, 1);
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
Test(auth, SEC_1_a_password_that_was_rotated_is_tried_at_once)
{
    start_auth(NULL);
    e.s.target.read_secret = read_rotating;
    e.s.target.password = "secretly old";
    rotated = "secret";
    e_want_open(DLOCK_OK, "");
    cr_assert_eq(readings, 2);
    readings = 0;
    rotated = "secretly wrong";
    e_want_open(DLOCK_AUTH, "authentication failed");
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

Test(auth, SEC_1_a_password_that_cannot_be_read)
{
    start_auth(NULL);
    e.s.target.read_secret = read_failing;
    e_want_open(DLOCK_CONFIG, "pass_file=/gone");
}

/* Tokens of this server end a second after their last use. */
Test(auth, C14_a_token_that_has_expired_is_renewed_before_the_call_is_sent_again)
{
    static const char *const args[] = {"--auth-token-ttl", "1", NULL};
    struct etcd_connection *before = NULL;
    bool fresh = true;

    start_auth(args);
    cr_assert_eq(e_open(), DLOCK_OK, "%s", e.s.err.message);
    cr_assert_eq(etcd_endpoints_take(&e.endpoints, e_deadline(), &before, &fresh, &e.s.err),
                 DLOCK_OK);
    cr_assert(!fresh);
    for (int i = 0; i < 10 && e.endpoints.present == before; i++) {
        dlt_sleep_ms(1500);
        cr_assert_eq(e_put("locks/a"), DLOCK_OK, "%s", e.s.err.message);
    }
    cr_assert_neq(e.endpoints.present, before, "the token has not expired");
    etcd_endpoints_put(&e.endpoints, before);
}
