/* SPDX-License-Identifier: MIT */
/* What does a client meet that knocks at the proxy? */
#include "proxy_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(door, .fini = stop, .timeout = 20);

Test(door, refuses_and_keeps_the_port)
{
    start("raw");
    tell("accept refuse");
    cr_assert_lt(net_connect(proxy.address, SOON), 0);
    cr_assert_eq(errno, ECONNREFUSED);
    tell("accept on");
    cr_assert_geq(client_greeted("x"), 0);
}

Test(door, pauses)
{
    int a;

    start("raw");
    tell("accept pause");
    a = client(); /* the kernel takes it */
    cr_assert(net_send(a, "x"));
    cr_assert_eq(net_next(a, QUIET), '-');
    tell("accept on");
    cr_assert(net_expect(a, "x", SOON));
}

Test(door, hangs_at_connect)
{
    int a;

    start("raw");
    a = client_greeted("x");
    tell("accept hang");
    cr_assert_lt(net_connect(proxy.address, 200), 0);
    cr_assert_eq(errno, ETIMEDOUT);
    cr_assert(net_send(a, "y")); /* what is connected goes on */
    cr_assert(net_expect(a, "y", SOON));
    tell("accept on");
    (void)client_greeted("z");
    tell("await accepted=2 1000"); /* none of the proxy's own */
}

Test(door, no_server_is_a_reset)
{
    char nobody[] = "127.0.0.1:1";

    cr_assert(dlt_proxy_start(&proxy, nobody, "raw", NULL));
    cr_assert(net_is_reset(proxy.address, SOON));
    cr_assert_eq(dlt_proxy_count(&proxy, 0, "unreachable"), 1);
}

Test(door, unix_sockets)
{
    char dir[] = "/tmp/dlock-proxy.XXXXXX", server[128], listen[128];
    int a;

    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(server, sizeof server, "%s/server", dir);
    (void)snprintf(listen, sizeof listen, "%s/proxy", dir);
    start_on("resp", server, sizeof server, listen);
    a = client_greeted(PING);
    tell("accept refuse");
    cr_assert_lt(net_connect(proxy.address, SOON), 0);
    cr_assert_eq(errno, ECONNREFUSED);
    tell("accept hang");
    cr_assert_lt(net_connect(proxy.address, 100), 0);
    cr_assert_eq(errno, EAGAIN); /* what a full queue says without blocking */
    tell("accept on");
    (void)client_greeted(SET);
    tell("kill fin conn=1");
    cr_assert_eq(net_next(a, SOON), 'e');
    cr_assert(dlt_proxy_stop(&proxy));
    cr_assert_eq(access(listen, F_OK), -1, "the path is left behind");
    (void)unlink(server);
    (void)rmdir(dir);
}
