/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/servers.c */
/* The first words with servers that answer, do not, or are no ZooKeeper. */
#include "servers.h"
#include "session_kit.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEERS_MAX 3

/* A server in a thread of the test. */
struct peer {
    const void *answer; /* NULL: none */
    size_t len, piece;  /* piece: bytes sent at a time; 0: all */
    bool closes;        /* after the answer; otherwise the test ends it */
    unsigned refusals;  /* so many connections are closed without an answer */
    int fd;
    unsigned port;
    unsigned char heard[128]; /* of the last connection */
    size_t heard_len;
    _Atomic unsigned connections;
    pthread_t thread;
};

static struct peer peers[PEERS_MAX];
static struct dlt_host host;
static struct zk_config config;
static struct zk_servers greeting;
static struct dlock_error err;
static int64_t took_ms;

/* timeOut 4000, session 0x1122334455667788, a password of 16 bytes, not read-only */
static const unsigned char good[] = {
    0, 0, 0,  37, 0, 0, 0, 0, 0, 0, 0x0f, 0xa0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0,
    0, 0, 16, 1,  2, 3, 4, 5, 6, 7, 8,    9,    10,   11,   12,   13,   14,   15,   16,   0};

static void talk(struct peer *peer, int fd)
{
    ssize_t len = 0;

    bool refuses = peer->connections <= peer->refusals;

    peer->heard_len = 0;
    do {
        len = read(fd, peer->heard + peer->heard_len, sizeof peer->heard - peer->heard_len);
        if (len > 0)
            peer->heard_len += (size_t)len;
    } while (len > 0 && peer->heard_len < 49);
    for (size_t at = 0; peer->answer != NULL && !refuses && at < peer->len;) {
        size_t left = peer->len - at;
        size_t piece = peer->piece > 0 && peer->piece < left ? peer->piece : left;

        if (send(fd, (const char *)peer->answer + at, piece, MSG_NOSIGNAL) < 0)
            break;
        at += piece;
        if (at < peer->len)
            dlt_sleep_ms(2);
    }
    while (!peer->closes && !refuses && len > 0) {
        len = read(fd, peer->heard + peer->heard_len, sizeof peer->heard - peer->heard_len);
        if (len > 0)
            peer->heard_len += (size_t)len;
    }
    (void)close(fd);
}

static void *serve(void *arg)
{
    struct peer *peer = arg;

    for (;;) {
        int fd = accept(peer->fd, NULL, NULL);

        if (fd < 0)
            return NULL;
        peer->connections++;
        talk(peer, fd);
    }
}

static void peer_start(size_t i)
{
    struct peer *peer = &peers[i];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(peer->fd, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(peer->fd, 8), 0);
    cr_assert_eq(getsockname(peer->fd, (struct sockaddr *)&at, &size), 0);
    peer->port = ntohs(at.sin_port);
    cr_assert_eq(pthread_create(&peer->thread, NULL, serve, peer), 0);
    (void)snprintf(config.servers[i].host, sizeof config.servers[i].host, "127.0.0.1");
    config.servers[i].port = (uint16_t)peer->port;
    if (config.count <= i)
        config.count = i + 1;
}

static void peer_stop(size_t i)
{
    if (peers[i].thread == 0)
        return;
    (void)shutdown(peers[i].fd, SHUT_RDWR);
    (void)pthread_join(peers[i].thread, NULL);
    (void)close(peers[i].fd);
    peers[i].thread = 0;
}

static void set_up(void)
{
    dlt_host_init_running(&host);
    peers[0] = (struct peer){.answer = good, .len = sizeof good};
}

static void tear_down(void)
{
    for (size_t i = 0; i < PEERS_MAX; i++)
        peer_stop(i);
}

TestSuite(greet, .init = set_up, .fini = tear_down);

static enum dlock_status greet(int64_t ms)
{
    int64_t begun_ns = dlt_host_now(&host);
    enum dlock_status status = DLOCK_INTERNAL;

    err = (struct dlock_error)DLOCK_ERROR_INIT;
    status = zk_servers_ask(&greeting, &config, &host.table, dlt_host_in(&host, ms), &err);
    took_ms = (dlt_host_now(&host) - begun_ns) / DLT_NS_PER_MS;
    return status;
}

static void want_ok(void)
{
    cr_assert_eq(greet(2000), DLOCK_OK, "%s", err.message);
    cr_assert_str_eq(err.message, "");
}

static void want(enum dlock_status status, const char *text)
{
    cr_assert_eq(greet(400), status, "%d: %s", (int)err.status, err.message);
    cr_assert(strstr(err.message, text) != NULL, "\"%s\" has no \"%s\"", err.message, text);
    cr_assert(strstr(err.message, "127.0.0.1:") != NULL, "%s", err.message);
    cr_assert_str_eq(err.origin, ZK_ORIGIN);
    cr_assert(dlt_took_within(took_ms, 4000), "%s", dlt_within_text());
}

Test(greet, the_least_session)
{
    char text[64];

    peer_start(0);
    want_ok();
    cr_assert_eq(greeting.least_ms, 4000);
    (void)snprintf(text, sizeof text, "127.0.0.1:%u", peers[0].port);
    cr_assert_str_eq(greeting.hosts, text);
    cr_assert_str_eq(greeting.endpoint, text);
}

Test(greet, what_is_sent_is_a_session_of_a_millisecond_and_its_end)
{
    static const unsigned char sent[] = {0, 0, 0, 45, 0, 0, 0, 0, 0, 0,   0,   0,   0,  0, 0, 0,
                                         0, 0, 0, 1,  0, 0, 0, 0, 0, 0,   0,   0,   0,  0, 0, 16,
                                         0, 0, 0, 0,  0, 0, 0, 0, 0, 0,   0,   0,   0,  0, 0, 0,
                                         0, 0, 0, 0,  8, 0, 0, 0, 1, 255, 255, 255, 245};

    peer_start(0);
    want_ok();
    peer_stop(0);
    cr_assert_eq(peers[0].heard_len, sizeof sent);
    cr_assert_eq(memcmp(peers[0].heard, sent, sizeof sent), 0);
}

Test(greet, an_answer_in_pieces)
{
    peers[0].piece = 1;
    peer_start(0);
    want_ok();
    cr_assert_eq(greeting.least_ms, 4000);
}

Test(greet, a_server_before_3_4)
{
    unsigned char old[40];

    memcpy(old, good, sizeof old);
    old[3] = 36;
    peers[0].answer = old;
    peers[0].len = sizeof old;
    peer_start(0);
    want_ok();
    cr_assert_eq(greeting.least_ms, 4000);
}

Test(greet, OPN_3_nobody_listens)
{
    peer_start(0);
    peer_stop(0);
    want(DLOCK_UNAVAILABLE, "Connection refused");
}

Test(greet, OPN_3_a_server_that_says_nothing)
{
    peers[0].answer = NULL;
    peer_start(0);
    want(DLOCK_UNAVAILABLE, "time");
    cr_assert_geq(took_ms, 350);
}

Test(greet, OPN_3_a_server_without_a_leader_closes_the_connection)
{
    peers[0].answer = NULL;
    peers[0].closes = true;
    peer_start(0);
    want(DLOCK_UNAVAILABLE, "no leader");
    cr_assert_geq(peers[0].connections, 3, "%u attempts", peers[0].connections);
}

Test(greet, servers_that_elect_a_leader_are_asked_again)
{
    peers[0].refusals = 3;
    peer_start(0);
    want_ok();
    cr_assert_eq(peers[0].connections, 4);
    cr_assert_geq(took_ms, 150);
}

Test(greet, nobody_listens_and_that_is_said_at_once)
{
    peer_start(0);
    peer_stop(0);
    cr_assert_eq(greet(20000), DLOCK_UNAVAILABLE);
    cr_assert(dlt_took_within(took_ms, 10000), "%s", dlt_within_text());
}

Test(greet, OPN_3_half_an_answer)
{
    peers[0].len = 20;
    peers[0].closes = true;
    peer_start(0);
    want(DLOCK_UNAVAILABLE, "closed");
}

Test(greet, OPN_3_another_protocol)
{
    static const char *const said[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                       "-ERR unknown command\r\n"};

    peer_start(0);
    for (size_t i = 0; i < 2; i++) {
        peers[0].answer = said[i];
        peers[0].len = strlen(said[i]);
        want(DLOCK_PROTOCOL, "no ZooKeeper");
    }
}

Test(greet, OPN_3_answers_of_another_form)
{
    static const struct {
        size_t at;
        unsigned char byte;
    } wrong[] = {{3, 35}, {3, 38}, {0, 255}, {7, 1}, {8, 128}, {23, 15}};

    peer_start(0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        unsigned char bytes[sizeof good];

        memcpy(bytes, good, sizeof good);
        bytes[wrong[i].at] = wrong[i].byte;
        peers[0].answer = bytes;
        peers[0].len = sizeof bytes;
        want(DLOCK_PROTOCOL, "no ZooKeeper");
    }
}

Test(greet, OPN_3_a_session_of_no_time)
{
    unsigned char bytes[sizeof good];

    memcpy(bytes, good, sizeof good);
    memset(bytes + 8, 0, 4);
    peers[0].answer = bytes;
    peer_start(0);
    want(DLOCK_PROTOCOL, "no ZooKeeper");
}

Test(greet, the_first_server_that_answers_counts)
{
    char hosts[128], endpoint[64];

    peers[0].answer = NULL; /* silent */
    peers[1] = (struct peer){.closes = true};
    peers[2] = (struct peer){.answer = good, .len = sizeof good};
    for (size_t i = 0; i < PEERS_MAX; i++)
        peer_start(i);
    cr_assert_eq(greet(6300), DLOCK_OK, "%s", err.message);
    cr_assert(dlt_took_within(took_ms, 4200), "a third for each: %s", dlt_within_text());
    (void)snprintf(hosts, sizeof hosts, "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", peers[0].port,
                   peers[1].port, peers[2].port);
    cr_assert_str_eq(greeting.hosts, hosts);
    (void)snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", peers[2].port);
    cr_assert_str_eq(greeting.endpoint, endpoint);
    cr_assert_str_eq(err.message, "", "of the servers before");
}

/* Before or behind one that is down. */
Test(greet, C8_a_server_of_another_kind_ends_no_wait)
{
    static const char said[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    const struct peer other = {.answer = said, .len = sizeof said - 1};

    for (size_t i = 0; i < 2; i++) {
        peers[i] = other;
        peer_start(i);
        peers[1 - i] = other;
        peer_start(1 - i);
        peer_stop(1 - i);
        want(DLOCK_UNAVAILABLE, "Connection refused");
        peer_stop(i);
    }
}

Test(greet, a_name_that_nobody_knows)
{
    (void)snprintf(config.servers[0].host, sizeof config.servers[0].host, "no-such-host.invalid");
    config.servers[0].port = 2181;
    config.count = 1;
    cr_assert_eq(greet(2000), DLOCK_UNAVAILABLE);
    cr_assert(strstr(err.message, "no-such-host.invalid:2181: looking up the host") != NULL, "%s",
              err.message);
}

Test(greet, servers_with_unknown_names_are_left_out)
{
    char text[64];

    peers[1] = peers[0];
    peer_start(1);
    (void)snprintf(config.servers[0].host, sizeof config.servers[0].host, "no-such-host.invalid");
    config.servers[0].port = 2181;
    want_ok();
    (void)snprintf(text, sizeof text, "127.0.0.1:%u", peers[1].port);
    cr_assert_str_eq(greeting.hosts, text);
}

Test(greet, the_addresses_of_a_name)
{
    char text[64];

    peer_start(0);
    (void)snprintf(config.servers[0].host, sizeof config.servers[0].host, "localhost");
    want_ok();
    (void)snprintf(text, sizeof text, "127.0.0.1:%u", peers[0].port);
    cr_assert(strstr(greeting.hosts, text) != NULL, "%s", greeting.hosts);
    (void)snprintf(text, sizeof text, "localhost:%u", peers[0].port);
    cr_assert_str_eq(greeting.endpoint, text);
}

Test(greet, an_address_that_another_one_begins_with)
{
    char hosts[96];

    peer_start(0);
    config.servers[1] = config.servers[0];
    config.servers[1].port = (uint16_t)(config.servers[0].port / 10);
    config.servers[2] = config.servers[0];
    config.count = 3;
    want_ok();
    (void)snprintf(hosts, sizeof hosts, "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", peers[0].port,
                   peers[0].port / 10, peers[0].port);
    cr_assert_str_eq(greeting.hosts, hosts);
}

Test(greet, no_time_is_left)
{
    peer_start(0);
    cr_assert_eq(greet(0), DLOCK_UNAVAILABLE);
    cr_assert(dlt_took_within(took_ms, 3000), "%s", dlt_within_text());
}
