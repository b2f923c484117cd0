/* SPDX-License-Identifier: MIT */
#include "bare_redis.h"

#include "work.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

const char bench_bare_delete[] = "if redis.call('get', KEYS[1]) == ARGV[1] then"
                                 " return redis.call('del', KEYS[1]) else return 0 end";

int bench_bare_reply(redisContext *context, redisReply *reply, int type, long long *integer,
                     char *why)
{
    int fits = reply != NULL && reply->type == type;

    if (fits && integer != NULL)
        *integer = reply->integer;
    if (!fits)
        (void)snprintf(why, BENCH_WHY_SIZE, "Redis: %.200s",
                       reply == NULL                      ? context->errstr
                       : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                          : "another answer than it should be");
    if (reply != NULL)
        freeReplyObject(reply);
    return fits;
}

static int log_in(redisContext *context, const struct bench_address *address, char *why)
{
    if (address->password[0] != '\0') {
        redisReply *reply =
            address->user[0] != '\0'
                ? redisCommand(context, "AUTH %s %s", address->user, address->password)
                : redisCommand(context, "AUTH %s", address->password);

        if (!bench_bare_reply(context, reply, REDIS_REPLY_STATUS, NULL, why))
            return 0;
    }
    return address->database[0] == '\0' ||
           bench_bare_reply(context, redisCommand(context, "SELECT %s", address->database),
                            REDIS_REPLY_STATUS, NULL, why);
}

redisContext *bench_bare_connect(const struct bench_address *address, int number, char *why)
{
    const struct bench_host *host = &address->host[number];
    redisContext *context = address->socket[0] != '\0' ? redisConnectUnix(address->socket)
                                                       : redisConnect(host->name, host->port);
    int on = 1;

    if (context != NULL && context->err == 0) {
        if (address->socket[0] == '\0')
            (void)setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (log_in(context, address, why))
            return context;
    } else {
        (void)snprintf(why, BENCH_WHY_SIZE, "Redis: %.200s",
                       context != NULL ? context->errstr : "no memory");
    }
    if (context != NULL)
        redisFree(context);
    return NULL;
}

int bench_bare_load(redisContext *context, const char *script, char *sha, char *why)
{
    redisReply *reply = redisCommand(context, "SCRIPT LOAD %s", script);

    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        (void)snprintf(sha, 41, "%s", reply->str);
    return bench_bare_reply(context, reply, REDIS_REPLY_STRING, NULL, why);
}
