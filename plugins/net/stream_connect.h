/* SPDX-License-Identifier: MIT */
/* stream_connect.h - opens a stream: over TCP, to a unix socket, and TLS on top of either. */
#ifndef NET_STREAM_CONNECT_H
#define NET_STREAM_CONNECT_H

#include "net/stream.h"
#include "net/tls.h"

#include <netdb.h>

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

#endif
