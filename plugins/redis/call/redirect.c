/* SPDX-License-Identifier: MIT */
#include "redis/call/redirect.h"

#include <stdlib.h>
#include <string.h>

/* " 3999 127.0.0.1:6381"; an IPv6 address stands without brackets. */
static bool target_read(struct redis_redirect *out, const char *text)
{
    char *end = NULL;
    const char *colon = strrchr(text, ':');
    unsigned long slot = strtoul(text, &end, 10), port = 0;
    size_t len = 0;

    if (end == text || *end != ' ' || slot >= REDIS_SLOTS || colon == NULL || colon < end + 1)
        return false;
    len = (size_t)(colon - end) - 1;
    port = strtoul(colon + 1, &end, 10);
    text = colon - len;
    if (len > ADDRESS_HOST_MAX || port == 0 || port > UINT16_MAX || *end != '\0')
        return false;
    memcpy(out->to.host, text, len);
    out->to.host[len] = '\0';
    out->to.port = (uint16_t)port;
    out->slot = (unsigned)slot;
    return true;
}

void redis_redirect_read(struct redis_redirect *out, const redisReply *reply)
{
    static const char moved[] = "MOVED ", ask[] = "ASK ", again[] = "TRYAGAIN";

    out->kind = REDIS_REDIRECT_NONE;
    if (reply->type != REDIS_REPLY_ERROR)
        return;
    if (strncmp(reply->str, again, sizeof again - 1) == 0)
        out->kind = REDIS_REDIRECT_TRYAGAIN;
    else if (strncmp(reply->str, moved, sizeof moved - 1) == 0 &&
             target_read(out, reply->str + sizeof moved - 1))
        out->kind = REDIS_REDIRECT_MOVED;
    else if (strncmp(reply->str, ask, sizeof ask - 1) == 0 &&
             target_read(out, reply->str + sizeof ask - 1))
        out->kind = REDIS_REDIRECT_ASK;
}
