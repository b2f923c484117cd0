/* SPDX-License-Identifier: MIT */
#include "sentinel_server.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define START_TRIES 5
#define POLL_MS     20
#define WAIT_POLLS  3000 /* a minute */
#define MAJORITY    (DLT_SENTINELS_COUNT / 2 + 1)

/* ---- asking ---- */

/* The answer to a command; NULL: none. */
static redisReply *ask(unsigned port, const char *command)
{
    const struct timeval timeout = {.tv_sec = 1};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", (int)port, timeout);
    redisReply *reply = NULL;

    if (context != NULL && context->err == 0 && redisSetTimeout(context, timeout) == REDIS_OK)
        reply = redisCommand(context, command);
    if (context != NULL)
        redisFree(context);
    return reply;
}

/* The port of the master, as this sentinel says; 0: it does not say. */
static unsigned master_port(const struct dlt_sentinel *sentinel)
{
    redisReply *reply =
        sentinel->pid > 0
            ? ask(sentinel->port, "SENTINEL GET-MASTER-ADDR-BY-NAME " DLT_SENTINELS_SERVICE)
            : NULL;
    unsigned port = 0;

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        port = (unsigned)strtoul(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return port;
}

static bool says(unsigned port, const char *command, const char *text)
{
    redisReply *reply = ask(port, command);
    bool found = reply != NULL && reply->str != NULL && strstr(reply->str, text) != NULL;

    freeReplyObject(reply);
    return found;
}

static bool quorate(const struct dlt_sentinel *sentinel)
{
    return says(sentinel->port, "SENTINEL CKQUORUM " DLT_SENTINELS_SERVICE, "OK 3 usable");
}

int dlt_sentinels_master(struct dlt_sentinels *service)
{
    unsigned ports[DLT_SENTINELS_COUNT];

    for (size_t i = 0; i < DLT_SENTINELS_COUNT; i++)
        ports[i] = master_port(&service->sentinels[i]);
    for (int node = 0; node < DLT_SENTINELS_COUNT; node++) {
        unsigned count = 0;

        for (size_t i = 0; i < DLT_SENTINELS_COUNT; i++)
            count += ports[i] == service->redis[node].port;
        if (count >= MAJORITY)
            return node;
    }
    return -1;
}

static bool writable(struct dlt_redis *server)
{
    return server->pid > 0 && says(server->port, "INFO replication", "role:master") &&
           says(server->port, "SET dlt:writable 1 PX 1", "OK");
}

int dlt_sentinels_master_wait(struct dlt_sentinels *service, int before)
{
    for (int polls = 0; polls < WAIT_POLLS; polls++) {
        int node = dlt_sentinels_master(service);

        if (node >= 0 && node != before && writable(&service->redis[node]))
            return node;
        (void)poll(NULL, 0, POLL_MS);
    }
    return -1;
}

/* ---- starting ---- */

static bool fail(struct dlt_sentinels *service, const char *directory, const char *what)
{
    dlt_process_why(service->why, sizeof service->why, directory, what);
    return false;
}

static bool node_start(struct dlt_sentinels *service, unsigned node, const char *const *args)
{
    const char *all[DLT_REDIS_ARGS_MAX] = {/* the users of the replicas and of the sentinels */
                                           "--user",
                                           "replica",
                                           "on",
                                           ">replica",
                                           "+@all",
                                           "~*",
                                           "&*", /**/
                                           "--user",
                                           "sentinel",
                                           "on",
                                           ">sentinel",
                                           "+@all",
                                           "~*",
                                           "&*", /**/
                                           "--masteruser",
                                           "replica",
                                           "--masterauth",
                                           "replica",
                                           "--repl-diskless-sync-delay",
                                           "0",
                                           "--min-replicas-to-write",
                                           "1",
                                           "--min-replicas-max-lag",
                                           "2",
                                           NULL};
    char *text = service->args_text[node];

    dlt_args_add(all, DLT_REDIS_ARGS_MAX, args);
    if (node > 0) {
        (void)snprintf(text, sizeof service->args_text[node], "127.0.0.1 %u",
                       service->redis[0].port);
        dlt_args_add(all, DLT_REDIS_ARGS_MAX, (const char *[]){"--replicaof", text, NULL});
    }
    if (dlt_redis_start(&service->redis[node], all))
        return true;
    (void)snprintf(service->why, sizeof service->why, "%s", service->redis[node].why);
    return false;
}

static bool config_write(const struct dlt_sentinels *service, const struct dlt_sentinel *sentinel)
{
    char path[DLT_DIRECTORY_SIZE + 16];
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "%s/sentinel.conf", sentinel->directory);
    file = fopen(path, "we");
    if (file == NULL)
        return false;
    (void)fprintf(file,
                  "port %u\nbind 127.0.0.1\ndir %s\n"
                  "sentinel monitor " DLT_SENTINELS_SERVICE " 127.0.0.1 %u %d\n"
                  "sentinel auth-user " DLT_SENTINELS_SERVICE " sentinel\n"
                  "sentinel auth-pass " DLT_SENTINELS_SERVICE " sentinel\n"
                  "sentinel down-after-milliseconds " DLT_SENTINELS_SERVICE " 500\n"
                  "sentinel failover-timeout " DLT_SENTINELS_SERVICE " 1000\n"
                  "sentinel parallel-syncs " DLT_SENTINELS_SERVICE " 2\n",
                  sentinel->port, sentinel->directory, service->redis[0].port, MAJORITY);
    return fclose(file) == 0;
}

static bool sentinel_answers(void *arg)
{
    const struct dlt_sentinel *sentinel = arg;

    return says(sentinel->port, "PING", "PONG");
}

static bool sentinel_start(struct dlt_sentinels *service, struct dlt_sentinel *sentinel)
{
    char path[DLT_DIRECTORY_SIZE + 16];

    if (!dlt_directory_make(sentinel->directory, "sentinel"))
        return fail(service, sentinel->directory, "a directory");
    (void)snprintf(path, sizeof path, "%s/sentinel.conf", sentinel->directory);
    for (int i = 0; i < START_TRIES; i++) {
        const char *const argv[] = {"redis-server", path, "--sentinel", NULL};

        sentinel->port = dlt_port_free();
        (void)snprintf(sentinel->address, sizeof sentinel->address, "127.0.0.1:%u", sentinel->port);
        if (!config_write(service, sentinel))
            return fail(service, sentinel->directory, "sentinel.conf");
        sentinel->pid = dlt_process_spawn(sentinel->directory, argv, getenv("LD_PRELOAD"));
        if (sentinel->pid > 0 && dlt_process_wait(&sentinel->pid, sentinel_answers, sentinel))
            return true;
    }
    return fail(service, sentinel->directory, "redis-server --sentinel");
}

static bool settled(struct dlt_sentinels *service)
{
    for (size_t i = 0; i < DLT_SENTINELS_COUNT; i++)
        if (!quorate(&service->sentinels[i]))
            return false;
    for (size_t i = 1; i < DLT_SENTINELS_COUNT; i++)
        if (!says(service->redis[i].port, "INFO replication", "master_link_status:up"))
            return false;
    return writable(&service->redis[0]);
}

static bool all_start(struct dlt_sentinels *service, const char *const *args)
{
    bool good = true;

    for (unsigned i = 0; good && i < DLT_SENTINELS_COUNT; i++)
        good = node_start(service, i, args);
    for (unsigned i = 0; good && i < DLT_SENTINELS_COUNT; i++) {
        good = sentinel_start(service, &service->sentinels[i]);
        (void)snprintf(service->hosts + strlen(service->hosts),
                       sizeof service->hosts - strlen(service->hosts), "%s%s", i > 0 ? "," : "",
                       service->sentinels[i].address);
    }
    for (int polls = 0; good && !settled(service); polls++) {
        if (polls == WAIT_POLLS)
            good = fail(service, service->sentinels[0].directory, "sentinels that do not agree");
        (void)poll(NULL, 0, POLL_MS);
    }
    return good;
}

bool dlt_sentinels_start(struct dlt_sentinels *service, const char *const *args)
{
    *service = (struct dlt_sentinels){.why = ""};
    return all_start(service, args);
}

bool dlt_sentinels_start_alone(struct dlt_sentinels *service)
{
    static const char *const args[] = {"--min-replicas-to-write",
                                       "0",
                                       "--user",
                                       "default",
                                       "on",
                                       "nopass",
                                       "~*",
                                       "&*",
                                       "+@all",
                                       "-config",
                                       NULL};

    *service = (struct dlt_sentinels){.discreet = true};
    return all_start(service, args);
}

void dlt_sentinels_stop(struct dlt_sentinels *service)
{
    for (unsigned i = 0; i < DLT_SENTINELS_COUNT; i++) {
        dlt_process_kill(&service->sentinels[i].pid);
        dlt_directory_remove(service->sentinels[i].directory);
    }
    for (unsigned i = 0; i < DLT_SENTINELS_COUNT; i++)
        dlt_redis_stop(&service->redis[i]);
}

/* ---- faults ---- */

bool dlt_sentinels_failover(struct dlt_sentinels *service)
{
    for (size_t i = 0; i < DLT_SENTINELS_COUNT; i++)
        if (service->sentinels[i].pid > 0)
            return says(service->sentinels[i].port, "SENTINEL FAILOVER " DLT_SENTINELS_SERVICE,
                        "OK");
    return false;
}

static void default_restore(const struct dlt_sentinels *service, struct dlt_redis *server)
{
    (void)dlt_redis_ask(server, service->discreet ? "ACL SETUSER default +@all -config"
                                                  : "ACL SETUSER default +@all");
}

/* A login that fails leaves a connection to the default user, who then may do no more than clients
 * need. */
void dlt_sentinels_part(struct dlt_sentinels *service, unsigned node, bool part)
{
    static const char *const users[] = {"sentinel", "replica"};
    struct dlt_redis *server = &service->redis[node];

    if (part)
        (void)dlt_redis_ask(server, "ACL SETUSER default -ping -psync -sync -replconf -replicaof "
                                    "-slaveof");
    else
        default_restore(service, server);
    for (size_t i = 0; i < 2; i++) {
        (void)dlt_redis_ask(server, "ACL SETUSER %s %s", users[i], part ? "off" : "on");
        if (part)
            (void)dlt_redis_ask(server, "CLIENT KILL USER %s", users[i]);
    }
}

void dlt_sentinels_lag(struct dlt_sentinels *service, unsigned node, bool lag)
{
    struct dlt_redis *server = &service->redis[node];

    if (lag)
        (void)dlt_redis_ask(server, "ACL SETUSER default -psync -sync -replconf");
    else
        default_restore(service, server);
    (void)dlt_redis_ask(server, "ACL SETUSER replica %s", lag ? "off" : "on");
    if (lag)
        (void)dlt_redis_ask(server, "CLIENT KILL USER replica");
}

void dlt_sentinels_blind(struct dlt_sentinels *service, unsigned node, bool blind)
{
    struct dlt_redis *server = &service->redis[node];

    if (blind)
        (void)dlt_redis_ask(server, "ACL SETUSER default -ping -replicaof -slaveof");
    else
        default_restore(service, server);
    (void)dlt_redis_ask(server, "ACL SETUSER sentinel %s", blind ? "off" : "on");
    if (blind)
        (void)dlt_redis_ask(server, "CLIENT KILL USER sentinel");
}

void dlt_sentinels_kill(struct dlt_sentinels *service, unsigned sentinel)
{
    dlt_process_kill(&service->sentinels[sentinel].pid);
}

void dlt_sentinels_pause(struct dlt_sentinels *service, unsigned sentinel, bool pause)
{
    dlt_process_pause(service->sentinels[sentinel].pid, pause);
}
