/* SPDX-License-Identifier: MIT */
/*
 * stream.h - bytes to and from a server, over TCP, a unix socket or TLS, each call by a deadline.
 *
 * Deadlines are absolute, on the clock of the host that the stream was opened with. The descriptor
 * is non-blocking and close-on-exec, and no call raises SIGPIPE. After a call that did not return
 * STREAM_OK the stream is good for nothing but stream_close; only a stream_receive that timed out
 * may be repeated. It must not move while it is open. One thread at a time.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "net/address.h"
#include "net/spin.h"

#include <dlock/plugin.h>
#include <netdb.h>
#include <stdbool.h>

#define STREAM_WHY_SIZE 160

enum stream_result {
    STREAM_OK,
    STREAM_TIMEOUT, /* the deadline */
    STREAM_CLOSED,  /* the peer ended it in good order */
    STREAM_FAILED,  /* the network, the kernel or the peer */
    STREAM_REFUSED, /* TLS: the peer is not who it should be, or refused us */
    STREAM_FOREIGN, /* TLS: the peer does not speak it */
    STREAM_INVALID  /* what was asked for cannot be: a path too long */
};

struct stream {
    int fd;     /* -1: closed */
    void *ssl;  /* SSL of OpenSSL; NULL: plain */
    bool asked; /* TLS: the server asked for a certificate, and we have none */
    const struct dlock_host *host;
    struct spin spin;          /* never, unless spin_init says otherwise */
    char why[STREAM_WHY_SIZE]; /* of the last call that did not return STREAM_OK */
};

/* A closed stream: stream_close is harmless. */
void stream_init(struct stream *stream, const struct dlock_host *host);

/* Sends all of it. *begun: a byte may have left. */
enum stream_result stream_send(struct stream *stream, const void *bytes, size_t len,
                               int64_t deadline_ns, bool *begun);

/* At least one byte. */
enum stream_result stream_receive(struct stream *stream, void *bytes, size_t size,
                                  int64_t deadline_ns, size_t *received);

/*
 * Steps of the same that wait for nothing, for a connection that threads share: of plain streams
 * one thread may send while another one receives; of TLS only one does either.
 *
 * STREAM_OK: `done` bytes, at least one. STREAM_TIMEOUT: none now; poll for `events`, and then
 * begin with the same bytes, to which more may have been added. Anything else: `why`.
 */
struct stream_step {
    size_t done;
    short events;
    char why[STREAM_WHY_SIZE];
};
enum stream_result stream_try_send(struct stream *stream, const void *bytes, size_t len,
                                   struct stream_step *step);
enum stream_result stream_try_receive(struct stream *stream, void *bytes, size_t size,
                                      struct stream_step *step);

/*
 * Whether the stream is open and silent, as it is between an answer and the next request: bytes
 * that nobody asked for belong to something that was given up. Does not wait.
 */
bool stream_idle(struct stream *stream);

/* Says nothing to the peer. */
void stream_close(struct stream *stream);

/* ---- for the files of stream ---- */

/* Waits for POLLIN or POLLOUT. STREAM_OK: look. */
enum stream_result stream_poll(struct stream *stream, short events, int64_t deadline_ns);
/* Writes `why` from errno. */
enum stream_result stream_errno(struct stream *stream, const char *what, int code);

#endif
