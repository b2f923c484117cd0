/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/servers.c plugins/zookeeper/link.c */
/*
 * Host names that get other addresses, or are found late, and servers at IPv6 addresses. The linker
 * puts our getaddrinfo before that of the C library.
 */
#include "connection.h"
#include "link_faults.h"
#include "proxy_client.h"
#include "servers.h"

#include <pthread.h>

#define LONG_MS 15000 /* a session that outlives the test's pauses */

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);

/* What lockhost is; "": nobody knows it; NULL: no answer while it is so. */
static const char *_Atomic meant = "";

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    if (strcmp(host, "lockhost") != 0)
        return __real_getaddrinfo(host, service, hints, out);
    if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0)
        return EAI_NONAME;
    while (meant == NULL)
        dlt_sleep_ms(5);
    return *meant != '\0' ? __real_getaddrinfo(meant, service, hints, out) : EAI_NONAME;
}

TestSuite(names, .init = set_up, .fini = tear_down);

static struct dlt_proxy proxy; /* one way to the server */

static unsigned way_open(const char *host, unsigned port)
{
    char address[64];
    const struct dlt_proxy_options options = {.address = address};

    (void)snprintf(address, sizeof address, "%s:%u", host, port);
    cr_assert(dlt_proxy_start(&proxy, server.members[0].address, "raw", &options), "%s: %s",
              address, proxy.answer);
    return (unsigned)strtoul(strrchr(proxy.address, ':') + 1, NULL, 10);
}

/* The server is found at another address from now on. */
static void way_change(const char *host, unsigned port)
{
    (void)dlt_proxy_stop(&proxy);
    (void)way_open(host, port);
}

static void server_add(const char *host, unsigned port)
{
    struct address *address = &rig.config.servers[rig.config.count++];

    (void)snprintf(address->host, sizeof address->host, "%s", host);
    address->port = (uint16_t)port;
}

static void connect_to(const char *host, unsigned port)
{
    rig_config(&rig);
    rig.config.ttl_ms = LONG_MS;
    rig.config.count = 0;
    server_add(host, port);
}

static void rig_begin(void)
{
    rig_greet(&rig);
    cr_assert_eq(rig_connect(&rig, 5000), DLOCK_OK, "%s", rig.err.message);
}

/* By the name, at 127.0.0.2. Returns the session. */
static int64_t begin_by_name(unsigned *port)
{
    *port = way_open("127.0.0.2", 0);
    meant = "127.0.0.2";
    connect_to("lockhost", *port);
    rig_begin();
    return state_of(&rig).session_id;
}

static void rig_end(void)
{
    close_rig();
    (void)dlt_proxy_stop(&proxy);
}

/* The next connection may be there already. */
static void await_broken(void)
{
    for (int i = 0; i < 5000 && rig.host.connections[DLOCK_CONNECTION_BROKEN] == 0; i++)
        dlt_sleep_ms(1);
    cr_assert_gt(rig.host.connections[DLOCK_CONNECTION_BROKEN], 0);
}

static void expect_same_session(int64_t id)
{
    cr_assert(await_connected(&rig, true, 10000), "never again: %s", rig.link->why);
    cr_assert_eq(state_of(&rig).session_id, id);
}

Test(names, a_name_with_another_address_is_looked_up_again)
{
    unsigned port = 0;
    const int64_t id = begin_by_name(&port);

    meant = "127.0.0.3";
    way_change("127.0.0.3", port);
    await_broken();
    expect_same_session(id);
    rig_end();
}

Test(names, a_name_that_was_not_found_at_open_is_found_later)
{
    const unsigned port = way_open("127.0.0.2", 0);
    int64_t id = 0;

    meant = "";
    connect_to("127.0.0.2", port);
    server_add("lockhost", port);
    rig_begin();
    id = state_of(&rig).session_id;
    meant = "127.0.0.3";
    way_change("127.0.0.3", port);
    await_broken();
    expect_same_session(id);
    rig_end();
}

Test(names, a_name_that_is_not_found_any_more_keeps_its_address)
{
    unsigned port = 0;
    const int64_t id = begin_by_name(&port);

    meant = "";
    cr_assert(dlt_proxy_tell(&proxy, "kill fin"), "%s", proxy.answer);
    await_broken();
    expect_same_session(id);
    rig_end();
}

Test(names, a_lookup_without_an_answer_holds_up_nobody_for_long)
{
    unsigned port = 0;
    const int64_t id = begin_by_name(&port);
    int64_t begun_ms = 0;

    dlt_sleep_ms(1100); /* names are looked up each second at most */
    meant = NULL;
    begun_ms = now_ms();
    cr_assert(dlt_proxy_tell(&proxy, "kill fin"), "%s", proxy.answer);
    await_broken();
    expect_same_session(id);
    cr_assert(dlt_took_within(now_ms() - begun_ms, 500 + LATE_MS), "%s", dlt_within_text());
    begun_ms = now_ms();
    rig_end();
    cr_assert(dlt_took_within(now_ms() - begun_ms, LATE_MS), "CLS-1: %s", dlt_within_text());
    meant = "";
}

/* That of an IPv4 address, so that no machine lacks it. */
Test(names, a_server_at_an_ipv6_address)
{
    const unsigned port = way_open("127.0.0.2", 0);

    connect_to("::ffff:127.0.0.2", port);
    rig_begin();
    make_base(&rig);
    rig_end();
}

Test(names, what_the_library_gets)
{
    struct zk_names names = {.config = NULL};
    char hosts[ZK_HOSTS_SIZE];

    connect_to("127.0.0.1", 2181);
    server_add("::1", 2182);
    server_add("127.0.0.1", 2181);
    server_add("lockhost", 2183);
    zk_servers_lookup(&names, &rig.config);
    while (!zk_servers_is_looked_up(&names, 3))
        dlt_sleep_ms(1);
    zk_servers_write(&names, "", hosts);
    cr_assert_str_eq(hosts, "127.0.0.1:2181,::1:2182,127.0.0.1:2181");
    zk_servers_write(&names, "127.0.0.1:218,::1:2182,127.0.0.9:2183", hosts);
    cr_assert_str_eq(hosts, "127.0.0.1:2181,::1:2182,127.0.0.1:218,127.0.0.9:2183,127.0.0.1:2181");
    zk_servers_lookup_end(&names);
    zk_servers_lookup_end(&names);
    meant = "127.0.0.4";
    zk_servers_lookup(&names, &rig.config);
    while (!zk_servers_is_looked_up(&names, 3))
        dlt_sleep_ms(1);
    zk_servers_write(&names, "127.0.0.9:2183", hosts);
    cr_assert_str_eq(hosts, "127.0.0.1:2181,::1:2182,127.0.0.4:2183");
    zk_servers_lookup_end(&names);
}
