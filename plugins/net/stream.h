/* SPDX-License-Identifier: MIT */
/*
 * stream.h - bytes to and from a server, over TCP, a unix socket or TLS, each call by a deadline.
 *
 * Deadlines are absolute, on the host's clock. The descriptor is non-blocking and close-on-exec. No
 * call raises SIGPIPE. After a call that did not return STREAM_OK, only stream_close is allowed;
 * only a stream_receive or a stream_connect_tls that timed out may be repeated. An open stream
 * moves in memory by stream_move only. One thread at a time uses it, except for the steps below.
 *
 * tls.h has TLS. A plugin that shares a connection between threads
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

struct tls;

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

/* STREAM_FAILED: no server answers, or the name of the host is unknown. STREAM_REFUSED: this user
 * may not open the socket. */
enum stream_result stream_connect(struct stream *stream, const struct address *address,
                                  int64_t deadline_ns);
enum stream_result stream_connect_unix(struct stream *stream, const char *path,
                                       int64_t deadline_ns);

/* Starts TLS on a connected stream. name: the certificate must be for this name, and the server is
 * told it (SNI). After STREAM_TIMEOUT another call goes on with the handshake. */
enum stream_result stream_connect_tls(struct stream *stream, const struct tls *tls,
                                      const char *name, int64_t deadline_ns);

/* The first bytes of the answer to this on a connection of its own. 0: there is none in time. */
size_t stream_ask_apart(const struct dlock_host *host, const struct address *address,
                        const void *question, size_t len, void *answer, size_t size,
                        int64_t deadline_ns);
/* Whether a server that hangs up speaks TLS. It is asked apart. */
bool stream_wants_tls(const struct dlock_host *host, const struct address *address,
                      int64_t deadline_ns);

/*
 * Connecting in steps that do not wait. After a begin that returned STREAM_OK, repeat the step when
 * poll finds *events, until it does not return STREAM_TIMEOUT. tls_begin and tls_step do the same
 * for TLS.
 */
enum stream_result stream_connect_begin(struct stream *stream, const struct addrinfo *to);
enum stream_result stream_connect_step(struct stream *stream, short *events);

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

/* Of a socket with a connection: the kernel notices in seconds, not in hours, that the peer has
 * vanished, and sends small messages at once. No change to a unix socket. */
void stream_keep_alive(int fd);

#endif
