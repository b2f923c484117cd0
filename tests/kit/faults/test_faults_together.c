/* SPDX-License-Identifier: MIT */
/*
 * The proxy in front of a scripted server: can a test set up what backends of a network have to
 * survive, and prove what the server saw? Each case is one that a careless client gets wrong; the
 * client here is careless, so that the case is seen to bite.
 */
#include "faults.h"
#include "net_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOON  10000
#define QUIET 60

#define RENEW   "*3\r\n$7\r\nPEXPIRE\r\n$1\r\nk\r\n$4\r\n2000\r\n"
#define RELEASE "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"
#define GET     "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

static struct dlt_scripted server;
static struct dlt_proxy proxy;

static void start(const char *framing, const char *script)
{
    cr_assert(dlt_scripted_start(&server, script), "%s", server.report);
    cr_assert(dlt_proxy_start(&proxy, server.address, framing, NULL), "%s", proxy.answer);
}

static int client(void)
{
    int fd = net_connect(proxy.address, SOON);

    cr_assert_geq(fd, 0);
    return fd;
}

static void finish(void)
{
    cr_assert(dlt_scripted_finish(&server, SOON), "%s", server.report);
    cr_assert(dlt_proxy_stop(&proxy));
}

#define tell(...) cr_assert(dlt_proxy_tell(&proxy, __VA_ARGS__), "%s", proxy.answer)

TestSuite(together, .timeout = 20);

/* A request that timed out is answered in the place of the next one. */
Test(together, late_reply_is_taken_for_the_next_one)
{
    int fd;

    start("resp", "conn\n"
                  "command GET k\n"
                  "send \"$3\\r\\nold\\r\\n\"\n"
                  "command GET k\n"
                  "send \"$3\\r\\nnew\\r\\n\"\n"
                  "end\n");
    fd = client();
    tell("hold s2c +1");
    cr_assert(net_send(fd, GET));
    tell("await s2c.held=1 2000");
    cr_assert_eq(net_next(fd, QUIET), '-'); /* the time out */
    tell("deliver");
    cr_assert(net_send(fd, GET));
    cr_assert(net_expect(fd, "$3\r\nold\r\n", SOON));
    cr_assert(net_expect(fd, "$3\r\nnew\r\n", SOON));
    (void)close(fd);
    finish();
}

/* A renewal arrives after the release that its client sent on another connection. */
Test(together, renewal_arrives_after_the_release)
{
    int slow, fast;

    start("resp", "conn\n"
                  "command PEXPIRE k *\n"
                  "send \":0\\r\\n\"\n"
                  "end\n"
                  "conn\n"
                  "command DEL k\n"
                  "send \":1\\r\\n\"\n"
                  "end\n");
    slow = client();
    fast = client();
    tell("hold c2s +1 match=PEXPIRE until=s2c:1");
    cr_assert(net_send(slow, RENEW));
    tell("await c2s.held=1 2000");
    cr_assert(net_send(fast, RELEASE));
    cr_assert(net_expect(fast, ":1\r\n", SOON));
    cr_assert(net_expect(slow, ":0\r\n", SOON));
    (void)close(slow);
    (void)close(fast);
    finish();
}

/* The server ran the request; the client cannot know. */
Test(together, reply_is_lost_with_the_connection)
{
    int fd;

    start("resp",
          "conn\n"
          "command DEL k\n"
          "send \":1\\r\\n\"\n"
          "any\n"); /* until the reset arrives here too: an end that the script did not want */
    fd = client();
    tell("cut s2c 0 rst");
    cr_assert(net_send(fd, RELEASE));
    cr_assert_eq(net_next(fd, SOON), 'r');
    cr_assert_not(dlt_scripted_finish(&server, SOON));
    cr_assert_not_null(strstr(server.report, "line 4, connection 1: another frame expected, got "
                                             "\"\" (connection ended)"),
                       "%s", server.report);
    cr_assert(dlt_proxy_stop(&proxy));
}

/* The first packet of MySQL comes from the server, byte by byte. */
Test(together, greeting_dribbles)
{
    int64_t began = net_now_ms();
    char got[9];
    int fd;

    start("mysql", "conn\n"
                   "send-packet 0 hello\n"
                   "packet 1 **\n"
                   "close\n");
    tell("slice s2c 1 20");
    fd = client();
    for (size_t i = 0; i < sizeof got; i++)
        cr_assert_eq(read(fd, got + i, 1), 1);
    cr_assert_arr_eq(got, "\x05\0\0\0hello", sizeof got);
    cr_assert_geq(net_now_ms() - began, 8 * 20);
    cr_assert_eq(write(fd, "\x01\0\0\x01x", 5), 5);
    cr_assert_eq(net_next(fd, SOON), 'e');
    finish();
}

/* A restart, as a client sees it: refused, then served. */
Test(together, server_that_is_gone_and_back)
{
    int fd;

    start("resp", "conn\n"
                  "command GET k\n"
                  "send \"$-1\\r\\n\"\n");
    tell("accept refuse");
    cr_assert_lt(net_connect(proxy.address, SOON), 0);
    tell("accept on");
    fd = client();
    cr_assert(net_send(fd, GET));
    cr_assert(net_expect(fd, "$-1\r\n", SOON));
    cr_assert_eq(net_next(fd, SOON), 'e');
    finish();
}

/* Another process, as a nemesis is one, has the same hold on the proxy. */
Test(together, control_channel_of_others)
{
    char dir[] = "/tmp/dlock-control.XXXXXX", path[64];
    struct dlt_proxy other;
    int fd;

    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/control", dir);
    cr_assert(dlt_scripted_start(&server, "conn\nexpect x\nsend y\nend\n"), "%s", server.report);
    cr_assert_not(dlt_proxy_attach(&other, path));
    cr_assert(dlt_proxy_start(&proxy, server.address, "raw",
                              &(struct dlt_proxy_options){.control = path}),
              "%s", proxy.answer);
    cr_assert(dlt_proxy_attach(&other, path), "%s", other.answer);
    fd = client();
    cr_assert(dlt_proxy_tell(&other, "hold c2s +1"), "%s", other.answer);
    cr_assert(net_send(fd, "x"));
    tell("await c2s.held=1 2000");
    cr_assert(dlt_proxy_tell(&other, "deliver"), "%s", other.answer);
    cr_assert(net_expect(fd, "y", SOON));
    cr_assert(dlt_proxy_stop(&other));
    (void)close(fd);
    tell("await open=0 2000"); /* the proxy does not end with the other */
    finish();
    cr_assert_eq(rmdir(dir), 0, "the path is left behind");
}
