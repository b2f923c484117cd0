/* SPDX-License-Identifier: MIT */
#include "redlock.h"

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

void redlock_release_make(struct redlock_release_request *release,
                          const struct redlock_place *place, const unsigned char *name,
                          uint32_t name_len, const char *owner, uint32_t last_round,
                          enum redlock_release what)
{
    static const char *const words[] = {"UNLOCK", "UNDO", "LEAVE"};

    resp_keys_make(&release->keys, &place->nodes[0], name, name_len);
    if (last_round == REDLOCK_ALL_ROUNDS)
        memcpy(release->round, "*", sizeof "*");
    else
        (void)resp_command_number(release->round, last_round);
    redlock_request_begin(&release->request, REDLOCK_SCRIPT_RELEASE, 1);
    redlock_request_name(&release->request, &release->keys);
    resp_command_text(&release->request.command, owner);
    resp_command_text(&release->request.command, release->round);
    resp_command_text(&release->request.command, words[what]);
}
