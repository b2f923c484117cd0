/* SPDX-License-Identifier: MIT */
#include "request.h"

#include <string.h>

void redlock_request_begin(struct redlock_request *request, enum redlock_script_id script,
                           unsigned names)
{
    request->script = &redlock_scripts[script];
    (void)resp_command_number(request->count, names);
    resp_command_begin(&request->command);
    resp_command_text(&request->command, "EVALSHA");
    resp_command_text(&request->command, request->script->sha);
    resp_command_text(&request->command, request->count);
}

void redlock_request_name(struct redlock_request *request, const struct resp_keys *keys)
{
    resp_command_add(&request->command, keys->bytes[0], keys->lens[0]);
}

char *redlock_request_format(struct redlock_request *request, bool whole, size_t *len)
{
    struct resp_command *command = &request->command;

    if (request->script == NULL)
        return resp_command_format(command, len);
    command->words[0] = whole ? "EVAL" : "EVALSHA";
    command->lens[0] = strlen(command->words[0]);
    command->words[1] = whole ? request->script->body : request->script->sha;
    command->lens[1] = whole ? request->script->len : strlen(request->script->sha);
    return resp_command_format(command, len);
}
