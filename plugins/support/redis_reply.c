/* SPDX-License-Identifier: MIT */
#include "redis_peer.h"

#include <inttypes.h>

const char *redis_number(char *out, int64_t number)
{
    (void)snprintf(out, REDIS_DIGITS, "%" PRId64, number);
    return out;
}

int64_t redis_lease(int64_t counted_ms)
{
    return counted_ms < REDIS_TTL_MAX_MS ? counted_ms : REDIS_TTL_MAX_MS;
}

bool redis_reply_array(const redisReply *reply, size_t count)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == count;
}

bool redis_reply_int(const redisReply *reply, size_t i, int64_t least, int64_t most, int64_t *out)
{
    const redisReply *element = reply->element[i];

    if (element->type != REDIS_REPLY_INTEGER || element->integer < least || element->integer > most)
        return false;
    *out = element->integer;
    return true;
}

const redisReply *redis_reply_text(const redisReply *reply, size_t i)
{
    const redisReply *element = reply->element[i];

    return element->type == REDIS_REPLY_STRING ? element : NULL;
}
