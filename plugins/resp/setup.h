/* SPDX-License-Identifier: MIT */
/*
 * setup.h - makes a new connection ready: authenticates, chooses the database, reads INFO.
 *
 * All commands are sent together and their answers arrive together, so that the set-up takes one
 * round trip. resp_setup remembers the commands, to know to which one an answer belongs.
 */
#ifndef RESP_SETUP_H
#define RESP_SETUP_H

#include "resp/info.h"

#define RESP_SETUP_MAX 13

struct resp_setup {
    const struct resp_config *config;
    struct resp_info *info;
    char *bytes; /* to be sent; wiped by resp_setup_end */
    size_t len;
    int steps[RESP_SETUP_MAX];
    size_t ends[RESP_SETUP_MAX]; /* in bytes, of each command */
    size_t count, answered;
};

/* identity: of a new connection: authenticate, choose the database, look for the commands. info:
 * NULL: do not ask for it. False: no memory. Call resp_setup_end in either case. */
bool resp_setup_begin(struct resp_setup *setup, const struct resp_config *config, bool identity,
                      struct resp_info *info);
/* Reads the next answer; the caller keeps the reply. OK, or why the connection cannot be used. */
enum dlock_status resp_setup_take(struct resp_setup *setup, const redisReply *reply,
                                  struct dlock_error *err);
bool resp_setup_done(const struct resp_setup *setup);
void resp_setup_end(struct resp_setup *setup);

#endif
