/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/probe.c plugins/zookeeper/plugin.c */
/* What slot probe tells people about an ensemble, and what a session says of itself. */
#include "zk_kit.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct dlt_zk server;
static struct dlt_zk_client other;
static struct dlt_session s;
static char said[8192]; /* "name: found; advice\n" of each check */

static void tear_down(void)
{
    dlt_session_close(&s);
    if (other.fd > 0)
        dlt_zk_client_close(&other);
    dlt_zk_stop(&server);
}

TestSuite(probe, .fini = tear_down, .timeout = 90);

static bool note(void *arg, const struct dlock_check *check)
{
    size_t len = strlen(said);

    (void)arg;
    cr_assert_eq(check->struct_size, sizeof *check);
    cr_assert_eq(check->clears, 0);
    (void)snprintf(said + len, sizeof said - len, "%s: %s; %s\n", check->name, check->found,
                   check->advice != NULL ? check->advice : "fine");
    return false;
}

static enum dlock_status probe(void)
{
    said[0] = '\0';
    memset(&s.info, 0, sizeof s.info);
    s.info.struct_size = sizeof s.info;
    s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    return s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &s.info, note, NULL, &s.err);
}

static void probe_ok(void)
{
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(s.err.message, "");
}

static void says(const char *text)
{
    cr_assert(strstr(said, text) != NULL, "\"%s\" is not in\n%s", text, said);
}

static void session_open(void)
{
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

static void open_at_one(const char *const *lines)
{
    cr_assert(dlt_zk_start(&server, lines), "%s", server.why);
    dlt_session_init(&s, &server);
}

/* ---- servers ---- */

Test(probe, an_ensemble)
{
    cr_assert(dlt_zk_start_cluster(&server, 3, NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    session_open();
    probe_ok();
    says("server 1: 127.0.0.1:");
    says(server.members[2].address);
    says("leader; fine");
    says("follower; fine");
    says("timeout 4600 ms: the ttl is 4000 ms at most; fine");
    says("tick: 200 ms, assumed: half of the shortest session of the servers; fine");
    says("base: /dlock; fine");
    says("acl: open");
    cr_assert_eq(strncmp(s.info.server, "ZooKeeper 3.", 12), 0, "%s", s.info.server);
    cr_assert(strstr(server.hosts, s.info.endpoint) != NULL, "%s", s.info.endpoint);
    cr_assert_eq(s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &s.info, NULL, NULL, &s.err),
                 DLOCK_OK, "without anybody who is told");
}

Test(probe, an_ensemble_without_one_server_and_without_two)
{
    cr_assert(dlt_zk_start_cluster(&server, 3, NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    session_open();
    dlt_zk_kill(&server, 2);
    cr_assert(dlt_zk_settled(&server));
    probe_ok();
    says("Connection refused; the others serve without it");
    says("leader; fine");
    dlt_zk_kill(&server, 1);
    dlt_sleep_ms(1000);
    cr_assert_eq(probe(), DLOCK_UNAVAILABLE, "%d: %s", (int)s.err.status, s.err.message);
    says(", without a quorum; it takes no locks until it is connected to a majority");
}

Test(probe, one_server)
{
    static const char *const lines[] = {"tickTime=100", "maxSessionTimeout=20000", NULL};

    open_at_one(lines);
    dlt_session_option(&s, "ttl", "60000");
    session_open();
    cr_assert_eq(s.info.ttl_least_ms, 19700);
    cr_assert_eq(s.info.ttl_most_ms, 19700);
    cr_assert_eq(s.info.ttl_step_ms, 0);
    cr_assert_eq(s.info.caps & DLOCK_CAP_TETHERED, DLOCK_CAP_TETHERED);
    cr_assert_eq(s.info.caps & DLOCK_CAP_RWLOCK, DLOCK_CAP_RWLOCK);
    cr_assert_str_eq(s.info.endpoint, server.members[0].address);
    probe_ok();
    says("standalone; while it is down there are no locks");
    says("the ttl is 19700 ms at most; the servers do not give the ttl that was asked for");
    says("tick: 100 ms, assumed");
    cr_assert_eq(s.info.ttl_most_ms, 19700);
    dlt_session_close(&s);
    dlt_session_option(&s, "tick", "250");
    dlt_session_option(&s, "ttl", "1000");
    dlt_session_option(&s, "recipe", "curator");
    session_open();
    cr_assert_eq(s.info.ttl_most_ms, 1000);
    cr_assert_eq(s.info.caps & DLOCK_CAP_RWLOCK, 0, "Curator's mutex has no readers");
    probe_ok();
    says("tick: 250 ms, from tick= of the URI; fine");
    cr_assert_eq(s.info.caps & DLOCK_CAP_RWLOCK, 0);
}

/* ---- what does not look like a server ---- */

struct fake {
    int fd;
    const char *answer;
    char address[32];
};

/* Its port is taken, and nobody listens. */
static void fake_init(struct fake *fake)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;

    fake->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fake->fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(getsockname(fake->fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(fake->address, sizeof fake->address, "127.0.0.1:%u",
                   (unsigned)ntohs(address.sin_port));
}

/* Answers one question. */
static void *fake_run(void *arg)
{
    const struct fake *fake = arg;
    int fd = accept4(fake->fd, NULL, NULL, SOCK_CLOEXEC);
    char word[4];

    if (recv(fd, word, sizeof word, MSG_WAITALL) == 4 && memcmp(word, "srvr", 4) == 0)
        (void)send(fd, fake->answer, strlen(fake->answer), MSG_NOSIGNAL);
    (void)close(fd);
    return NULL;
}

static void probe_with(struct fake *fake, const char *answer)
{
    pthread_t thread;

    fake->answer = answer;
    cr_assert_eq(listen(fake->fd, 8), 0);
    cr_assert_eq(pthread_create(&thread, NULL, fake_run, fake), 0);
    probe_ok();
    (void)pthread_join(thread, NULL);
}

Test(probe, servers_that_say_little)
{
    struct fake fake;

    open_at_one(NULL);
    fake_init(&fake);
    s.hosts[1] = fake.address;
    session_open();
    probe_ok();
    says("server 2: 127.0.0.1:");
    says("Connection refused");
    probe_with(&fake, "srvr is not executed because it is not in the whitelist.\n");
    says("version and mode are not known, as srvr is not in its 4lw.commands.whitelist; fine");
    probe_with(&fake, "This ZooKeeper instance is not currently serving requests\n");
    says(", without a quorum; it takes no locks until");
    probe_with(&fake,
               "Zookeeper version: 3.8.0-5a02, built on x\nMode: read-only\nNode count: 5\n");
    says("ZooKeeper 3.8.0, read-only; it takes no locks: it is cut off");
    probe_with(&fake, "Zookeeper version: 3.4.14-x, built on x\nMode: follower\n");
    says("ZooKeeper 3.4.14, follower; it takes no locks: dlock needs ZooKeeper 3.5");
    probe_with(&fake, "HTTP/1.1 400 Bad Request\r\n\r\n");
    says("not an answer of ZooKeeper; it takes no locks: correct it");
    probe_with(&fake, "");
    says("server 2: 127.0.0.1:");
    says("it closed the connection; the others serve without it");
    cr_assert(strstr(said, "server 1: 127.0.0.1:") != NULL);
    (void)close(fake.fd);
}

Test(probe, C8_servers_that_say_nothing)
{
    struct fake fake;
    int64_t begun_ns = 0;

    open_at_one(NULL);
    fake_init(&fake);
    s.hosts[1] = fake.address;
    session_open();
    cr_assert_eq(listen(fake.fd, 8), 0);
    begun_ns = dlt_host_now(&s.host);
    probe_ok();
    cr_assert(dlt_host_within(&s.host, begun_ns, 5000), "%s", dlt_within_text());
    says("base: /dlock; fine");
    (void)close(fake.fd);
}

/* ---- nodes ---- */

static void foreign(const char *name, const char *prefix)
{
    (void)dlt_zk_client_ask(&other, "create /dlock");
    (void)dlt_zk_client_ask(&other, "create /dlock/%s", name);
    cr_assert_eq(dlt_zk_client_ask(&other, "create -e -s /dlock/%s/%s", name, prefix)[0], '/');
}

Test(probe, recipes_that_do_not_exclude_each_other)
{
    open_at_one(NULL);
    cr_assert(dlt_zk_client_open(&other, &server.members[0], 60000));
    session_open();
    (void)dlt_zk_client_ask(&other, "create /dlock");
    (void)dlt_zk_client_ask(&other, "create /dlock/a");
    probe_ok();
    says("recipes: curator-rw in the URI; no names in use; fine");
    foreign("a", "_c_1b2a3c4d-0000-4000-8000-000000000001-__WRIT__");
    foreign("a", "_c_1b2a3c4d-0000-4000-8000-000000000001-__READ__");
    foreign("a", "notes");
    probe_ok();
    says("names in use: 1 of curator-rw, 0 of curator, 0 of kazoo, 0 of several; fine");
    foreign("b", "0123456789abcdef0123456789abcdef__lock__");
    probe_ok();
    says("1 of curator-rw, 0 of curator, 1 of kazoo, 0 of several; programs with another recipe");
    foreign("b", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-");
    probe_ok();
    says(
        "1 of curator-rw, 1 of curator, 1 of kazoo, 1 of several; programs with different recipes");
}

Test(probe, rights)
{
    open_at_one(NULL);
    (void)dlt_zk_ask(&server, "create /dlock");
    s.target.user = "u";
    s.target.password = "secret";
    session_open();
    probe_ok();
    says("acl: creator");
    says("base: /dlock; fine");
    (void)dlt_zk_ask(&server, "setAcl /dlock digest:other:x:r");
    probe_ok();
    says("base: /dlock; there are nodes below it that this user may not read");
    cr_assert(strstr(said, "secret") == NULL, "C17");
}

Test(probe, UNAVAILABLE_a_server_that_is_gone)
{
    open_at_one(NULL);
    session_open();
    dlt_zk_kill(&server, 0);
    cr_assert_eq(probe(), DLOCK_UNAVAILABLE, "%d: %s", (int)s.err.status, s.err.message);
    says("server 1: 127.0.0.1:");
    says("Connection refused");
}
