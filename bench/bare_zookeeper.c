/* SPDX-License-Identifier: MIT */
#include "bare_zookeeper.h"

#include "stopwatch.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define SESSION_MS 30000
#define CONNECT_NS (10 * BENCH_NS_PER_S)

int bench_zookeeper_failed(int rc, char *why)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "zookeeper: %.200s", zerror(rc));
    return -1;
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *arg)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)arg;
}

static void on_log(const char *line)
{
    (void)line;
}

static void hosts_join(char *text, size_t size, const struct bench_address *address)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < address->hosts && used + 160 < size; i++) {
        const struct bench_host *host = &address->host[i];
        int numbers = strchr(host->name, ':') != NULL; /* of IPv6 */

        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s:%d", i > 0 ? "," : "",
                                 numbers ? "[" : "", host->name, numbers ? "]" : "", host->port);
    }
}

zhandle_t *bench_zookeeper_connect(const struct bench_address *address, char *why)
{
    int64_t until_ns = bench_now_ns() + CONNECT_NS;
    char hosts[BENCH_HOSTS_MAX * 160 + 1];
    zhandle_t *handle = NULL;

    hosts_join(hosts, sizeof hosts, address);
    handle = zookeeper_init2(hosts, on_event, SESSION_MS, NULL, NULL, 0, on_log);
    if (handle == NULL) {
        (void)bench_zookeeper_failed(ZSYSTEMERROR, why);
        return NULL;
    }
    (void)zoo_set_servers_resolution_delay(handle, -1); /* 0: it looks names up in each step */
    while (zoo_state(handle) != ZOO_CONNECTED_STATE) {
        if (bench_zookeeper_step(handle, why) == 0 && bench_now_ns() < until_ns)
            continue;
        (void)bench_zookeeper_failed(ZCONNECTIONLOSS, why);
        bench_zookeeper_close(handle);
        return NULL;
    }
    return handle;
}

void bench_zookeeper_close(zhandle_t *handle)
{
    if (handle != NULL)
        (void)zookeeper_close(handle);
}

int bench_zookeeper_step(zhandle_t *handle, char *why)
{
    struct pollfd fd = {.fd = -1};
    struct timeval wait = {0};
    int interest = 0, events = 0;
    int rc = zookeeper_interest(handle, &fd.fd, &interest, &wait);

    if (rc != ZOK)
        return bench_zookeeper_failed(rc, why);
    fd.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                        (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    (void)poll(&fd, 1, (int)(wait.tv_sec * 1000 + (wait.tv_usec + 999) / 1000));
    if (fd.revents & ~POLLOUT)
        events |= ZOOKEEPER_READ;
    if (fd.revents & ~POLLIN)
        events |= ZOOKEEPER_WRITE;
    rc = zookeeper_process(handle, events & interest);
    return rc == ZOK || rc == ZNOTHING ? 0 : bench_zookeeper_failed(rc, why);
}
