/* SPDX-License-Identifier: MIT */
#include "resp/reply.h"

#define DIGITS_MOST (INT64_MAX / 10 - 9) /* one more digit may overflow */

bool resp_reply_digits(const char **at, int64_t *out)
{
    if (**at < '1' || **at > '9')
        return false;
    for (*out = 0; **at >= '0' && **at <= '9' && *out < DIGITS_MOST; ++*at)
        *out = 10 * *out + (**at - '0');
    return **at < '0' || **at > '9';
}

int64_t resp_reply_lease_ms(int64_t reported_ms, int64_t ttl_ms)
{
    return reported_ms < ttl_ms ? reported_ms : ttl_ms;
}

bool resp_reply_array(const redisReply *reply, size_t count)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == count;
}

bool resp_reply_int(const redisReply *reply, size_t i, int64_t least, int64_t most, int64_t *out)
{
    const redisReply *element = reply->element[i];

    if (element->type != REDIS_REPLY_INTEGER || element->integer < least || element->integer > most)
        return false;
    *out = element->integer;
    return true;
}

const redisReply *resp_reply_text(const redisReply *reply, size_t i)
{
    const redisReply *element = reply->element[i];

    return element->type == REDIS_REPLY_STRING ? element : NULL;
}
