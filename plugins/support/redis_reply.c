/* SPDX-License-Identifier: MIT */
#include "redis_peer.h"

#include <string.h>

/* snprintf takes ten times as long, and a lock has a handful of them. */
const char *redis_number(char *out, int64_t number)
{
    char text[REDIS_DIGITS], *end = text + sizeof text, *at = end;
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

int64_t redis_lease(int64_t counted_ms, int64_t ttl_ms)
{
    return counted_ms < ttl_ms ? counted_ms : ttl_ms;
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
