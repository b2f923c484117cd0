/* SPDX-License-Identifier: MIT */
#include "resp/setup.h"
#include "resp/command.h"
#include "resp/error.h"

#include <stdlib.h>
#include <string.h>

enum step { STEP_AUTH, STEP_SELECT, STEP_SETNAME, STEP_INFO, STEP_SETTING, STEP_COMMANDS };

/* False: no memory. */
static bool add(struct resp_setup *setup, enum step step, const char *const *words, size_t count)
{
    struct resp_command command;
    char *one = NULL, *all = NULL;
    size_t len = 0;

    resp_command_begin(&command);
    for (size_t i = 0; i < count; i++)
        resp_command_text(&command, words[i]);
    one = resp_command_format(&command, &len);
    all = one != NULL ? malloc(setup->len + len) : NULL;
    if (all != NULL) {
        if (setup->bytes != NULL) {
            memcpy(all, setup->bytes, setup->len);
            explicit_bzero(setup->bytes, setup->len);
            free(setup->bytes);
        }
        memcpy(all + setup->len, one, len);
        setup->bytes = all;
        setup->len += len;
        setup->ends[setup->count] = setup->len;
        setup->steps[setup->count++] = (int)step;
    }
    if (one != NULL)
        explicit_bzero(one, len);
    free(one);
    return all != NULL;
}

static bool add_identity(struct resp_setup *setup)
{
    const struct resp_config *config = setup->config;
    char database[24];
    bool fine = true;

    if (config->user != NULL)
        fine = add(setup, STEP_AUTH,
                   (const char *[]){"AUTH", config->user,
                                    config->password != NULL ? config->password : ""},
                   3);
    else if (config->password != NULL)
        fine = add(setup, STEP_AUTH, (const char *[]){"AUTH", config->password}, 2);
    (void)snprintf(database, sizeof database, "%lld", (long long)config->database);
    if (fine && config->database != 0)
        fine = add(setup, STEP_SELECT, (const char *[]){"SELECT", database}, 2);
    return fine && add(setup, STEP_SETNAME, (const char *[]){"CLIENT", "SETNAME", "dlock"}, 3);
}

/* A provider of servers may have disabled commands, or renamed them. */
static bool add_commands(struct resp_setup *setup)
{
    const char *words[RESP_COMMANDS_MOST + 2] = {"COMMAND", "INFO"};
    size_t count = 2;

    for (size_t i = 0; setup->config->commands[i] != NULL; i++)
        words[count++] = setup->config->commands[i];
    return add(setup, STEP_COMMANDS, words, count);
}

/* The replication id comes first: behind a proxy another server may answer the rest, and a script
 * or a look behind a request finds that its server is not the first one. */
static bool add_info(struct resp_setup *setup)
{
    static const char *const sections[] = {"replication", "server", "memory", "persistence"};
    bool fine = true;

    for (size_t i = 0; fine && i < sizeof sections / sizeof sections[0]; i++)
        fine = add(setup, STEP_INFO, (const char *[]){"INFO", sections[i]}, 2);
    if (setup->config->asks_past) {
        fine = fine && add(setup, STEP_INFO, (const char *[]){"INFO", "stats"}, 2);
        fine = fine && add(setup, STEP_INFO, (const char *[]){"INFO", "commandstats"}, 2);
    }
    if (setup->config->settings_hidden) /* a refusal is in the server's log */
        return fine;
    fine = fine && add(setup, STEP_SETTING, (const char *[]){"CONFIG", "GET", "*appendfsync*"}, 3);
    if (fine && setup->config->failover != RESP_FAILOVER_UNSAFE)
        fine = add(setup, STEP_SETTING, (const char *[]){"CONFIG", "GET", "min-replicas-*"}, 3);
    if (fine && setup->config->failover != RESP_FAILOVER_UNSAFE && setup->config->all_keys)
        fine = add(setup, STEP_SETTING, (const char *[]){"CONFIG", "GET", "cluster-*"}, 3);
    return fine;
}

bool resp_setup_begin(struct resp_setup *setup, const struct resp_config *config, bool identity,
                      struct resp_info *info)
{
    *setup = (struct resp_setup){.config = config, .info = info};
    if (info != NULL)
        *info = (struct resp_info){.min_replicas = -1};
    return (!identity || add_identity(setup)) && (info == NULL || add_info(setup)) &&
           (!identity || info == NULL || config->commands == NULL || add_commands(setup));
}

void resp_setup_end(struct resp_setup *setup)
{
    if (setup->bytes != NULL)
        explicit_bzero(setup->bytes, setup->len);
    free(setup->bytes);
    setup->bytes = NULL;
    setup->len = 0;
}

bool resp_setup_done(const struct resp_setup *setup)
{
    return setup->answered == setup->count;
}

/* AUTH: an old or a patched server may repeat the password in its error. */
static enum dlock_status refused(const struct resp_setup *setup, enum step step,
                                 const redisReply *reply, struct dlock_error *err)
{
    const struct resp_config *config = setup->config;
    enum dlock_status status = DLOCK_OK;

    switch (step) {
    case STEP_AUTH:
        status = resp_error_take_quietly(config, reply, "user and password are refused", err);
        return status == DLOCK_UNAVAILABLE ? status : (err->status = DLOCK_AUTH);
    case STEP_SELECT:
        status = resp_error_take(config, reply, err);
        return status == DLOCK_UNKNOWN ? (err->status = DLOCK_CONFIG) : status;
    case STEP_INFO:
        status = resp_error_take(config, reply, err);
        return status == DLOCK_UNKNOWN ? (err->status = DLOCK_PROTOCOL) : status;
    case STEP_SETNAME: /* often the first command: its answer says why the server rejects us */
        if (resp_error_is(reply, "DENIED") || resp_error_is(reply, "ERR max number of clients"))
            return resp_error_take(config, reply, err);
        break;
    case STEP_SETTING:
    case STEP_COMMANDS:
        break; /* not needed */
    }
    return DLOCK_OK;
}

/* A script that misses a command may stop half-way: a lease without an end, or one that nobody can
 * give back. */
static enum dlock_status commands_judge(const struct resp_config *config, const redisReply *reply,
                                        struct dlock_error *err)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        if (config->commands[i] == NULL)
            break;
        if (reply->element[i]->type == REDIS_REPLY_NIL)
            return resp_error_fail(config, err, DLOCK_CONFIG,
                                   "the server has no command %s: it is renamed or disabled",
                                   config->commands[i]);
    }
    return DLOCK_OK;
}

enum dlock_status resp_setup_take(struct resp_setup *setup, const redisReply *reply,
                                  struct dlock_error *err)
{
    const struct resp_config *config = setup->config;
    enum step step = (enum step)setup->steps[setup->answered++];

    if (reply->type == REDIS_REPLY_ERROR)
        return refused(setup, step, reply, err);
    switch (step) {
    case STEP_AUTH:
    case STEP_SELECT:
    case STEP_SETNAME:
        if (reply->type != REDIS_REPLY_STATUS || strcmp(reply->str, "OK") != 0)
            return resp_error_fail(config, err, DLOCK_PROTOCOL, "not the answer of a Redis server");
        break;
    case STEP_INFO:
        if (reply->type != REDIS_REPLY_STRING)
            return resp_error_fail(config, err, DLOCK_PROTOCOL, "not the answer of a Redis server");
        resp_info_parse(setup->info, reply->str, (size_t)reply->len);
        break;
    case STEP_SETTING:
        resp_info_parse_config(setup->info, reply);
        break;
    case STEP_COMMANDS:
        return commands_judge(config, reply, err);
    }
    return DLOCK_OK;
}
