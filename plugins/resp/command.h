/* SPDX-License-Identifier: MIT */
/*
 * command.h - commands to a Redis server, as bytes.
 */
#ifndef RESP_COMMAND_H
#define RESP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most words of one command. */
#define RESP_WORDS_MAX 512

/* A command being put together. Words are borrowed until resp_command_format. */
struct resp_command {
    int count;
    bool full; /* a word did not fit */
    const char *words[RESP_WORDS_MAX];
    size_t lens[RESP_WORDS_MAX];
};

void resp_command_begin(struct resp_command *command);
void resp_command_add(struct resp_command *command, const void *word, size_t len);
void resp_command_text(struct resp_command *command, const char *word);

/* The bytes to send, to be freed by free; NULL: no memory, or a word did not fit. */
char *resp_command_format(const struct resp_command *command, size_t *len);

/* Bytes of a number as text. */
#define RESP_DIGITS 24

/* Writes the number to out, which holds RESP_DIGITS, and returns out. */
const char *resp_command_number(char *out, int64_t number);

/* A Lua script of a plugin and the SHA1 by which a server knows it; embed.cmake makes the tables.
 */
struct resp_script {
    const char *sha; /* 40 hex digits */
    const char *body;
    size_t len;
    const char *name;
};

#endif
