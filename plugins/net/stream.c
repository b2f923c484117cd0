/* SPDX-License-Identifier: MIT */
#include "net/stream.h"
#include "lib/time.h"
#include "net/resolve.h"
#include "net/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void stream_init(struct stream *stream, const struct dlock_host *host)
{
    *stream = (struct stream){.fd = -1, .host = host};
}

void stream_move(struct stream *to, struct stream *from)
{
    *to = *from;
    if (to->ssl != NULL)
        tls_moved(to);
    stream_init(from, to->host);
}

/* Sets `why` to what and the text of this errno. STREAM_FAILED. */
static enum stream_result stream_errno(struct stream *stream, const char *what, int code)
{
    char text[64];

    (void)snprintf(stream->why, sizeof stream->why, "%s: %s", what,
                   strerror_r(code, text, sizeof text));
    return STREAM_FAILED;
}

/* Waits for POLLIN or POLLOUT. STREAM_OK: try again. */
static enum stream_result stream_poll(struct stream *stream, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left_ns = deadline_ns - stream->host->now_ns(stream->host->ctx);
        struct pollfd fd = {.fd = stream->fd, .events = events};
        struct timespec timeout = dl_deadline_cond_slice(left_ns);
        int ready = 0;

        if (left_ns <= 0) {
            (void)snprintf(stream->why, sizeof stream->why, "no answer in time");
            return STREAM_TIMEOUT;
        }
        ready = ppoll(&fd, 1, &timeout, NULL);
        if (ready > 0)
            return STREAM_OK;
        if (ready < 0 && errno != EINTR)
            return stream_errno(stream, "poll", errno);
    }
}

static const char closed[] = "the server closed the connection";

/* STREAM_TIMEOUT: not now. */
static enum stream_result step_failed(struct stream_step *step, const char *what, short events)
{
    char text[64];

    step->events = events;
    if (errno == EAGAIN)
        return STREAM_TIMEOUT;
    (void)snprintf(step->why, sizeof step->why, "%s: %s", what,
                   strerror_r(errno, text, sizeof text));
    return STREAM_FAILED;
}

static enum stream_result try_send_plain(struct stream *stream, const void *bytes, size_t len,
                                         struct stream_step *step)
{
    ssize_t sent = 0;

    do
        sent = send(stream->fd, bytes, len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return step_failed(step, "send", POLLOUT);
    step->done = (size_t)sent;
    return STREAM_OK;
}

static enum stream_result try_receive_plain(struct stream *stream, void *bytes, size_t size,
                                            struct stream_step *step)
{
    ssize_t got = 0;

    do
        got = recv(stream->fd, bytes, size, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return step_failed(step, "receive", POLLIN);
    if (got == 0) {
        (void)snprintf(step->why, sizeof step->why, "%s", closed);
        return STREAM_CLOSED;
    }
    step->done = (size_t)got;
    return STREAM_OK;
}

enum stream_result stream_try_send(struct stream *stream, const void *bytes, size_t len,
                                   struct stream_step *step)
{
    return stream->ssl != NULL ? tls_try_send(stream, bytes, len, step)
                               : try_send_plain(stream, bytes, len, step);
}

enum stream_result stream_try_receive(struct stream *stream, void *bytes, size_t size,
                                      struct stream_step *step)
{
    return stream->ssl != NULL ? tls_try_receive(stream, bytes, size, step)
                               : try_receive_plain(stream, bytes, size, step);
}

/* Waits if the step wants it. STREAM_OK: repeat the step. */
static enum stream_result step_wait(struct stream *stream, enum stream_result result,
                                    const struct stream_step *step, int64_t deadline_ns)
{
    if (result == STREAM_TIMEOUT)
        return stream_poll(stream, step->events, deadline_ns);
    (void)snprintf(stream->why, sizeof stream->why, "%s", step->why);
    return result;
}

enum stream_result stream_send(struct stream *stream, const void *bytes, size_t len,
                               int64_t deadline_ns, bool *begun)
{
    const char *at = bytes;

    *begun = stream->ssl != NULL; /* OpenSSL does not say whether a part of a record has left */
    while (len > 0) {
        struct stream_step step;
        enum stream_result result = stream_try_send(stream, at, len, &step);

        if (result == STREAM_OK) {
            *begun = true;
            at += step.done;
            len -= step.done;
            continue;
        }
        result = step_wait(stream, result, &step, deadline_ns);
        if (result != STREAM_OK)
            return result;
    }
    return STREAM_OK;
}

/* Polls for a while if spin allows it, then sleeps. */
static enum stream_result receive(struct stream *stream, void *bytes, size_t size,
                                  int64_t deadline_ns, size_t *received)
{
    for (;;) {
        struct stream_step step;
        enum stream_result result = stream_try_receive(stream, bytes, size, &step);

        if (result == STREAM_OK) {
            *received = step.done;
            return STREAM_OK;
        }
        if (result == STREAM_TIMEOUT && spin_more(&stream->spin, dl_time_now_ns(CLOCK_MONOTONIC))) {
            (void)sched_yield();
            continue;
        }
        result = step_wait(stream, result, &step, deadline_ns);
        if (result != STREAM_OK)
            return result;
    }
}

enum stream_result stream_receive(struct stream *stream, void *bytes, size_t size,
                                  int64_t deadline_ns, size_t *received)
{
    enum stream_result result = STREAM_FAILED;

    if (stream->spin.processors < 2)
        return receive(stream, bytes, size, deadline_ns, received);
    spin_begin(&stream->spin, dl_time_now_ns(CLOCK_MONOTONIC));
    result = receive(stream, bytes, size, deadline_ns, received);
    spin_end(&stream->spin, dl_time_now_ns(CLOCK_MONOTONIC), result == STREAM_OK);
    return result;
}

bool stream_idle(struct stream *stream)
{
    char byte = 0;
    ssize_t got = 0;

    if (stream->ssl != NULL)
        return tls_idle(stream);
    do
        got = recv(stream->fd, &byte, 1, MSG_PEEK);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got < 0)
        (void)stream_errno(stream, "receive", errno);
    else if (got == 0)
        (void)snprintf(stream->why, sizeof stream->why, "%s", closed);
    else
        (void)snprintf(stream->why, sizeof stream->why, "the server spoke without being asked");
    return false;
}

void stream_close(struct stream *stream)
{
    int fd = stream->fd;

    tls_end(stream);
    stream->fd = -1; /* first: a child that is forked meanwhile must not close another file */
    if (fd >= 0)
        (void)close(fd);
}

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
        stream_keep_alive(stream->fd);
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
        stream_keep_alive(stream->fd);
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

void stream_keep_alive(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},  {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 5}, {IPPROTO_TCP, TCP_KEEPINTVL, 2},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},  {IPPROTO_TCP, TCP_USER_TIMEOUT, 12000},
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
}
