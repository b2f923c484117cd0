/* SPDX-License-Identifier: MIT */
#include "bare_redis.h"
#include "stopwatch.h"
#include "work.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TOKEN   "0123456789abcdef0123"
#define SPIN_NS (50 * BENCH_NS_PER_US)
#define DEPTH   64

/* The shortest script for a lock with a fence, a number that rises. */
#define TAKE                                                                           \
    "local fence = redis.call('incr', KEYS[2])"                                        \
    " if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 30000) then return fence end" \
    " return 0"

struct worker {
    redisContext *context;
    char key[48];
    char sha[41];
    char take[41]; /* of TAKE */
};

static void *redis_begin(void *process, const struct bench_config *config, int index, char *why)
{
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
        return NULL;
    }
    (void)snprintf(worker->key, sizeof worker->key, "bench-%d-%d", config->run,
                   config->one_name ? 0 : index);
    worker->context = bench_bare_connect(process, 0, why);
    if (worker->context != NULL)
        return worker;
    free(worker);
    return NULL;
}

static void redis_end(void *arg)
{
    struct worker *worker = arg;

    redisFree(worker->context);
    free(worker);
}

static int redis_lock(void *arg, char *why)
{
    struct worker *worker = arg;
    redisReply *reply = redisCommand(worker->context, "SET %s " TOKEN " NX PX 30000", worker->key);

    return bench_bare_reply(worker->context, reply, REDIS_REPLY_STATUS, NULL, why) ? 0 : -1;
}

static int deleted(redisContext *context, redisReply *reply, char *why)
{
    long long gone = 0;

    if (!bench_bare_reply(context, reply, REDIS_REPLY_INTEGER, &gone, why))
        return -1;
    if (gone != 1)
        (void)snprintf(why, BENCH_WHY_SIZE, "Redis: it was not ours");
    return gone == 1 ? 0 : -1;
}

static int redis_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    return deleted(
        worker->context,
        redisCommand(worker->context, "EVALSHA %s 1 %s " TOKEN, worker->sha, worker->key), why);
}

static int once_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    return deleted(
        worker->context,
        redisCommand(worker->context, "EVAL %s 1 %s " TOKEN, bench_bare_delete, worker->key), why);
}

static void *loaded_begin(void *process, const struct bench_config *config, int index, char *why)
{
    struct worker *worker = redis_begin(process, config, index, why);

    if (worker == NULL || bench_bare_load(worker->context, bench_bare_delete, worker->sha, why))
        return worker;
    redis_end(worker);
    return NULL;
}

static void *fence_begin(void *process, const struct bench_config *config, int index, char *why)
{
    struct worker *worker = loaded_begin(process, config, index, why);

    if (worker == NULL || bench_bare_load(worker->context, TAKE, worker->take, why))
        return worker;
    redis_end(worker);
    return NULL;
}

static int fence_taken(struct worker *worker, redisReply *reply, char *why)
{
    long long fence = 0;

    if (!bench_bare_reply(worker->context, reply, REDIS_REPLY_INTEGER, &fence, why))
        return -1;
    if (fence == 0)
        (void)snprintf(why, BENCH_WHY_SIZE, "Redis: it was not free");
    return fence > 0 ? 0 : -1;
}

static int fence_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    return fence_taken(worker,
                       redisCommand(worker->context, "EVALSHA %s 2 %s %s:fence " TOKEN,
                                    worker->take, worker->key, worker->key),
                       why);
}

/* Sends the appended commands and polls for the answer, with sched_yield, before it blocks. */
static redisReply *spin(redisContext *context)
{
    int64_t until_ns = bench_now_ns() + SPIN_NS;
    void *reply = NULL;
    char answer[512];
    int sent = 0;

    while (!sent)
        if (redisBufferWrite(context, &sent) != REDIS_OK)
            return NULL;
    while (reply == NULL) {
        int flags = bench_now_ns() < until_ns ? MSG_DONTWAIT : 0;
        ssize_t got = recv(context->fd, answer, sizeof answer, flags);

        if (got < 0 && errno == EAGAIN)
            (void)sched_yield();
        else if (got <= 0 || redisReaderFeed(context->reader, answer, (size_t)got) != REDIS_OK ||
                 redisReaderGetReply(context->reader, &reply) != REDIS_OK)
            return NULL;
    }
    return reply;
}

static int spin_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    (void)redisAppendCommand(worker->context, "SET %s " TOKEN " NX PX 30000", worker->key);
    return bench_bare_reply(worker->context, spin(worker->context), REDIS_REPLY_STATUS, NULL, why)
               ? 0
               : -1;
}

static int fence_spin_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    (void)redisAppendCommand(worker->context, "EVALSHA %s 2 %s %s:fence " TOKEN, worker->take,
                             worker->key, worker->key);
    return fence_taken(worker, spin(worker->context), why);
}

static int spin_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    (void)redisAppendCommand(worker->context, "EVALSHA %s 1 %s " TOKEN, worker->sha, worker->key);
    return deleted(worker->context, spin(worker->context), why);
}

static int pipe_answers(redisContext *context, int type, char *why)
{
    for (int i = 0; i < DEPTH; i++) {
        void *reply = NULL;

        (void)redisGetReply(context, &reply);
        if (!bench_bare_reply(context, reply, type, NULL, why))
            return -1;
    }
    return 0;
}

static int pipe_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    for (int i = 0; i < DEPTH; i++)
        (void)redisAppendCommand(worker->context, "SET %s-%d " TOKEN " NX PX 30000", worker->key,
                                 i);
    return pipe_answers(worker->context, REDIS_REPLY_STATUS, why);
}

static int pipe_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    for (int i = 0; i < DEPTH; i++)
        (void)redisAppendCommand(worker->context, "EVALSHA %s 1 %s-%d " TOKEN, worker->sha,
                                 worker->key, i);
    return pipe_answers(worker->context, REDIS_REPLY_INTEGER, why);
}

const struct bench_work bench_work_redis = {
    .open = bench_address_open,
    .close = free,
    .begin = loaded_begin,
    .end = redis_end,
    .lock = redis_lock,
    .unlock = redis_unlock,
};

const struct bench_work bench_work_redis_fence = {
    .open = bench_address_open,
    .close = free,
    .begin = fence_begin,
    .end = redis_end,
    .lock = fence_lock,
    .unlock = redis_unlock,
};

const struct bench_work bench_work_redis_once = {
    .open = bench_address_open,
    .close = free,
    .begin = redis_begin,
    .end = redis_end,
    .lock = redis_lock,
    .unlock = once_unlock,
};

const struct bench_work bench_work_redis_spin = {
    .open = bench_address_open,
    .close = free,
    .begin = loaded_begin,
    .end = redis_end,
    .lock = spin_lock,
    .unlock = spin_unlock,
};

const struct bench_work bench_work_redis_fence_spin = {
    .open = bench_address_open,
    .close = free,
    .begin = fence_begin,
    .end = redis_end,
    .lock = fence_spin_lock,
    .unlock = spin_unlock,
};

const struct bench_work bench_work_redis_pipe = {
    .open = bench_address_open,
    .close = free,
    .begin = loaded_begin,
    .end = redis_end,
    .lock = pipe_lock,
    .unlock = pipe_unlock,
    .weight = DEPTH,
};
