/* SPDX-License-Identifier: MIT */
/*
 * Answers of a Redis server, through the loop that feeds them to the parser: what comes out does
 * not depend on how the bytes were cut, and takes memory in proportion. The first byte chooses the
 * cuts.
 */
#include "fuzz.h"
#include "resp/reader.h"

#include <malloc.h>
#include <string.h>

#define SEEN_MAX (1 << 16)

/* For an input: a reply and what the parser keeps of the bytes, and an array begun on each level.
 */
#define MEMORY_A_BYTE 64
#define MEMORY_AT_ALL ((size_t)1 << 20)

enum { ANSWER, LONGEST, TOO_LONG, NO_SENSE };

struct fuzz_goal fuzz_goals[] = {[ANSWER] = {"an answer", 0},
                                 [LONGEST] = {"the longest array", 0},
                                 [TOO_LONG] = {"an array that is too long", 0},
                                 [NO_SENSE] = {"what makes no sense", 0},
                                 {NULL, 0}};

/* AddressSanitizer's, if it is there. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated(void)
{
    struct mallinfo2 info;

    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
    info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* What was answered, as text. */
struct seen {
    char text[SEEN_MAX];
    size_t used;
};

static void see(struct seen *seen, const void *bytes, size_t len)
{
    if (seen->used + len < sizeof seen->text) {
        memcpy(seen->text + seen->used, bytes, len);
        seen->used += len;
    }
}

static void see_reply(struct seen *seen, const redisReply *reply)
{
    char text[64];
    int len = snprintf(text, sizeof text, "[%d %lld %zu ", reply->type, reply->integer,
                       reply->type == REDIS_REPLY_ARRAY ? (size_t)reply->elements : 0);

    see(seen, text, (size_t)len);
    FUZZ_CHECK(reply->type != REDIS_REPLY_ARRAY || reply->elements <= RESP_ELEMENTS_MAX, "%zu",
               (size_t)reply->elements);
    fuzz_goals[LONGEST].reached +=
        reply->type == REDIS_REPLY_ARRAY && reply->elements == RESP_ELEMENTS_MAX;
    if (reply->str != NULL)
        see(seen, reply->str, (size_t)reply->len);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        see_reply(seen, reply->element[i]);
    see(seen, "]", 1);
}

/* False: these bytes make no sense. */
static int answers(struct resp_reader *reader, struct seen *seen)
{
    for (;;) {
        redisReply *reply = NULL;

        if (!resp_reader_next(reader, &reply)) {
            FUZZ_CHECK(reader->why != NULL && reader->why[0] != '\0', "no reason given");
            fuzz_goals[reader->refused ? TOO_LONG : NO_SENSE].reached++;
            return 0;
        }
        if (reply == NULL)
            return 1;
        fuzz_goals[ANSWER].reached++;
        see_reply(seen, reply);
        freeReplyObject(reply);
    }
}

static void feed(const uint8_t *bytes, size_t size, unsigned cut, struct seen *seen)
{
    struct resp_reader reader;
    size_t before = allocated();
    int sane = 1;

    seen->used = 0;
    FUZZ_CHECK(resp_reader_init(&reader), "no memory");
    for (size_t at = 0; sane && at < size;) {
        size_t len = cut == 0 ? 4096 : 1 + (at * 7 + cut) % cut;

        if (len > size - at)
            len = size - at;
        sane = resp_reader_feed(&reader, (const char *)bytes + at, len) && answers(&reader, seen);
        at += len;
        FUZZ_CHECK(allocated() <= before + MEMORY_AT_ALL + MEMORY_A_BYTE * at, "%zu bytes for %zu",
                   allocated() - before, at);
    }
    see(seen, sane ? "." : "!", 1);
    resp_reader_fini(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct seen whole, parts;
    struct fuzz_input input = {bytes, size};
    unsigned cut = 1 + fuzz_byte(&input) % 40;

    if (input.left >= RESP_REPLY_MAX)
        return 0;
    feed(input.at, input.left, 0, &whole);
    feed(input.at, input.left, cut, &parts);
    FUZZ_CHECK(whole.used == parts.used && memcmp(whole.text, parts.text, whole.used) == 0,
               "%.*s, and in parts %.*s", (int)whole.used, whole.text, (int)parts.used, parts.text);
    return 0;
}
