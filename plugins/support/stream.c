/* SPDX-License-Identifier: MIT */
#include "stream.h"
#include "tls.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

void stream_init(struct stream *stream, const struct dlock_host *host)
{
    *stream = (struct stream){.fd = -1, .host = host};
}

enum stream_result stream_errno(struct stream *stream, const char *what, int code)
{
    char text[64];

    (void)snprintf(stream->why, sizeof stream->why, "%s: %s", what,
                   strerror_r(code, text, sizeof text));
    return STREAM_FAILED;
}

enum stream_result stream_poll(struct stream *stream, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left_ns = deadline_ns - stream->host->now_ns(stream->host->ctx);
        struct pollfd fd = {.fd = stream->fd, .events = events};
        struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
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

static enum stream_result closed(struct stream *stream)
{
    (void)snprintf(stream->why, sizeof stream->why, "the server closed the connection");
    return STREAM_CLOSED;
}

static enum stream_result send_plain(struct stream *stream, const char *bytes, size_t len,
                                     int64_t deadline_ns, bool *begun)
{
    while (len > 0) {
        ssize_t sent = send(stream->fd, bytes, len, MSG_NOSIGNAL);

        if (sent >= 0) {
            *begun = true;
            bytes += sent;
            len -= (size_t)sent;
        } else if (errno == EAGAIN) {
            enum stream_result result = stream_poll(stream, POLLOUT, deadline_ns);

            if (result != STREAM_OK)
                return result;
        } else if (errno != EINTR) {
            return stream_errno(stream, "send", errno);
        }
    }
    return STREAM_OK;
}

static int64_t monotonic_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Looks, for a while if that is worth it, and sleeps. */
static enum stream_result receive_plain(struct stream *stream, void *bytes, size_t size,
                                        int64_t deadline_ns, size_t *received)
{
    for (;;) {
        ssize_t got = recv(stream->fd, bytes, size, 0);

        if (got > 0) {
            *received = (size_t)got;
            return STREAM_OK;
        }
        if (got == 0)
            return closed(stream);
        if (errno == EAGAIN && spin_more(&stream->spin, monotonic_ns())) {
            (void)sched_yield();
        } else if (errno == EAGAIN) {
            enum stream_result result = stream_poll(stream, POLLIN, deadline_ns);

            if (result != STREAM_OK)
                return result;
        } else if (errno != EINTR) {
            return stream_errno(stream, "receive", errno);
        }
    }
}

static enum stream_result receive_spinning(struct stream *stream, void *bytes, size_t size,
                                           int64_t deadline_ns, size_t *received)
{
    enum stream_result result = STREAM_FAILED;

    if (stream->spin.processors < 2)
        return receive_plain(stream, bytes, size, deadline_ns, received);
    spin_begin(&stream->spin, monotonic_ns());
    result = receive_plain(stream, bytes, size, deadline_ns, received);
    spin_end(&stream->spin, monotonic_ns(), result == STREAM_OK);
    return result;
}

enum stream_result stream_send(struct stream *stream, const void *bytes, size_t len,
                               int64_t deadline_ns, bool *begun)
{
    *begun = false;
    if (stream->ssl != NULL)
        return tls_send(stream, bytes, len, deadline_ns, begun);
    return send_plain(stream, bytes, len, deadline_ns, begun);
}

enum stream_result stream_receive(struct stream *stream, void *bytes, size_t size,
                                  int64_t deadline_ns, size_t *received)
{
    if (stream->ssl != NULL)
        return tls_receive(stream, bytes, size, deadline_ns, received);
    return receive_spinning(stream, bytes, size, deadline_ns, received);
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
        (void)closed(stream);
    else
        (void)snprintf(stream->why, sizeof stream->why, "the server spoke without being asked");
    return false;
}

void stream_close(struct stream *stream)
{
    tls_end(stream);
    if (stream->fd >= 0)
        (void)close(stream->fd);
    stream->fd = -1;
}
