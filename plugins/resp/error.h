/* SPDX-License-Identifier: MIT */
/*
 * error.h - errors of this side and of the server, as a status and a message.
 */
#ifndef RESP_ERROR_H
#define RESP_ERROR_H

#include "net/stream.h"
#include "resp/config.h"

#include <hiredis/hiredis.h>

/* Fills err with "<endpoint>: ..." and returns status. */
__attribute__((format(printf, 4, 5))) enum dlock_status
resp_error_fail(const struct resp_config *config, struct dlock_error *err, enum dlock_status status,
                const char *format, ...);

/* The status that the server's error means for a request; fills err with the server's text. */
enum dlock_status resp_error_take(const struct resp_config *config, const redisReply *reply,
                                  struct dlock_error *err);
/* The same without the server's text, which may repeat a secret: err says `what`. */
enum dlock_status resp_error_take_quietly(const struct resp_config *config, const redisReply *reply,
                                          const char *what, struct dlock_error *err);
/* The server's text in one printable line. */
void resp_error_text(char *out, size_t size, const redisReply *reply);
bool resp_error_is(const redisReply *reply, const char *code);

/* In a list: the label of a name with a key of another type. */
#define RESP_FOREIGN_LABEL "no lock: the key is something else"
/* CONFIG. The server answered WRONGTYPE for a key of this name. key: the key of the lock. */
enum dlock_status resp_error_wrong_type(const struct resp_config *config, const char *key,
                                        size_t len, struct dlock_error *err);

/* The status of a failed connect or handshake. */
enum dlock_status resp_error_connect_status(enum stream_result result);

#endif
