/* SPDX-License-Identifier: MIT */
/*
 * resp.h - the protocol of Redis: commands as bytes, answers as hiredis' replies, in bounded
 * memory.
 *
 * hiredis parses; it never sees a socket. Its reader allocates what a header announces,
 * so that headers are checked before it gets to see them as arrays, and bytes are counted.
 */
#ifndef SUPPORT_RESP_H
#define SUPPORT_RESP_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#define RESP_REPLY_MAX    ((size_t)64 * 1024) /* bytes of one answer, unless said otherwise */
#define RESP_ELEMENTS_MAX 4096                /* of one array */

#if HIREDIS_MAJOR >= 1
typedef size_t resp_count;
#else
typedef int resp_count;
#endif

struct resp_reader {
    redisReader *parser; /* NULL: no memory, or after resp_reader_fini */
    redisReplyObjectFunctions functions;
    void *(*create_array)(const redisReadTask *, resp_count);
    size_t fed;       /* bytes since the last whole answer */
    size_t reply_max; /* bytes of one answer */
    bool refused;     /* an array was too long */
    bool no_memory;   /* after a false: that was it */
    const char *why;  /* after a false */
};

/* False: no memory. The reader must not move afterwards. */
bool resp_reader_init(struct resp_reader *reader);
void resp_reader_fini(struct resp_reader *reader);

/* Takes bytes as they came. False: more than an answer may have. */
bool resp_reader_feed(struct resp_reader *reader, const char *bytes, size_t len);

/* The next whole answer, to be freed by freeReplyObject; NULL: not there yet. False: these bytes
 * make no sense. */
bool resp_reader_next(struct resp_reader *reader, redisReply **out);

/* Bytes are there of which nothing was answered. */
bool resp_reader_pending(const struct resp_reader *reader);

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

/* The bytes to send, to be freed by free; NULL: no memory, or it did not fit. */
char *resp_command_format(const struct resp_command *command, size_t *len);

#endif
