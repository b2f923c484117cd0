/* SPDX-License-Identifier: MIT */
#include "meter.h"

#include "bare_maria.h"
#include "bare_redis.h"
#include "gauge.h"
#include "stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_meter {
    struct bench_address address;
    redisContext *nodes[BENCH_HOSTS_MAX];
    int count; /* of nodes */
    MYSQL *maria;
    pid_t server; /* of MariaDB; 0: not found on this machine */
    int64_t own;  /* the meter's own commands */
};

/* The number after a word of an INFO; 0: the word is not there. */
static double after(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    return at != NULL ? strtod(at + strlen(word), NULL) : 0;
}

static int is_script(const char *name)
{
    return strncmp(name, "eval", 4) == 0 || strncmp(name, "fcall", 5) == 0;
}

/* Reads lines like "cmdstat_evalsha:calls=12,usec=...". */
static void commands_count(const char *text, struct bench_tally *tally)
{
    while ((text = strstr(text, "cmdstat_")) != NULL) {
        const char *name = text + strlen("cmdstat_"), *colon = strchr(name, ':');
        long long calls = colon != NULL ? (long long)after(colon, ":calls=") : 0;

        text = name;
        if (colon == NULL || strncmp(name, "info:", 5) == 0)
            continue;
        tally->commands += calls;
        if (!is_script(name))
            continue;
        tally->scripts += calls;
        tally->scripts_ns += (int64_t)(after(colon, ",usec=") * (double)BENCH_NS_PER_US);
    }
}

static int node_read(redisContext *node, struct bench_tally *tally)
{
    redisReply *reply = redisCommand(node, "INFO commandstats cpu");
    int answered = reply != NULL && reply->type == REDIS_REPLY_STRING;

    if (answered) {
        commands_count(reply->str, tally);
        tally->cpu_ns +=
            (int64_t)((after(reply->str, "used_cpu_user:") + after(reply->str, "used_cpu_sys:")) *
                      (double)BENCH_NS_PER_S);
    }
    if (reply != NULL)
        freeReplyObject(reply);
    return answered;
}

/* The first value of a result, as text; "": there is none. */
static void maria_ask(struct bench_meter *meter, const char *question, int column, char *text,
                      size_t size)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;

    text[0] = '\0';
    meter->own++;
    if (mysql_real_query(meter->maria, question, strlen(question)) != 0)
        return;
    result = mysql_store_result(meter->maria);
    if (result == NULL)
        return;
    row = mysql_fetch_row(result);
    if (row != NULL && row[column] != NULL)
        (void)snprintf(text, size, "%s", row[column]);
    mysql_free_result(result);
}

/* The server does not report its processor time; the kernel of this machine does. */
static pid_t server_find(struct bench_meter *meter)
{
    char text[512], path[64];
    long long pid = 0;
    FILE *file = NULL;

    maria_ask(meter, "SELECT @@pid_file", 0, text, sizeof text);
    pid = bench_gauge_number(text, 0);
    (void)snprintf(path, sizeof path, "/proc/%lld/comm", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fgets(text, sizeof text, file) == NULL || strstr(text, "d\n") == NULL)
        pid = 0;
    (void)fclose(file);
    return (pid_t)pid;
}

static void maria_read(struct bench_meter *meter, struct bench_tally *tally)
{
    struct bench_gauge gauge = {0};
    char text[64];

    maria_ask(meter, "SHOW GLOBAL STATUS LIKE 'Questions'", 1, text, sizeof text);
    tally->commands = text[0] != '\0' ? strtoll(text, NULL, 10) - meter->own : -1;
    tally->scripts = tally->scripts_ns = -1;
    tally->cpu_ns = -1;
    if (meter->server == 0)
        return;
    bench_gauge_read(&meter->server, 1, &gauge);
    tally->cpu_ns = gauge.cpu_ns;
}

static int redis_open(struct bench_meter *meter, char *why)
{
    int hosts = meter->address.socket[0] != '\0' ? 1 : meter->address.hosts;

    for (int i = 0; i < hosts; i++) {
        meter->nodes[i] = bench_bare_connect(&meter->address, i, why);
        if (meter->nodes[i] == NULL)
            return -1;
        meter->count++;
    }
    return 0;
}

static int maria_open(struct bench_meter *meter, char *why)
{
    meter->maria = bench_maria_connect(&meter->address, why);
    if (meter->maria == NULL)
        return -1;
    meter->server = server_find(meter);
    return 0;
}

int bench_meter_open(const char *uri, struct bench_meter **out, char *why)
{
    struct bench_meter *meter = NULL;
    struct bench_address address;
    int rc = 0;

    *out = NULL;
    if (bench_address_parse(uri, &address) != 0 || !address.plain || address.kind < BENCH_REDIS ||
        address.kind > BENCH_MYSQL_SESSION)
        return 0;
    meter = calloc(1, sizeof *meter);
    if (meter == NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
        return -1;
    }
    meter->address = address;
    rc = address.kind >= BENCH_MYSQL ? maria_open(meter, why) : redis_open(meter, why);
    if (rc == 0)
        *out = meter;
    else
        bench_meter_close(meter);
    return rc;
}

void bench_meter_close(struct bench_meter *meter)
{
    if (meter == NULL)
        return;
    for (int i = 0; i < meter->count; i++)
        redisFree(meter->nodes[i]);
    mysql_close(meter->maria);
    free(meter);
}

void bench_meter_read(struct bench_meter *meter, struct bench_tally *tally)
{
    *tally = (struct bench_tally){-1, -1, -1, -1};
    if (meter == NULL)
        return;
    if (meter->maria != NULL) {
        maria_read(meter, tally);
        return;
    }
    *tally = (struct bench_tally){0, 0, 0, 0};
    for (int i = 0; i < meter->count; i++)
        if (!node_read(meter->nodes[i], tally))
            *tally = (struct bench_tally){-1, -1, -1, -1};
}

static int64_t between(int64_t before, int64_t now)
{
    return before < 0 || now < before ? -1 : now - before;
}

struct bench_tally bench_tally_between(const struct bench_tally *before,
                                       const struct bench_tally *later)
{
    return (struct bench_tally){
        .commands = between(before->commands, later->commands),
        .scripts = between(before->scripts, later->scripts),
        .scripts_ns = between(before->scripts_ns, later->scripts_ns),
        .cpu_ns = between(before->cpu_ns, later->cpu_ns),
    };
}
