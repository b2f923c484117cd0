/* SPDX-License-Identifier: MIT */
#include "resp.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_SIZE 24 /* of a number, with what is around it */

static void *create_array(const redisReadTask *task, resp_count elements)
{
    struct resp_reader *reader = task->privdata;

    if ((size_t)elements > RESP_ELEMENTS_MAX) {
        reader->refused = true;
        return NULL;
    }
    return reader->create_array(task, elements);
}

bool resp_reader_init(struct resp_reader *reader)
{
    *reader = (struct resp_reader){.reply_max = RESP_REPLY_MAX, .why = "no memory"};
    reader->parser = redisReaderCreate();
    if (reader->parser == NULL)
        return false;
    reader->functions = *reader->parser->fn;
    reader->create_array = reader->functions.createArray;
    reader->functions.createArray = create_array;
    reader->parser->fn = &reader->functions;
    reader->parser->privdata = reader;
    return true;
}

void resp_reader_fini(struct resp_reader *reader)
{
    if (reader->parser != NULL)
        redisReaderFree(reader->parser);
    reader->parser = NULL;
}

bool resp_reader_feed(struct resp_reader *reader, const char *bytes, size_t len)
{
    reader->fed += len;
    if (reader->fed > reader->reply_max) {
        reader->why = "the answer is longer than any could be";
        return false;
    }
    if (redisReaderFeed(reader->parser, bytes, len) == REDIS_OK)
        return true;
    reader->why = "no memory";
    reader->no_memory = true;
    return false;
}

/* The parser names the first byte of what is no answer of Redis. */
static const char *foreign(const char *errstr)
{
    if (strstr(errstr, "got \"H\"") != NULL)
        return "Protocol error, got \"H\" as reply type byte: HTTP?";
    if (strstr(errstr, "got \"\\x15\"") != NULL)
        return "Protocol error, got a byte of TLS: rediss://?";
    return errstr;
}

bool resp_reader_next(struct resp_reader *reader, redisReply **out)
{
    void *reply = NULL;

    *out = NULL;
    if (redisReaderGetReply(reader->parser, &reply) != REDIS_OK) {
        reader->no_memory = reader->parser->err == REDIS_ERR_OOM && !reader->refused;
        reader->why =
            reader->refused ? "an array longer than any could be" : foreign(reader->parser->errstr);
        return false;
    }
    if (reply == NULL)
        return true;
    reader->fed = resp_reader_pending(reader) ? reader->parser->len - reader->parser->pos : 0;
    *out = reply;
    return true;
}

bool resp_reader_pending(const struct resp_reader *reader)
{
    return reader->parser->pos < reader->parser->len;
}

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

/* hiredis' formatter calls sprintf for each word, which is an eighth of what a lock costs us. */
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
