/* SPDX-License-Identifier: MIT */
#include "relay.h"

#include "address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS_MAX 32

/* fds[0] is the listening socket; the others are pairs, of a client and its server. */
struct relay {
    const struct bench_host *server;
    struct pollfd fds[1 + 2 * PAIRS_MAX];
};

static int server_connect(const struct bench_host *server)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[16];
    int fd = -1;

    (void)snprintf(port, sizeof port, "%d", server->port);
    if (getaddrinfo(server->name, port, &hints, &found) != 0)
        return -1;
    for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static void pair_close(struct relay *relay, int number)
{
    for (int i = 0; i < 2; i++) {
        (void)close(relay->fds[number + i].fd);
        relay->fds[number + i].fd = -1;
    }
}

static void pair_add(struct relay *relay)
{
    int client = accept4(relay->fds[0].fd, NULL, NULL, SOCK_CLOEXEC), on = 1, number = 1;

    while (number < 1 + 2 * PAIRS_MAX && relay->fds[number].fd >= 0)
        number += 2;
    if (client < 0)
        return;
    if (number > 2 * PAIRS_MAX) {
        (void)close(client);
        return;
    }
    relay->fds[number] = (struct pollfd){.fd = client, .events = POLLIN};
    relay->fds[number + 1] = (struct pollfd){.fd = server_connect(relay->server), .events = POLLIN};
    for (int i = 0; i < 2; i++)
        (void)setsockopt(relay->fds[number + i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (relay->fds[number + 1].fd < 0)
        pair_close(relay, number);
}

/* False: one side has ended. */
static bool bytes_pass(int from, int to)
{
    char bytes[16384];
    ssize_t got = read(from, bytes, sizeof bytes);

    for (ssize_t sent = 0, some = 0; sent < got; sent += some) {
        some = write(to, bytes + sent, (size_t)(got - sent));
        if (some <= 0)
            return false;
    }
    return got > 0;
}

static void relay_run(struct relay *relay)
{
    while (poll(relay->fds, 1 + 2 * PAIRS_MAX, -1) > 0) {
        for (int i = 1; i < 1 + 2 * PAIRS_MAX; i++) {
            int first = i - (i - 1) % 2, other = i == first ? i + 1 : first;

            if (relay->fds[i].fd >= 0 && relay->fds[i].revents != 0 &&
                !bytes_pass(relay->fds[i].fd, relay->fds[other].fd))
                pair_close(relay, first);
        }
        if (relay->fds[0].revents != 0)
            pair_add(relay);
    }
}

static int listen_somewhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (bind(fd, (const struct sockaddr *)&address, size) != 0 || listen(fd, PAIRS_MAX) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        (void)close(fd);
        return -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

/* The URI with the relay's address in place of the server's. */
static bool uri_make(struct bench_relay *relay, const char *uri, const struct bench_host *server,
                     int port)
{
    char text[160];
    const char *at;

    (void)snprintf(text, sizeof text, "%s:%d", server->name, server->port);
    at = strstr(uri, text);
    if (at == NULL)
        return false;
    (void)snprintf(relay->uri, sizeof relay->uri, "%.*s127.0.0.1:%d%s", (int)(at - uri), uri, port,
                   at + strlen(text));
    return true;
}

static void child_run(int listener, const struct bench_host *server)
{
    struct relay relay = {.server = server};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i < 1 + 2 * PAIRS_MAX; i++)
        relay.fds[i].fd = -1;
    relay.fds[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    relay_run(&relay);
    _exit(0);
}

int bench_relay_start(struct bench_relay *relay, const char *uri, char *why)
{
    struct bench_address address;
    int port = 0, listener = -1;

    if (bench_address_parse(uri, &address) != 0 || address.hosts != 1 ||
        !uri_make(relay, uri, &address.host[0], port)) {
        (void)snprintf(why, BENCH_WHY_SIZE, "want a URI with one host and its port");
        return -1;
    }
    listener = listen_somewhere(&port);
    if (listener >= 0 && uri_make(relay, uri, &address.host[0], port)) {
        relay->pid = fork();
        if (relay->pid == 0)
            child_run(listener, &address.host[0]);
        (void)close(listener);
        if (relay->pid > 0)
            return 0;
    }
    (void)snprintf(why, BENCH_WHY_SIZE, "cannot start a relay");
    return -1;
}

void bench_relay_silence(const struct bench_relay *relay)
{
    (void)kill(relay->pid, SIGSTOP);
}

void bench_relay_stop(const struct bench_relay *relay)
{
    (void)kill(relay->pid, SIGKILL);
    (void)waitpid(relay->pid, NULL, 0);
}
