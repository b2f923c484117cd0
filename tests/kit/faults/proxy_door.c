/* SPDX-License-Identifier: MIT */
/*
 * The listening socket and the four ways it treats those who knock.
 *
 * To drop SYNs, as a dead host or a full server does, its queue is made short and kept full by
 * connections of our own. While it refuses, a second socket stays bound to the port without
 * listening, so that nobody else gets the port and a connect is answered with RST.
 */
#include "proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#define BACKLOG       128
#define FULL_AFTER_MS 200 /* a connect on loopback that takes longer found the queue full */

static int peer_port(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct dlt_address address = {.len = sizeof address.of.room};
    const struct sockaddr_in *ip = (const struct sockaddr_in *)(const void *)&address.of.room;

    if (name(fd, &address.of.any, &address.len) != 0 || dlt_address_is_path(&address))
        return -1;
    return ntohs(ip->sin_port);
}

/* Is what was accepted a filler? Then it is closed, at both ends. */
static bool filler_take(struct proxy_door *door, int fd)
{
    struct ucred peer = {.pid = -1};
    socklen_t len = sizeof peer;
    int port = peer_port(fd, getpeername);

    if (dlt_address_is_path(&door->address))
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    for (int i = 0; i < PROXY_FILLERS_MAX; i++) {
        int filler = door->filler[i];

        if (filler < 0 ||
            (peer.pid != getpid() && (port < 0 || port != peer_port(filler, getsockname))))
            continue;
        (void)close(filler);
        (void)close(fd);
        door->filler[i] = -1;
        return true;
    }
    return false;
}

int proxy_door_accept(struct proxy_door *door)
{
    for (;;) {
        int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 || !filler_take(door, fd))
            return fd;
    }
}

/* Connects to ourselves until the queue takes no more. */
static bool queue_fill(struct proxy_door *door)
{
    for (int i = 0; i < PROXY_FILLERS_MAX; i++) {
        struct pollfd wait = {.events = POLLOUT};
        int fd;

        if (door->filler[i] >= 0)
            continue;
        fd = dlt_address_socket(&door->address);
        if (fd < 0)
            return false;
        wait.fd = fd;
        if (connect(fd, &door->address.of.any, door->address.len) != 0 &&
            (errno != EINPROGRESS || poll(&wait, 1, FULL_AFTER_MS) == 0)) {
            (void)close(fd);
            return true;
        }
        door->filler[i] = fd;
    }
    errno = ENOBUFS;
    return false;
}

static bool door_listen(struct proxy_door *door)
{
    if (door->fd < 0)
        door->fd = dlt_address_listen(&door->address, BACKLOG);
    else if (listen(door->fd, BACKLOG) != 0)
        return false;
    return door->fd >= 0;
}

bool proxy_door_open(struct proxy_door *door)
{
    door->fd = -1;
    door->reserve = -1;
    for (int i = 0; i < PROXY_FILLERS_MAX; i++)
        door->filler[i] = -1;
    if (!dlt_address_is_path(&door->address)) {
        door->reserve = dlt_address_listen(&door->address, -1);
        if (door->reserve < 0)
            return false;
    }
    return door_listen(door);
}

bool proxy_door_set(struct proxy_door *door, enum proxy_door_mode mode)
{
    door->mode = mode;
    switch (mode) {
    case PROXY_DOOR_ON:
    case PROXY_DOOR_PAUSE:
        return door_listen(door);
    case PROXY_DOOR_HANG:
        return door_listen(door) && listen(door->fd, 0) == 0 && queue_fill(door);
    case PROXY_DOOR_REFUSE:
        if (door->fd >= 0)
            (void)close(door->fd);
        door->fd = -1;
        return true;
    }
    return false;
}

void proxy_door_close(struct proxy_door *door)
{
    for (int i = 0; i < PROXY_FILLERS_MAX; i++)
        if (door->filler[i] >= 0)
            (void)close(door->filler[i]);
    if (door->fd >= 0)
        (void)close(door->fd);
    if (door->reserve >= 0)
        (void)close(door->reserve);
    if (dlt_address_is_path(&door->address))
        (void)unlink(door->address.of.path.sun_path);
}
