/* SPDX-License-Identifier: MIT */
/* connection.h - a connection whose calls wait, each until its deadline. */
#ifndef REDIS_CONNECTION_H
#define REDIS_CONNECTION_H

#include "net/stream.h"
#include "resp/config.h"
#include "resp/info.h"
#include "resp/reader.h"

struct redis_connection {
    struct stream stream;
    struct resp_reader reader;
    const struct resp_config *config;
    bool heard; /* the server has sent something */
};

/* redis_connection_close accepts a zeroed connection. An open connection must not move. */
void redis_connection_close(struct redis_connection *connection);
/* In a forked child: closes the descriptor and frees nothing. */
void redis_connection_after_fork(struct redis_connection *connection);

struct redis_connect_args {
    const struct resp_config *config;
    const struct tls *tls;
    const struct dlock_host *host;
};

/* Connects, with TLS if the config says so, authenticates with the present password [SEC-1] and
 * chooses the database. server_info: NULL: does not read it. All commands are one round trip.
 * UNAVAILABLE, AUTH, PROTOCOL, INVALID, NOMEM, or a status of resp_setup_take. */
enum dlock_status redis_connection_open(struct redis_connection *connection,
                                        const struct redis_connect_args *args, int64_t deadline_ns,
                                        struct resp_info *server_info, struct dlock_error *err);

/* OK; UNAVAILABLE: no byte was sent; UNKNOWN. */
enum dlock_status redis_connection_send(struct redis_connection *connection, const char *bytes,
                                        size_t len, int64_t deadline_ns, struct dlock_error *err);

/* The next answer, to be freed by freeReplyObject. UNKNOWN: no answer by the deadline; PROTOCOL;
 * NOMEM. */
enum dlock_status redis_connection_read(struct redis_connection *connection, int64_t deadline_ns,
                                        redisReply **out, struct dlock_error *err);

#endif
