/* SPDX-License-Identifier: MIT */
/* connection.h - a connection that its thread waits for, by deadlines. */
#ifndef REDIS_CONNECTION_H
#define REDIS_CONNECTION_H

#include "net/stream.h"
#include "resp/config.h"
#include "resp/reader.h"

struct redis_connection {
    struct stream stream;
    struct resp_reader reader;
    const struct resp_config *config;
};

/* Zeroed is fine for redis_connection_close; it must not move while it is open. */
void redis_connection_close(struct redis_connection *connection);
/* In a forked child: gives the descriptor back, and no memory. */
void redis_connection_after_fork(struct redis_connection *connection);

/* Connects; TLS too. Says nothing to the server yet. UNAVAILABLE, AUTH, PROTOCOL, INVALID. */
enum dlock_status redis_connection_open(struct redis_connection *connection,
                                        const struct resp_config *config, const struct tls *tls,
                                        const struct dlock_host *host, int64_t deadline_ns,
                                        struct dlock_error *err);

/* OK; UNAVAILABLE: not a byte has left; UNKNOWN. */
enum dlock_status redis_connection_send(struct redis_connection *connection, const char *bytes,
                                        size_t len, int64_t deadline_ns, struct dlock_error *err);

/* The next answer, to be freed by freeReplyObject. UNKNOWN: none by the deadline; PROTOCOL; NOMEM:
 * to read it. */
enum dlock_status redis_connection_read(struct redis_connection *connection, int64_t deadline_ns,
                                        redisReply **out, struct dlock_error *err);

#endif
