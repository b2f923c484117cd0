/* SPDX-License-Identifier: MIT */
#include "resp.h"

#include <string.h>

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *create_array(const redisReadTask *task, element_count elements)
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

bool resp_reader_next(struct resp_reader *reader, redisReply **out)
{
    void *reply = NULL;

    *out = NULL;
    if (redisReaderGetReply(reader->parser, &reply) != REDIS_OK) {
        reader->no_memory = reader->parser->err == REDIS_ERR_OOM && !reader->refused;
        reader->why =
            reader->refused ? "an array longer than any could be" : reader->parser->errstr;
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

char *resp_command_format(const struct resp_command *command, size_t *len)
{
    struct resp_command *words = (struct resp_command *)command; /* hiredis forgot a const */
    char *bytes = NULL;
    int size = 0;

    if (command->full || command->count == 0)
        return NULL;
    size = redisFormatCommandArgv(&bytes, command->count, words->words, command->lens);
    if (size < 0)
        return NULL;
    *len = (size_t)size;
    return bytes;
}
