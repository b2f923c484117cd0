/* SPDX-License-Identifier: MIT */
#include "net/stream.h"
#include "lib/deadline_cond.h"
#include "lib/time.h"
#include "net/tls.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
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
