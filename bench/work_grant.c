/* SPDX-License-Identifier: MIT */
#include "bare_redis.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys: the lock, its queue. Argument: the owner. */
static const char acquire_script[] =
    "if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 30000) then return 1 end "
    "redis.call('rpush', KEYS[2], ARGV[1]) return 0";

static const char release_script[] =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
    "local next = redis.call('lpop', KEYS[2]) "
    "if next then redis.call('set', KEYS[1], next, 'px', 30000) redis.call('publish', next, '1') "
    "else redis.call('del', KEYS[1]) end return 1";

/* Keys: the lock, its queue, its fence. An entry of the queue is alive while its own key is. The
 * answer is the fence, or 0. */
static const char fence_acquire_script[] =
    "if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 30000) then"
    " return redis.call('incr', KEYS[3]) end "
    "redis.call('rpush', KEYS[2], ARGV[1]) redis.call('set', ARGV[1], '', 'px', 30000) return 0";

static const char fence_release_script[] =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
    "local next repeat next = redis.call('lpop', KEYS[2])"
    " until not next or redis.call('del', next) == 1 "
    "if next then redis.call('set', KEYS[1], next, 'px', 30000)"
    " redis.call('publish', next, redis.call('incr', KEYS[3])) "
    "else redis.call('del', KEYS[1]) end return 1";

struct worker {
    redisContext *context, *subscriber;
    char key[48], queue[48], channel[48]; /* the channel is the owner's name, too */
    char acquire[41], release[41];
};

static void grant_end(void *arg)
{
    struct worker *worker = arg;

    if (worker->context != NULL)
        redisFree(worker->context);
    if (worker->subscriber != NULL)
        redisFree(worker->subscriber);
    free(worker);
}

static void *scripts_begin(const char *take, const char *give, void *process,
                           const struct bench_config *config, int index, char *why)
{
    struct worker *worker = calloc(1, sizeof *worker);
    int name = config->one_name ? 0 : index;

    if (worker == NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
        return NULL;
    }
    (void)snprintf(worker->key, sizeof worker->key, "bench-%d-%d", config->run, name);
    (void)snprintf(worker->queue, sizeof worker->queue, "bench-%d-%d-queue", config->run, name);
    (void)snprintf(worker->channel, sizeof worker->channel, "bench-%d-%d-for-%d", config->run, name,
                   index);
    worker->context = bench_bare_connect(process, 0, why);
    if (worker->context != NULL)
        worker->subscriber = bench_bare_connect(process, 0, why);
    if (worker->subscriber != NULL &&
        bench_bare_load(worker->context, take, worker->acquire, why) &&
        bench_bare_load(worker->context, give, worker->release, why) &&
        bench_bare_reply(worker->subscriber,
                         redisCommand(worker->subscriber, "SUBSCRIBE %s", worker->channel),
                         REDIS_REPLY_ARRAY, NULL, why))
        return worker;
    grant_end(worker);
    return NULL;
}

static void *grant_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return scripts_begin(acquire_script, release_script, process, config, index, why);
}

static void *fence_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return scripts_begin(fence_acquire_script, fence_release_script, process, config, index, why);
}

static int call(struct worker *worker, const char *sha, long long *answer, char *why)
{
    redisReply *reply = redisCommand(worker->context, "EVALSHA %s 3 %s %s %s-fence %s", sha,
                                     worker->key, worker->queue, worker->key, worker->channel);

    return bench_bare_reply(worker->context, reply, REDIS_REPLY_INTEGER, answer, why) ? 0 : -1;
}

static int grant_lock(void *arg, char *why)
{
    struct worker *worker = arg;
    void *message = NULL;
    long long mine = 0;

    if (call(worker, worker->acquire, &mine, why) != 0)
        return -1;
    if (mine)
        return 0;
    (void)redisGetReply(worker->subscriber, &message);
    return bench_bare_reply(worker->subscriber, message, REDIS_REPLY_ARRAY, NULL, why) ? 0 : -1;
}

static int grant_unlock(void *arg, char *why)
{
    struct worker *worker = arg;
    long long was_mine = 0;

    if (call(worker, worker->release, &was_mine, why) != 0)
        return -1;
    if (!was_mine)
        (void)snprintf(why, BENCH_WHY_SIZE, "Redis: it was not ours");
    return was_mine ? 0 : -1;
}

const struct bench_work bench_work_grant = {
    .open = bench_address_open,
    .close = free,
    .begin = grant_begin,
    .end = grant_end,
    .lock = grant_lock,
    .unlock = grant_unlock,
};

const struct bench_work bench_work_grant_fence = {
    .open = bench_address_open,
    .close = free,
    .begin = fence_begin,
    .end = grant_end,
    .lock = grant_lock,
    .unlock = grant_unlock,
};
