/* SPDX-License-Identifier: MIT */
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ORIGIN    "tcplease"
#define NS_PER_MS INT64_C(1000000)

static bool address_parse(const char *text, struct sockaddr_storage *out, socklen_t *len)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    const char *colon = strrchr(text, ':');
    char host[64];
    long port = colon != NULL ? strtol(colon + 1, NULL, 10) : 0;

    if (port < 1 || port > 65535 || (size_t)(colon - text) >= sizeof host)
        return false;
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    memset(out, 0, sizeof *out);
    if (host[0] == '[') {
        host[strlen(host) - 1] = '\0';
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        *len = sizeof *v6;
        return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    *len = sizeof *v4;
    return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &v4->sin_addr) ==
           1;
}

/* Until the socket is ready or the deadline is over. poll runs on another clock than the deadline:
 * the rest is computed again each time. */
static bool link_wait(const struct link *link, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left_ms = (deadline_ns - link->host->now_ns(link->host->ctx)) / NS_PER_MS;
        struct pollfd fd = {.fd = link->fd, .events = events};
        int rc;

        if (left_ms < 0)
            return false;
        rc = poll(&fd, 1, left_ms > 1000 ? 1000 : (int)left_ms + 1);
        if (rc > 0)
            return true;
        if (rc < 0 && errno != EINTR)
            return false;
    }
}

static enum dlock_status not_reached(struct link *link, int code, struct dlock_error *err)
{
    link_close(link);
    return dlock_fail(err, ORIGIN, DLOCK_UNAVAILABLE, code, "cannot reach %s: %s", link->endpoint,
                      strerrordesc_np(code));
}

enum dlock_status link_open(struct link *link, const struct dlock_host *host, const char *address,
                            int64_t deadline_ns, struct dlock_error *err)
{
    struct sockaddr_storage where;
    socklen_t len = 0, size = sizeof(int);
    int one = 1, failed = 0;

    *link = (struct link){.host = host, .fd = -1};
    (void)snprintf(link->endpoint, sizeof link->endpoint, "%.60s", address);
    if (!address_parse(address, &where, &len))
        return dlock_fail(err, ORIGIN, DLOCK_INVALID, 0, "%s is no numeric address with a port",
                          link->endpoint);
    link->fd = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0)
        return not_reached(link, errno, err);
    (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(link->fd, (const struct sockaddr *)&where, len) != 0 && errno != EINPROGRESS)
        return not_reached(link, errno, err);
    if (!link_wait(link, POLLOUT, deadline_ns))
        return not_reached(link, ETIMEDOUT, err);
    (void)getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failed, &size);
    return failed == 0 ? DLOCK_OK : not_reached(link, failed, err);
}

void link_close(struct link *link)
{
    if (link->fd >= 0)
        (void)close(link->fd);
    link->fd = -1;
}

static enum dlock_status link_fail(struct link *link, enum dlock_status status, int code,
                                   const char *what, struct dlock_error *err)
{
    link->broken = true;
    return dlock_fail(err, ORIGIN, status, code, "%s: %s%s%s", link->endpoint, what,
                      code != 0 ? ": " : "", code != 0 ? strerrordesc_np(code) : "");
}

/* The server has closed the connection, or has said what nobody asked. */
static bool link_stale(const struct link *link)
{
    char byte;
    ssize_t got = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static enum dlock_status link_send(struct link *link, const char *line, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    size_t len = strlen(line), sent = 0;

    while (sent < len) {
        ssize_t n = send(link->fd, line + sent, len - sent, MSG_NOSIGNAL);

        if (n > 0) {
            sent += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && link_wait(link, POLLOUT, deadline_ns))
            continue;
        return link_fail(link, sent == 0 ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, errno,
                         sent == 0 ? "the request could not be sent"
                                   : "the connection was lost within the request",
                         err);
    }
    return DLOCK_OK;
}

static enum dlock_status link_receive(struct link *link, char answer[LINK_LINE_MAX],
                                      int64_t deadline_ns, struct dlock_error *err)
{
    size_t used = 0;

    while (used < LINK_LINE_MAX) {
        ssize_t got = recv(link->fd, answer + used, LINK_LINE_MAX - used, 0);

        if (got > 0) {
            used += (size_t)got;
            if (answer[used - 1] != '\n') /* one request, one line: nothing comes behind it */
                continue;
            answer[used - 1] = '\0';
            return DLOCK_OK;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN && link_wait(link, POLLIN, deadline_ns))
            continue;
        if (got < 0 && errno == EAGAIN)
            return link_fail(link, DLOCK_UNKNOWN, 0, "no answer in time", err);
        return link_fail(link, DLOCK_UNKNOWN, got < 0 ? errno : 0,
                         "the connection was lost before the answer", err);
    }
    return link_fail(link, DLOCK_UNKNOWN, 0, "an answer that is too long", err);
}

enum dlock_status link_ask(struct link *link, const char *line, char answer[LINK_LINE_MAX],
                           int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status;

    if (link->broken || link_stale(link))
        return link_fail(link, DLOCK_UNAVAILABLE, 0, "the connection was lost before the request",
                         err);
    status = link_send(link, line, deadline_ns, err);
    return status == DLOCK_OK ? link_receive(link, answer, deadline_ns, err) : status;
}
