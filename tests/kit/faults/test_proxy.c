/* SPDX-License-Identifier: MIT */
/* Does the proxy do to a connection what it is told, and nothing else? Each order is in force when
 * its answer is there, so that no test sleeps before it looks. */
#include "address.h"
#include "proxy_fixture.h"
#include "ruler.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(proxy, .fini = stop, .timeout = 20);

Test(proxy, passes_and_counts)
{
    int a, b;

    start("resp");
    a = client_greeted(PING);
    b = client_greeted(SET SET);
    tell("await s2c.frames>=3 1000");
    cr_assert_not(dlt_proxy_tell(&proxy, "await s2c.frames>=4 30"));
    cr_assert_not(dlt_proxy_tell(&proxy, "await s2c.frames=2 30"));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.frames"), 3);
    cr_assert_eq(dlt_proxy_count(&proxy, 2, "s2c.frames"), 2);
    cr_assert_eq(dlt_proxy_count(&proxy, 1, "c2s.bytes"), strlen(PING));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "accepted"), 2);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "nonsense"), -1);
    (void)close(a);
    tell("await open=1 1000");
    cr_assert_eq(net_next(b, QUIET), '-');
    (void)close(b);
    tell("await open=0 1000");
}

Test(proxy, a_frame_goes_on_when_it_is_whole)
{
    int a;

    start("resp");
    a = client();
    cr_assert(net_send(a, "*1\r\n$4\r\nPI"));
    cr_assert_eq(net_next(a, QUIET), '-');
    cr_assert(net_send(a, "NG\r\n"));
    cr_assert(net_expect(a, PING, SOON));
}

Test(proxy, half_a_frame_goes_on_with_the_end_of_the_stream)
{
    int a;

    start("resp");
    a = client();
    cr_assert(net_send(a, "*1\r\n$4\r\nPI"));
    (void)close(a);
    cr_assert(net_journal_is("*1\r\n$4\r\nPI", SOON));
}

Test(proxy, blackhole_is_a_half_open_link_that_heals)
{
    int a;

    start("resp");
    a = client_greeted(PING);
    tell("blackhole c2s");
    cr_assert(net_send(a, SET));
    tell("await c2s.seen>=2 1000");
    cr_assert_eq(net_next(a, QUIET), '-');
    cr_assert(net_journal_is(PING, 0));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.swallowed"), 1);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "s2c.swallowed"), 0);
    tell("pass c2s");
    cr_assert(net_expect(a, SET, SOON));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.swallowed"), 1);
}

Test(proxy, blackhole_back_lets_the_request_through)
{
    int a;

    start("resp");
    a = client_greeted(PING);
    tell("blackhole s2c conn=1");
    cr_assert(net_send(a, SET));
    cr_assert(net_journal_is(PING SET, SOON));
    tell("await s2c.seen>=2 1000");
    cr_assert_eq(net_next(a, QUIET), '-');
    cr_assert(net_send(client_greeted(PING), SET)); /* others are not concerned */
}

Test(proxy, blackhole_hides_the_end_of_the_stream)
{
    int a;

    start("raw");
    a = client_greeted("x");
    tell("blackhole both");
    (void)close(a);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "open"), 1);
    cr_assert_not(dlt_proxy_tell(&proxy, "await open=0 60"));
    tell("pass");
    tell("await open=0 1000");
}

Test(proxy, blackhole_waits_for_connections_to_come)
{
    int a, b;

    start("raw");
    tell("blackhole both conn=2");
    a = client_greeted("x");
    b = client();
    cr_assert(net_send(b, "y"));
    cr_assert_eq(net_next(b, QUIET), '-');
    tell("pass conn=2");
    cr_assert(net_expect(b, "y", SOON));
    (void)close(a);
}

Test(proxy, held_frame_is_delivered_on_demand)
{
    int a;

    start("resp");
    tell("hold c2s 2");
    a = client_greeted(PING);
    cr_assert(net_send(a, SET PING));
    tell("await c2s.held=1 1000");
    cr_assert_eq(net_next(a, QUIET), '-'); /* what follows in the stream waits behind it */
    tell("deliver");
    cr_assert(net_expect(a, SET PING, SOON));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.held"), 0);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.withheld"), 1);
}

Test(proxy, held_frame_arrives_after_its_client_is_gone_and_after_anothers)
{
    int a, b;

    start("resp");
    a = client_greeted(PING);
    b = client_greeted(PING);
    tell("hold c2s +1 match=SET");
    cr_assert(net_send(a, SET));
    tell("await c2s.held=1 1000");
    (void)close(a);
    cr_assert(net_send(b, PING));
    cr_assert(net_expect(b, PING, SOON));
    tell("deliver conn=1");
    cr_assert(net_journal_is(PING PING PING SET, SOON));
}

Test(proxy, held_frame_follows_on_anothers_traffic_by_itself)
{
    int a, b;

    start("resp");
    a = client_greeted(PING);
    b = client_greeted(PING);
    tell("hold c2s +1 match=SET until=s2c:2");
    cr_assert(net_send(a, SET));
    tell("await c2s.held=1 1000");
    cr_assert(net_send(b, PING));
    cr_assert(net_expect(b, PING, SOON));
    cr_assert_eq(dlt_proxy_count(&proxy, 1, "c2s.held"), 1);
    cr_assert(net_send(b, PING));
    cr_assert(net_expect(b, PING, SOON));
    cr_assert(net_expect(a, SET, SOON));
    cr_assert(net_journal_is(PING PING PING PING SET, SOON));
}

/* Nobody listens at first; the port is free, and ours from then on. */
Test(proxy, waits_for_a_server_that_is_late)
{
    char server[128] = "127.0.0.1:0";
    struct dlt_address address;
    int fd = -1, bound = -1;

    cr_assert(dlt_address_parse(server, &address));
    bound = dlt_address_listen(&address, -1);
    dlt_address_print(&address, server, sizeof server);
    cr_assert(
        dlt_proxy_start(&proxy, server, "raw", &(struct dlt_proxy_options){.patience_ms = SOON}));
    fd = client();
    cr_assert(net_send(fd, PING));
    cr_assert_eq(net_next(fd, QUIET), '-', "it is neither served nor cut off");
    (void)close(bound);
    cr_assert(net_echo_start(server, sizeof server));
    cr_assert(net_expect(fd, PING, SOON));
    stop();
}

Test(proxy, held_reply_of_mysql)
{
    static const char first[] = "\x01\x01\x01", second[] = "\x02\x01\x01";
    char packets[2][0x10200];
    int a;

    /* Lengths without a zero byte, so that the kit can treat them as text. */
    for (int i = 0; i < 2; i++) {
        size_t len = (size_t)(i == 0 ? 0x010101 : 0x010102);

        cr_assert_gt(sizeof packets[i], len + 4);
        memcpy(packets[i], i == 0 ? first : second, 3);
        memset(packets[i] + 3, 'p', len + 1);
        packets[i][4 + len] = '\0';
    }
    start("mysql");
    tell("hold s2c +2");
    a = client();
    cr_assert(net_send(a, packets[0]));
    cr_assert(net_send(a, packets[1]));
    cr_assert(net_expect(a, packets[0], SOON * 2));
    cr_assert_eq(net_next(a, QUIET), '-');
    tell("await s2c.held=1 1000");
    tell("deliver");
    cr_assert(net_expect(a, packets[1], SOON * 2));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "s2c.frames"), 2);
}

Test(proxy, dropped_frame_is_gone_and_the_next_one_is_not)
{
    int a;

    start("resp");
    a = client();
    tell("drop c2s +2");
    cr_assert(net_send(a, PING SET PING));
    cr_assert(net_expect(a, PING PING, SOON));
    cr_assert(net_journal_is(PING PING, 0));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.dropped"), 1);
}

Test(proxy, drops_every_match)
{
    int a;

    start("resp");
    a = client();
    tell("drop c2s * match=SET");
    cr_assert(net_send(a, SET PING SET PING));
    cr_assert(net_expect(a, PING PING, SOON));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.dropped"), 2);
    tell("pass");
    cr_assert(net_send(a, SET));
    cr_assert(net_expect(a, SET, SOON));
}

Test(proxy, cuts_after_bytes_with_a_reset)
{
    int a;

    start("raw");
    a = client_greeted("hello");
    tell("cut s2c 3 rst");
    cr_assert(net_send(a, "world"));
    /* A reset may throw away what was not read yet. */
    tell("await cuts=1 1000");
    cr_assert_eq(dlt_proxy_count(&proxy, 1, "s2c.bytes"), 8);
    cr_assert_eq(net_next(a, SOON) == 'd' && net_expect(a, "wor", SOON) ? net_next(a, SOON) : 'r',
                 'r');
}

Test(proxy, cuts_after_bytes_with_an_end)
{
    int a;

    start("raw");
    a = client_greeted("hello");
    tell("cut s2c 3 fin");
    cr_assert(net_send(a, "world"));
    cr_assert(net_expect(a, "wor", SOON));
    cr_assert_eq(net_next(a, SOON), 'e');
}

Test(proxy, cuts_the_request_before_its_first_byte)
{
    int a;

    start("raw");
    a = client_greeted("hello");
    tell("cut c2s 0 rst");
    cr_assert_eq(net_next(a, QUIET), '-');
    cr_assert(net_send(a, "world"));
    cr_assert_eq(net_next(a, SOON), 'r');
    cr_assert(net_journal_is("hello", QUIET));
}

Test(proxy, cuts_and_leaves_the_connection_hanging)
{
    int a;

    start("raw");
    a = client_greeted("hello");
    tell("cut s2c 3 hang");
    cr_assert(net_send(a, "world"));
    cr_assert(net_expect(a, "wor", SOON));
    cr_assert_eq(net_next(a, QUIET), '-');
    tell("pass");
    cr_assert(net_expect(a, "ld", SOON));
}

Test(proxy, slices)
{
    int64_t began;
    int a;

    start("resp");
    a = client_greeted(PING);
    tell("slice s2c 1 10");
    began = net_now_ms();
    cr_assert(net_send(a, PING));
    cr_assert(net_expect(a, PING, SOON));
    cr_assert_geq(net_now_ms() - began, 10 * (int64_t)(strlen(PING) - 1));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "s2c.sliced"), (int64_t)strlen(PING) - 1);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.sliced"), 0);
}

Test(proxy, delays_and_keeps_the_order)
{
    int64_t began;
    int a;

    start("resp");
    a = client_greeted(PING);
    tell("delay both 50");
    began = net_now_ms();
    cr_assert(net_send(a, PING));
    cr_assert(net_send(a, SET));
    cr_assert(net_expect(a, PING SET, SOON));
    cr_assert_geq(net_now_ms() - began, 100);
    cr_assert(dlt_took_within(net_now_ms() - began, 5000), "%s", dlt_within_text());
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.delayed"), 2);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "s2c.delayed"), 2);
}

Test(proxy, kills_by_reset_or_end)
{
    int a, b;

    start("raw");
    a = client_greeted("x");
    b = client_greeted("x");
    tell("kill rst conn=1");
    cr_assert_eq(net_next(a, SOON), 'r');
    cr_assert_eq(net_next(b, 0), '-');
    tell("kill fin");
    cr_assert_eq(net_next(b, SOON), 'e');
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "open"), 0);
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "killed"), 2);
}

Test(proxy, passes_a_half_close_on)
{
    int a;

    start("raw");
    a = client_greeted("x");
    cr_assert_eq(shutdown(a, SHUT_WR), 0);
    cr_assert_eq(net_next(a, SOON), 'e');
    tell("await open=0 1000");
}

Test(proxy, wrong_orders_are_told)
{
    static const char *const bad[] = {
        "nonsense",
        "blackhole",
        "blackhole up",
        "delay c2s x",
        "cut c2s 1 maybe",
        "hold c2s 0",
        "hold both 1",
        "hold c2s 1 match=x",
        "hold c2s 1 until=c2s",
        "drop c2s 1 until=c2s:1",
        "await open 1",
        "await nonsense=1 1",
        "accept never",
        "pass conn=0",
        "kill hang",
        "pass \\q",
    };

    start("raw");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(dlt_proxy_tell(&proxy, "%s", bad[i]), "%s", bad[i]);
        cr_assert_eq(strncmp(proxy.answer, "error ", 6), 0, "%s: %s", bad[i], proxy.answer);
    }
    tell("pass");
}

Test(proxy, many_connections)
{
    enum { N = 40, ROUNDS = 600 };
    int fd[N];

    start("resp");
    for (int i = 0; i < N; i++)
        fd[i] = client_greeted(PING);
    for (int i = 0; i < N; i++)
        cr_assert(net_send(fd[i], SET));
    for (int i = 0; i < N; i++)
        cr_assert(net_expect(fd[i], SET, SOON));
    for (int i = 0; i < N; i++)
        (void)close(fd[i]);
    for (int i = 0; i < ROUNDS; i++) /* more than it keeps the counts of */
        (void)close(client_greeted(PING));
    tell("await open=0 1000");
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.frames"), 2 * N + ROUNDS);
}
