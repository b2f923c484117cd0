/* SPDX-License-Identifier: MIT */
#include "bare_redis.h"
#include "work.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "0123456789abcdef0123"

struct worker {
    int count;
    redisContext *nodes[BENCH_HOSTS_MAX];
    char key[48], sha[41];
};

static void nodes_end(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < worker->count; i++)
        redisFree(worker->nodes[i]);
    free(worker);
}

static void *nodes_begin(void *process, const struct bench_config *config, int index, char *why)
{
    const struct bench_address *address = process;
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
        return NULL;
    }
    (void)snprintf(worker->key, sizeof worker->key, "bench-%d-%d", config->run,
                   config->one_name ? 0 : index);
    for (int i = 0; i < address->hosts; i++) {
        redisContext *node = bench_bare_connect(address, i, why);

        if (node == NULL)
            break;
        worker->nodes[worker->count++] = node;
        if (!bench_bare_load(node, bench_bare_delete, worker->sha, why))
            break;
    }
    if (worker->count == address->hosts && worker->sha[0] != '\0')
        return worker;
    nodes_end(worker);
    return NULL;
}

/* Reads the answer of one node. 1: yes; 0: the answer is incomplete; -1: no. */
static int answer(redisContext *node, int type, char *why)
{
    void *reply = NULL;

    if (redisBufferRead(node) != REDIS_OK || redisGetReplyFromReader(node, &reply) != REDIS_OK)
        return bench_bare_reply(node, NULL, type, NULL, why) ? 1 : -1;
    if (reply == NULL)
        return 0;
    return bench_bare_reply(node, reply, type, NULL, why) ? 1 : -1;
}

static int send_all(struct worker *worker)
{
    for (int i = 0; i < worker->count; i++)
        for (int sent = 0; !sent;)
            if (redisBufferWrite(worker->nodes[i], &sent) != REDIS_OK)
                return -1;
    return 0;
}

static int ask_all(struct worker *worker, int type, char *why)
{
    struct pollfd fds[BENCH_HOSTS_MAX];
    int left = worker->count;

    if (send_all(worker) != 0) {
        (void)snprintf(why, BENCH_WHY_SIZE, "Redis: cannot send");
        return -1;
    }
    for (int i = 0; i < worker->count; i++)
        fds[i] = (struct pollfd){.fd = worker->nodes[i]->fd, .events = POLLIN};
    while (left > 0 && poll(fds, (nfds_t)worker->count, -1) > 0) {
        for (int i = 0; i < worker->count; i++) {
            int rc =
                fds[i].fd >= 0 && fds[i].revents != 0 ? answer(worker->nodes[i], type, why) : 0;

            if (rc < 0)
                return -1;
            if (rc > 0) {
                fds[i].fd = -1;
                left--;
            }
        }
    }
    return 0;
}

static int nodes_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    for (int i = 0; i < worker->count; i++)
        (void)redisAppendCommand(worker->nodes[i], "SET %s " TOKEN " NX PX 30000", worker->key);
    return ask_all(worker, REDIS_REPLY_STATUS, why);
}

static int nodes_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    for (int i = 0; i < worker->count; i++)
        (void)redisAppendCommand(worker->nodes[i], "EVALSHA %s 1 %s " TOKEN, worker->sha,
                                 worker->key);
    return ask_all(worker, REDIS_REPLY_INTEGER, why);
}

const struct bench_work bench_work_nodes = {
    .open = bench_address_open,
    .close = free,
    .begin = nodes_begin,
    .end = nodes_end,
    .lock = nodes_lock,
    .unlock = nodes_unlock,
};
