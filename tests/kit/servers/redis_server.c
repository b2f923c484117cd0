/* SPDX-License-Identifier: MIT */
#include "redis_server.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_TRIES 5
#define LEAST_WORDS 64

static bool fail(struct dlt_redis *server, const char *what)
{
    dlt_process_why(server->why, sizeof server->why, server->directory, what);
    return false;
}

/* Defines DLT_REDIS_LEAST. text: for the words, that out borrows. */
static size_t least_add(char *text, size_t size, const char **out, size_t count)
{
    FILE *file = fopen(DLT_LEAST_ACL, "re");
    char *rest = NULL;
    int words = 0;

    if (file == NULL || fgets(text, (int)size, file) == NULL)
        abort();
    (void)fclose(file);
    out[count++] = "--user";
    out[count++] = DLT_REDIS_LEAST;
    out[count++] = "on";
    out[count++] = ">" DLT_REDIS_LEAST;
    for (char *word = strtok_r(text, " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        if (++words > LEAST_WORDS - 4)
            abort();
        out[count++] = word;
    }
    return count;
}

static void args_make(struct dlt_redis *server, char ports[2][16], char *least, size_t least_size,
                      const char **out)
{
    size_t count = 0;
    const char *fixed[] = {
        "redis-server", "--port",     ports[0],          "--bind", "127.0.0.1", "--unixsocket",
        server->socket, "--dir",      server->directory, "--save", "",          "--daemonize",
        "no",           "--loglevel", "warning",
    };

    (void)snprintf(ports[0], 16, "%u", server->port);
    (void)snprintf(ports[1], 16, "%u", server->tls_port);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        out[count++] = fixed[i];
    if (server->tls) {
        out[count++] = "--tls-port";
        out[count++] = ports[1];
    }
    count = least_add(least, least_size, out, count);
    for (size_t i = 0; server->args[i] != NULL; i++)
        out[count++] = server->args[i];
    out[count] = NULL;
}

static bool answers(void *arg)
{
    struct dlt_redis *server = arg;
    redisContext *context = redisConnectUnix(server->socket);
    redisReply *reply = context != NULL && context->err == 0 ? redisCommand(context, "PING") : NULL;
    bool loading =
        reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "LOAD", 4) == 0;
    bool result = reply != NULL && !loading;

    if (reply != NULL)
        freeReplyObject(reply);
    if (context != NULL)
        redisFree(context);
    return result;
}

static bool run_and_wait(struct dlt_redis *server)
{
    const char *args[DLT_REDIS_ARGS_MAX + 32 + LEAST_WORDS];
    char ports[2][16], least[LEAST_WORDS * 16];

    args_make(server, ports, least, sizeof least, args);
    (void)unlink(server->socket);
    server->pid = dlt_process_spawn(server->directory, args, getenv("LD_PRELOAD"));
    if (server->pid < 0)
        return fail(server, "fork");
    return dlt_process_wait(&server->pid, answers, server) || fail(server, "redis-server");
}

static bool directory_make(struct dlt_redis *server)
{
    if (!dlt_directory_make(server->directory, "redis"))
        return fail(server, "a directory");
    (void)snprintf(server->socket, sizeof server->socket, "%s/s", server->directory);
    return true;
}

static bool start(struct dlt_redis *server)
{
    for (int i = 0; i < START_TRIES; i++) {
        server->port = dlt_port_free();
        server->tls_port = server->tls ? dlt_port_free() : 0;
        (void)snprintf(server->address, sizeof server->address, "127.0.0.1:%u", server->port);
        if (run_and_wait(server))
            return true;
    }
    return false;
}

bool dlt_redis_start(struct dlt_redis *server, const char *const *args)
{
    *server = (struct dlt_redis){.pid = 0};
    dlt_args_add(server->args, DLT_REDIS_ARGS_MAX, args);
    return directory_make(server) && start(server);
}

bool dlt_redis_start_tls(struct dlt_redis *server, const char *certificate, const char *clients)
{
    *server = (struct dlt_redis){.tls = true};
    if (!directory_make(server))
        return false;
    if (!dlt_certificates_make(server->directory))
        return fail(server, "certificates");
    (void)snprintf(server->tls_files[0], sizeof server->tls_files[0], "%s/%s.pem",
                   server->directory, certificate);
    (void)snprintf(server->tls_files[1], sizeof server->tls_files[1], "%s/%s.key",
                   server->directory, certificate);
    (void)snprintf(server->tls_files[2], sizeof server->tls_files[2], "%s/ca.pem",
                   server->directory);
    dlt_args_add(server->args, DLT_REDIS_ARGS_MAX,
                 (const char *[]){"--tls-cert-file", server->tls_files[0], "--tls-key-file",
                                  server->tls_files[1], "--tls-ca-cert-file", server->tls_files[2],
                                  "--tls-auth-clients", clients, NULL});
    return start(server);
}

bool dlt_redis_again(struct dlt_redis *server)
{
    return run_and_wait(server);
}

void dlt_redis_kill(struct dlt_redis *server)
{
    dlt_process_kill(&server->pid);
    server->paused = false;
}

void dlt_redis_pause(struct dlt_redis *server, bool pause)
{
    dlt_process_pause(server->pid, pause);
    server->paused = pause;
}

void dlt_redis_stop(struct dlt_redis *server)
{
    dlt_redis_kill(server);
    dlt_directory_remove(server->directory);
}

static size_t reply_print(const redisReply *reply, char *out, size_t size)
{
    size_t used = 0;

    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        return (size_t)snprintf(out, size, "%lld", reply->integer);
    case REDIS_REPLY_NIL:
        return (size_t)snprintf(out, size, "nil");
    case REDIS_REPLY_ARRAY:
        out[0] = '\0';
        for (size_t i = 0; i < reply->elements && used + 2 < size; i++) {
            used += reply_print(reply->element[i], out + used, size - used);
            if (i + 1 < reply->elements && used + 2 < size)
                used += (size_t)snprintf(out + used, size - used, "\n");
        }
        return used < size ? used : size - 1;
    default:
        return (size_t)snprintf(out, size, "%s", reply->str);
    }
}

const char *dlt_redis_ask(struct dlt_redis *server, const char *format, ...)
{
    static char answer[1 << 16];
    redisContext *context = redisConnectUnix(server->socket);
    redisReply *reply = NULL;
    va_list args;

    (void)snprintf(answer, sizeof answer, "no connection");
    if (context != NULL && context->err == 0) {
        va_start(args, format);
        reply = redisvCommand(context, format, args);
        va_end(args);
    }
    if (reply != NULL) {
        (void)reply_print(reply, answer, sizeof answer);
        freeReplyObject(reply);
    }
    if (context != NULL)
        redisFree(context);
    return answer;
}
