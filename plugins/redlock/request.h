/* SPDX-License-Identifier: MIT */
/* request.h - a request to a node: a script with its keys and arguments, or a plain command. */
#ifndef REDLOCK_REQUEST_H
#define REDLOCK_REQUEST_H

#include "redlock/lua/script.h"
#include "resp/command.h"
#include "resp/keys.h"

#include <stdbool.h>

/* For a variable that is written before it is read: the build would zero it on the stack. */
#define REDLOCK_NOT_ZEROED __attribute__((uninitialized))

/* Keys and arguments are borrowed until the request was formatted. */
struct redlock_request {
    const struct resp_script *script; /* NULL: a plain command */
    char count[RESP_DIGITS];
    struct resp_command command;
};

/* names: how many keys follow. */
void redlock_request_begin(struct redlock_request *request, enum redlock_script_id script,
                           unsigned names);
void redlock_request_name(struct redlock_request *request, const struct resp_keys *keys);
/* The bytes to be sent, to be freed by free; NULL: no memory. whole: with the text of the script,
 * for a server that does not know it. */
char *redlock_request_format(struct redlock_request *request, bool whole, size_t *len);

/* Of a request that is no plain command. */
static inline enum redlock_script_id redlock_request_script(const struct redlock_request *request)
{
    return (enum redlock_script_id)(request->script - redlock_scripts);
}

#endif
