/* SPDX-License-Identifier: MIT */
#include "resp/command.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_SIZE 24 /* of a number, with its mark and line end */

void resp_command_begin(struct resp_command *command)
{
    command->count = 0;
    command->full = false;
}

void resp_command_add(struct resp_command *command, const void *word, size_t len)
{
    if (command->count == RESP_WORDS_MAX) {
        command->full = true;
        return;
    }
    command->words[command->count] = word;
    command->lens[command->count] = len;
    command->count++;
}

void resp_command_text(struct resp_command *command, const char *word)
{
    resp_command_add(command, word, strlen(word));
}

/* The formatter of hiredis calls sprintf for each word, an eighth of the time of a lock. */
static char *number_put(char *out, char mark, size_t number)
{
    char digits[24];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    *out++ = mark;
    memcpy(out, digits + at, sizeof digits - at);
    out += sizeof digits - at;
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

char *resp_command_format(const struct resp_command *command, size_t *len)
{
    size_t size = NUMBER_SIZE;
    char *bytes = NULL, *out = NULL;

    if (command->full || command->count == 0)
        return NULL;
    for (int i = 0; i < command->count; i++)
        size += NUMBER_SIZE + command->lens[i] + 2;
    bytes = malloc(size);
    if (bytes == NULL)
        return NULL;
    out = number_put(bytes, '*', (size_t)command->count);
    for (int i = 0; i < command->count; i++) {
        out = number_put(out, '$', command->lens[i]);
        memcpy(out, command->words[i], command->lens[i]);
        out += command->lens[i];
        *out++ = '\r';
        *out++ = '\n';
    }
    *len = (size_t)(out - bytes);
    return bytes;
}

/* snprintf takes ten times as long, and a lock writes several numbers. */
const char *resp_command_number(char *out, int64_t number)
{
    char text[RESP_DIGITS], *end = text + sizeof text, *at = end;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    *--at = '\0';
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (number < 0)
        *--at = '-';
    memcpy(out, at, (size_t)(end - at));
    return out;
}
