/* SPDX-License-Identifier: MIT */
#include "net/stream_connect.h"
#include "net/keep_alive.h"
#include "net/resolve.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PAUSE_MS 2 /* between two attempts at a unix socket */
#define FORBIDDEN_TRIES \
    10 /* a server that starts makes its socket first, and then opens it to us */

/* The outcome of a connect() that returned EINPROGRESS. */
static enum stream_result connect_result(struct stream *stream)
{
    int code = 0;
    socklen_t size = sizeof code;

    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
        code = errno;
    return code == 0 ? STREAM_OK : stream_errno(stream, "connect", code);
}

/* After connect() said EINPROGRESS, or was interrupted. */
static enum stream_result connect_wait(struct stream *stream, int64_t deadline_ns)
{
    enum stream_result result = stream_poll(stream, POLLOUT, deadline_ns);

    if (result == STREAM_TIMEOUT)
        (void)snprintf(stream->why, sizeof stream->why, "no connection in time");
    return result == STREAM_OK ? connect_result(stream) : result;
}

static enum stream_result connect_to(struct stream *stream, const struct sockaddr *to,
                                     socklen_t size, int64_t deadline_ns)
{
    stream->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (stream->fd < 0)
        return stream_errno(stream, "socket", errno);
    for (int tries = 1; connect(stream->fd, to, size) != 0; tries++) {
        int code = errno;
        bool forbidden = to->sa_family == AF_UNIX && (code == EACCES || code == EPERM);
        bool full = to->sa_family == AF_UNIX && code == EAGAIN; /* the queue of the socket */

        if (code == EINPROGRESS || code == EINTR)
            return connect_wait(stream, deadline_ns);
        if ((!full && !(forbidden && tries < FORBIDDEN_TRIES)) ||
            stream->host->now_ns(stream->host->ctx) >= deadline_ns) {
            (void)stream_errno(stream, "connect", code);
            return forbidden ? STREAM_REFUSED : STREAM_FAILED;
        }
        (void)poll(NULL, 0, PAUSE_MS);
    }
    return STREAM_OK;
}

static unsigned addresses_count(const struct addrinfo *list)
{
    unsigned count = 0;

    for (; list != NULL; list = list->ai_next)
        count++;
    return count;
}

enum stream_result stream_connect(struct stream *stream, const struct address *address,
                                  int64_t deadline_ns)
{
    struct addrinfo *list = NULL;
    enum stream_result result = STREAM_FAILED;
    unsigned left = 0;
    int failure = resolve_host(address->host, address->port, stream->host, deadline_ns, &list);

    if (failure != 0) {
        (void)snprintf(stream->why, sizeof stream->why, "looking up the host: %s",
                       gai_strerror(failure));
        return failure == EAI_AGAIN ? STREAM_TIMEOUT : STREAM_FAILED;
    }
    left = addresses_count(list);
    (void)snprintf(stream->why, sizeof stream->why, "the host has no address");
    for (const struct addrinfo *at = list; at != NULL && result != STREAM_OK; at = at->ai_next) {
        int64_t now_ns = stream->host->now_ns(stream->host->ctx);

        stream_close(stream);
        result = connect_to(stream, at->ai_addr, at->ai_addrlen,
                            now_ns + (deadline_ns - now_ns) / left--);
    }
    freeaddrinfo(list);
    if (result == STREAM_OK)
        keep_alive_start(stream->fd);
    return result;
}

enum stream_result stream_connect_unix(struct stream *stream, const char *path, int64_t deadline_ns)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len >= sizeof to.sun_path) {
        (void)snprintf(stream->why, sizeof stream->why,
                       "a socket's path has at most %zu bytes, this one %zu",
                       sizeof to.sun_path - 1, len);
        return STREAM_INVALID;
    }
    memcpy(to.sun_path, path, len + 1);
    stream_close(stream);
    return connect_to(stream, (const struct sockaddr *)&to,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1), deadline_ns);
}

enum stream_result stream_connect_begin(struct stream *stream, const struct addrinfo *to)
{
    stream_close(stream);
    stream->fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (stream->fd < 0)
        return stream_errno(stream, "socket", errno);
    if (connect(stream->fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS &&
        errno != EINTR)
        return stream_errno(stream, "connect", errno);
    return STREAM_OK;
}

enum stream_result stream_connect_step(struct stream *stream, short *events)
{
    struct pollfd fd = {.fd = stream->fd, .events = POLLOUT};
    enum stream_result result = STREAM_FAILED;

    *events = POLLOUT;
    if (poll(&fd, 1, 0) <= 0)
        return STREAM_TIMEOUT;
    result = connect_result(stream);
    if (result == STREAM_OK)
        keep_alive_start(stream->fd);
    return result;
}

enum stream_result stream_connect_tls(struct stream *stream, const struct tls *tls,
                                      const char *name, int64_t deadline_ns)
{
    enum stream_result result = stream->ssl == NULL ? tls_begin(stream, tls, name) : STREAM_OK;

    while (result == STREAM_OK) {
        short events = 0;

        result = tls_step(stream, tls, name, &events);
        if (result != STREAM_TIMEOUT)
            return result;
        result = stream_poll(stream, events, deadline_ns);
        if (result == STREAM_TIMEOUT)
            (void)snprintf(stream->why, sizeof stream->why,
                           "no answer to a TLS handshake in time: does the server speak TLS?");
    }
    return result;
}

size_t stream_ask_apart(const struct dlock_host *host, const struct address *address,
                        const void *question, size_t len, void *answer, size_t size,
                        int64_t deadline_ns)
{
    struct stream stream;
    size_t received = 0;
    bool begun = false;

    stream_init(&stream, host);
    if (stream_connect(&stream, address, deadline_ns) != STREAM_OK ||
        stream_send(&stream, question, len, deadline_ns, &begun) != STREAM_OK ||
        stream_receive(&stream, answer, size, deadline_ns, &received) != STREAM_OK)
        received = 0;
    stream_close(&stream);
    return received;
}

/* A HelloRequest, which only a server may send: one with TLS answers by an alert. */
bool stream_wants_tls(const struct dlock_host *host, const struct address *address,
                      int64_t deadline_ns)
{
    static const unsigned char hello[] = {0x16, 3, 1, 0, 4, 0, 0, 0, 0};
    unsigned char answer[2] = {0};

    return stream_ask_apart(host, address, hello, sizeof hello, answer, sizeof answer,
                            deadline_ns) == sizeof answer &&
           answer[0] == 0x15 && answer[1] == 3;
}
