/* SPDX-License-Identifier: MIT */
/* proxy_fixture.h - an echo server with a proxy in front of it, for the tests of the proxy. */
#ifndef DLT_PROXY_FIXTURE_H
#define DLT_PROXY_FIXTURE_H

#include "net_kit.h"
#include "proxy_client.h"

#include <criterion/criterion.h>

#define SOON  10000 /* ms; ends earlier unless something is wrong */
#define QUIET 60    /* ms in which nothing may come */

#define PING "*1\r\n$4\r\nPING\r\n"
#define SET  "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"

static struct dlt_proxy proxy;

static inline void start_on(const char *framing, char *server, size_t size, const char *listen)
{
    cr_assert(net_echo_start(server, size));
    cr_assert(
        dlt_proxy_start(&proxy, server, framing, &(struct dlt_proxy_options){.address = listen}),
        "%s", proxy.answer);
}

static inline void start(const char *framing)
{
    char server[128] = "127.0.0.1:0";

    start_on(framing, server, sizeof server, NULL);
}

static inline int client(void)
{
    int fd = net_connect(proxy.address, SOON);

    cr_assert_geq(fd, 0);
    return fd;
}

/* A client that is known to be served. */
static inline int client_greeted(const char *frame)
{
    int fd = client();

    cr_assert(net_send(fd, frame));
    cr_assert(net_expect(fd, frame, SOON));
    return fd;
}

#define tell(...) cr_assert(dlt_proxy_tell(&proxy, __VA_ARGS__), "%s", proxy.answer)

static inline void stop(void)
{
    cr_assert(dlt_proxy_stop(&proxy), "the proxy ended badly");
}

#endif
