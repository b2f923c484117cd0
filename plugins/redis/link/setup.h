/* SPDX-License-Identifier: MIT */
/* setup.h - makes a connection ready for requests. */
#ifndef REDIS_SETUP_H
#define REDIS_SETUP_H

#include "redis/link/connection.h"
#include "resp/info.h"

struct redis_connect_args {
    const struct resp_config *config;
    const struct tls *tls;
    const struct dlock_host *host;
};

/* Connects, authenticates with the present password [SEC-1] and chooses the database. server_info:
 * NULL: does not read it. All commands are one round trip. */
enum dlock_status redis_setup_connect(struct redis_connection *connection,
                                      const struct redis_connect_args *args, int64_t deadline_ns,
                                      struct resp_info *server_info, struct dlock_error *err);

#endif
