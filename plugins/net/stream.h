/* SPDX-License-Identifier: MIT */
/*
 * stream.h - bytes to and from a server, over TCP, a unix socket or TLS, each call by a deadline.
 *
 * Deadlines are absolute, on the host's clock. The descriptor is non-blocking and close-on-exec. No
 * call raises SIGPIPE. After a call that did not return STREAM_OK, only stream_close is allowed;
 * only a stream_receive or a stream_connect_tls that timed out may be repeated. An open stream
 * moves in memory by stream_move only. One thread at a time uses it, except for the steps below.
 *
 * stream_connect.h opens a stream, tls.h has TLS. A plugin that shares a connection between threads
 * uses stream_try_send and stream_try_receive with its own poll.
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
    STREAM_CLOSED,  /* the server closed the connection in good order */
    STREAM_FAILED,  /* an error of the network, the kernel or the server */
    STREAM_REFUSED, /* TLS: the server's certificate is wrong, or the server refused ours; a unix
                       socket: this user may not open it */
    STREAM_FOREIGN, /* TLS: the server does not speak TLS */
    STREAM_INVALID  /* an argument is impossible: the path is too long */
};

struct stream {
    int fd;       /* -1: closed */
    void *ssl;    /* SSL of OpenSSL; NULL: plain */
    bool asked;   /* TLS: the server asked for a certificate, and we have none */
    bool alerted; /* TLS: the server ended the connection with an alert: it refused something */
    const struct dlock_host *host;
    struct spin spin;          /* does not poll before spin_init */
    char why[STREAM_WHY_SIZE]; /* of the last call that did not return STREAM_OK */
};

/* Makes a closed stream, for which stream_close does nothing. */
void stream_init(struct stream *stream, const struct dlock_host *host);

/* Makes *to the stream that *from is, and *from a closed one. */
void stream_move(struct stream *to, struct stream *from);

/* Sends all bytes. *begun: a byte may have been sent. */
enum stream_result stream_send(struct stream *stream, const void *bytes, size_t len,
                               int64_t deadline_ns, bool *begun);

/* Receives at least one byte. */
enum stream_result stream_receive(struct stream *stream, void *bytes, size_t size,
                                  int64_t deadline_ns, size_t *received);

/*
 * The same in steps that do not wait, for a connection that threads share. On a plain stream one
 * thread may send while another one receives; with TLS only one thread does either.
 *
 * STREAM_OK: `done` bytes, at least one. STREAM_TIMEOUT: none now; poll for `events`, then repeat
 * with the same bytes, to which more may have been added. Any other result: `why` is set.
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
 * True: the stream is open and has no bytes to read, as between an answer and the next request.
 * Unexpected bytes belong to a request that was given up. Does not wait.
 */
bool stream_idle(struct stream *stream);

/* Sends nothing to the server. */
void stream_close(struct stream *stream);

/* ---- for stream_connect.c ---- */

/* Waits for POLLIN or POLLOUT. STREAM_OK: try again. */
enum stream_result stream_poll(struct stream *stream, short events, int64_t deadline_ns);
/* Sets `why` to what and the text of this errno. STREAM_FAILED. */
enum stream_result stream_errno(struct stream *stream, const char *what, int code);

#endif
