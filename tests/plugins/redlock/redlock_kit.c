/* SPDX-License-Identifier: MIT */
#include "redlock_kit.h"
#include "ruler.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct dlock_node_error err_nodes[DLOCK_NODE_ERRORS_MAX];
struct dlock_error dlt_err = {.nodes = err_nodes, .node_room = DLOCK_NODE_ERRORS_MAX};

void dlt_nodes_start(struct dlt_nodes *nodes, unsigned count, bool proxied)
{
    memset(nodes, 0, sizeof *nodes);
    nodes->count = count;
    nodes->proxied = proxied;
    for (unsigned i = 0; i < count; i++) {
        cr_assert(dlt_redis_start(&nodes->servers[i], NULL), "%s", nodes->servers[i].why);
        if (proxied)
            cr_assert(dlt_proxy_start(&nodes->proxies[i], nodes->servers[i].address, "resp", NULL),
                      "%s", nodes->proxies[i].answer);
    }
}

void dlt_nodes_stop(struct dlt_nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        if (nodes->proxied)
            (void)dlt_proxy_stop(&nodes->proxies[i]);
        if (nodes->servers[i].pid != 0)
            dlt_redis_pause(&nodes->servers[i], false);
        dlt_redis_stop(&nodes->servers[i]);
    }
}

void dlt_nodes_uri(const struct dlt_nodes *nodes, const char *options, bool direct, char *uri,
                   size_t size)
{
    size_t used = (size_t)snprintf(uri, size, "redlock://");

    for (unsigned i = 0; i < nodes->count; i++)
        used += (size_t)snprintf(uri + used, size - used, "%s%s", i > 0 ? "," : "",
                                 nodes->proxied && !direct ? nodes->proxies[i].address
                                                           : nodes->servers[i].address);
    (void)snprintf(uri + used, size - used, "?%s%s%s",
                   options != NULL && strstr(options, "restart_guard") != NULL ? ""
                                                                               : "restart_guard=0",
                   options != NULL && strstr(options, "restart_guard") == NULL ? "&" : "",
                   options != NULL ? options : "");
}

struct dlock_client *dlt_nodes_client(const struct dlt_nodes *nodes, const char *options,
                                      bool direct)
{
    struct dlock_client *client = NULL;
    char uri[1024];

    dlt_nodes_uri(nodes, options, direct, uri, sizeof uri);
    OK(dlock_client_open(uri, NULL, &client, &dlt_err));
    return client;
}

struct dlock_handle *dlt_lock(struct dlock_client *client, const char *name, bool keep)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = DLT_TTL_MS,
                                    .renew = keep ? DLOCK_ON : DLOCK_OFF};
    struct dlock_handle *lock = NULL;

    OK(dlock_new(client, name, strlen(name), &options, &lock, &dlt_err));
    return lock;
}

bool dlt_node_holds(struct dlt_nodes *nodes, unsigned node, const char *name)
{
    const char *value = NULL;

    if (nodes->servers[node].pid == 0)
        return false;
    value = dlt_redis_ask(&nodes->servers[node], "GET rl:{%s}", name);
    return strspn(value, "0123456789abcdef") == 32;
}

unsigned dlt_nodes_holding(struct dlt_nodes *nodes, const char *name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < nodes->count; i++)
        count += dlt_node_holds(nodes, i, name);
    return count;
}

bool dlt_nodes_hold_soon(struct dlt_nodes *nodes, const char *name, unsigned count,
                         int64_t limit_ms)
{
    int64_t end_ms = dlt_now_ms() + limit_ms;

    while (dlt_nodes_holding(nodes, name) != count) {
        if (dlt_now_ms() >= end_ms)
            return false;
        dlt_sleep_ms(10);
    }
    return true;
}

bool dlt_nodes_all_hold(struct dlt_nodes *nodes, const char *name, struct dlock_handle *lock)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    for (int i = 0; i < 250 && dlt_nodes_holding(nodes, name) < nodes->count; i++) {
        if (dlock_renew(lock, 0, &err) != DLOCK_OK)
            return false;
        dlt_sleep_ms(20);
    }
    return dlt_nodes_holding(nodes, name) == nodes->count;
}

int64_t dlt_now_ms(void)
{
    return dlt_ruler_now_ns() / 1000000;
}

void dlt_sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

unsigned dlt_lines_with(const char *text)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < dlt_err.node_count; i++)
        if (strstr(dlt_err.nodes[i].message, text) != NULL)
            bits |= 1u << i;
    return bits;
}
