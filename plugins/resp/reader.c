/* SPDX-License-Identifier: MIT */
#include "resp/reader.h"

#include <string.h>

static void *create_array(const redisReadTask *task, resp_count elements)
{
    struct resp_reader *reader = task->privdata;

    if ((size_t)elements > reader->elements_max) {
        reader->refused = true;
        return NULL;
    }
    return reader->create_array(task, elements);
}

bool resp_reader_init(struct resp_reader *reader)
{
    *reader = (struct resp_reader){
        .reply_max = RESP_REPLY_MAX, .elements_max = RESP_ELEMENTS_MAX, .why = "no memory"};
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

/* The parser's message names the first byte of an answer that is not of Redis. */
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
