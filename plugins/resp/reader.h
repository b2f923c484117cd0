/* SPDX-License-Identifier: MIT */
/*
 * reader.h - the server's answers, from bytes to hiredis' replies, in bounded memory.
 *
 * hiredis parses and never sees a socket. Its parser allocates what the header of an array
 * announces; therefore the reader refuses long arrays before that, and counts the bytes of an
 * answer.
 */
#ifndef RESP_READER_H
#define RESP_READER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#define RESP_REPLY_MAX    ((size_t)64 * 1024) /* bytes of one answer, unless reply_max is changed */
#define RESP_ELEMENTS_MAX 4096                /* of one array, unless elements_max is changed */

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
    size_t elements_max;
    bool refused;    /* an array was too long */
    bool no_memory;  /* after a false: the reason was memory */
    const char *why; /* after a false */
};

/* False: no memory. The reader must not move afterwards. */
bool resp_reader_init(struct resp_reader *reader);
void resp_reader_fini(struct resp_reader *reader);

/* Takes bytes as they arrive. False: an answer is too long, or no memory. */
bool resp_reader_feed(struct resp_reader *reader, const char *bytes, size_t len);

/* The next whole answer, to be freed by freeReplyObject; NULL: incomplete. False: the bytes are no
 * answer. */
bool resp_reader_next(struct resp_reader *reader, redisReply **out);

/* True: there are bytes after the last whole answer. */
bool resp_reader_pending(const struct resp_reader *reader);

#endif
