/* SPDX-License-Identifier: MIT */
#include "hiding_proxy.h"
#include "process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS 8

/* A client's connection, which outlives those to the server. */
struct pair {
    int client, server;
};

static struct sockaddr_in loopback(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

int dlt_hiding_proxy_dial(unsigned port)
{
    struct sockaddr_in at = loopback(port);

    for (int i = 0; i < 200; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        (void)close(fd);
        (void)usleep(20000);
    }
    return -1;
}

static bool pass(int from, int to)
{
    char bytes[4096];
    ssize_t len = recv(from, bytes, sizeof bytes, 0);

    return len > 0 && send(to, bytes, (size_t)len, MSG_NOSIGNAL) == len;
}

/* fds: of the client and of the server. */
static void pair_serve(struct pair *pair, const struct pollfd *fds, unsigned to)
{
    if (fds[1].revents != 0 && !pass(pair->server, pair->client)) {
        (void)close(pair->server);
        pair->server = dlt_hiding_proxy_dial(to);
    }
    if (fds[0].revents != 0 && !pass(pair->client, pair->server)) {
        (void)close(pair->client);
        (void)close(pair->server);
        *pair = (struct pair){-1, -1};
    }
}

static void *run(void *arg)
{
    const struct dlt_hiding_proxy *proxy = arg;
    struct pair pairs[PAIRS];
    struct pollfd fds[2 + 2 * PAIRS] = {{proxy->stop[0], POLLIN, 0}, {proxy->listener, POLLIN, 0}};
    size_t n = 0;

    while (fds[0].revents == 0) {
        for (size_t i = 0; i < n; i++) {
            fds[2 + 2 * i] = (struct pollfd){pairs[i].client, POLLIN, 0};
            fds[3 + 2 * i] = (struct pollfd){pairs[i].server, POLLIN, 0};
        }
        if (poll(fds, 2 + 2 * n, -1) <= 0)
            continue;
        for (size_t i = 0; i < n; i++)
            pair_serve(&pairs[i], &fds[2 + 2 * i], proxy->to);
        if (fds[1].revents != 0 && n < PAIRS) {
            pairs[n].client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
            pairs[n++].server = dlt_hiding_proxy_dial(proxy->to);
        }
    }
    for (size_t i = 0; i < n; i++) {
        (void)close(pairs[i].client);
        (void)close(pairs[i].server);
    }
    return NULL;
}

bool dlt_hiding_proxy_start(struct dlt_hiding_proxy *proxy, unsigned port)
{
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;

    proxy->to = port;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(proxy->listener, PAIRS) != 0 || pipe2(proxy->stop, O_CLOEXEC) != 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&at, &len) != 0)
        return false;
    (void)snprintf(proxy->address, sizeof proxy->address, "127.0.0.1:%u", ntohs(at.sin_port));
    return pthread_create(&proxy->thread, NULL, run, proxy) == 0;
}

void dlt_hiding_proxy_stop(struct dlt_hiding_proxy *proxy)
{
    (void)close(proxy->stop[1]); /* its other end is readable then */
    (void)pthread_join(proxy->thread, NULL);
    (void)close(proxy->listener);
    (void)close(proxy->stop[0]);
}
