/* SPDX-License-Identifier: MIT */
#include "address.h"
#include "escape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool dlt_address_parse(const char *text, struct dlt_address *out)
{
    const char *colon = strrchr(text, ':');
    struct sockaddr_in *ip = (struct sockaddr_in *)(void *)&out->of.room;
    char host[INET_ADDRSTRLEN];
    uint64_t port = 0;

    memset(out, 0, sizeof *out);
    if (text[0] == '/') {
        if (strlen(text) >= sizeof out->of.path.sun_path)
            return false;
        out->of.path.sun_family = AF_UNIX;
        memcpy(out->of.path.sun_path, text, strlen(text) + 1);
        out->len = sizeof out->of.path;
        return true;
    }
    if (colon == NULL || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    ip->sin_family = AF_INET;
    out->len = sizeof *ip;
    if (!dlt_number_parse(colon + 1, 65535, &port) || inet_pton(AF_INET, host, &ip->sin_addr) != 1)
        return false;
    ip->sin_port = htons((uint16_t)port);
    return true;
}

bool dlt_address_is_path(const struct dlt_address *address)
{
    return address->of.any.sa_family == AF_UNIX;
}

void dlt_address_print(const struct dlt_address *address, char *out, size_t size)
{
    const struct sockaddr_in *ip = (const struct sockaddr_in *)(const void *)&address->of.room;
    char host[INET_ADDRSTRLEN] = "?";

    if (dlt_address_is_path(address)) {
        (void)snprintf(out, size, "%s", address->of.path.sun_path);
        return;
    }
    (void)inet_ntop(AF_INET, &ip->sin_addr, host, sizeof host);
    (void)snprintf(out, size, "%s:%u", host, ntohs(ip->sin_port));
}

int dlt_address_socket(const struct dlt_address *address)
{
    int on = 1;
    int fd = socket(address->of.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && !dlt_address_is_path(address)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return fd;
}

int dlt_address_listen(struct dlt_address *address, int backlog)
{
    int saved, fd = dlt_address_socket(address);

    if (fd < 0)
        return -1;
    if (dlt_address_is_path(address))
        (void)unlink(address->of.path.sun_path);
    if (bind(fd, &address->of.any, address->len) == 0 &&
        (backlog < 0 || listen(fd, backlog) == 0) &&
        (dlt_address_is_path(address) || getsockname(fd, &address->of.any, &address->len) == 0))
        return fd;
    saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

void dlt_socket_reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
}

void dlt_socket_finish(int fd)
{
    char unread[4096];

    (void)shutdown(fd, SHUT_WR);
    /* close() of a socket with unread bytes is an RST. */
    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0)
        continue;
    (void)close(fd);
}
