/* SPDX-License-Identifier: MIT */
#include "redis/guard/guard.h"
#include "lib/time.h"
#include "redis/guard/view.h"
#include "redis/link/pipeline.h"
#include "redis/lua/script.h"
#include "resp/command.h"
#include "resp/error.h"
#include "resp/keys.h"
#include "resp/reply.h"

#include <stdlib.h>
#include <string.h>

#define SETTLE_MS  40 /* for replicas; twice a call, at most: 100 ms count as silence */
#define ANSWER_MAX ((size_t)4 * 1024 * 1024) /* a cluster has many slots */
#define US_PER_MS  INT64_C(1000)

struct redis_guard *redis_guard_new(const struct dlock_host *host, const struct resp_config *config)
{
    struct redis_guard *guard = calloc(1, sizeof *guard);

    if (guard == NULL)
        return NULL;
    guard->host = host;
    guard->config = config;
    (void)pthread_mutex_init(&guard->mutex, NULL);
    return guard;
}

void redis_guard_free(struct redis_guard *guard)
{
    if (guard == NULL)
        return;
    redis_view_slots_free(&guard->owned);
    (void)pthread_mutex_destroy(&guard->mutex);
    free(guard);
}

/* ---- one command ---- */

static bool validate(const void *asked, redisReply *reply)
{
    return asked == NULL && reply != NULL;
}

/* OK: *reply is an answer, or an error of the server. UNAVAILABLE: the server did nothing that
 * counts. */
static enum dlock_status ask(struct redis_pipeline *pipeline, const struct resp_command *command,
                             int64_t deadline_ns, redisReply **reply, struct dlock_error *err)
{
    struct redis_exchange exchange = {
        .reply_max = ANSWER_MAX, .deadline_ns = deadline_ns, .validate = validate};
    char *bytes = resp_command_format(command, &exchange.len);
    bool asked = false;

    *reply = NULL;
    if (bytes == NULL) {
        (void)resp_error_fail(pipeline->guard->config, err, DLOCK_NOMEM, "no memory for a command");
        return DLOCK_NOMEM;
    }
    exchange.bytes = bytes;
    asked = redis_pipeline_exchange(pipeline, &exchange);
    free(bytes);
    if (asked && exchange.status == DLOCK_OK && exchange.reply != NULL) {
        *reply = exchange.reply;
        return DLOCK_OK;
    }
    (void)resp_error_fail(pipeline->guard->config, err, DLOCK_UNAVAILABLE, "not sent: %s",
                          asked ? exchange.why : "the server closed the connection");
    return DLOCK_UNAVAILABLE;
}

/* ---- beginning ---- */

/* A master that is cut off may see no replica. */
static bool is_needed(const struct resp_config *config, const struct resp_info *info,
                      bool others_have_it)
{
    if (config->raw || config->failover == RESP_FAILOVER_UNSAFE)
        return false;
    return config->failover == RESP_FAILOVER_ALWAYS || config->failover_guard_ms > 0 ||
           info->replicas > 0 || info->min_replicas > 0 || resp_info_was_promoted(info) ||
           others_have_it;
}

/* Chooses where the record is. *replicas: how many the cluster knows. */
static enum dlock_status mark_choose(struct redis_pipeline *pipeline, int64_t *replicas,
                                     int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_guard *guard = pipeline->guard;
    struct resp_command command;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_OK;

    resp_command_begin(&command);
    resp_command_text(&command, "CLUSTER");
    resp_command_text(&command, "NODES");
    status = ask(pipeline, &command, deadline_ns, &reply, err);
    if (status != DLOCK_OK)
        return status;
    if (reply->type == REDIS_REPLY_ERROR)
        status = resp_error_take(pipeline->guard->config, reply, err);
    else if (reply->type != REDIS_REPLY_STRING ||
             !redis_view_tag_choose(reply->str, guard->tag, replicas))
        status = resp_error_fail(pipeline->guard->config, err, DLOCK_UNAVAILABLE,
                                 "no longer a master with slots of its own");
    freeReplyObject(reply);
    return status == DLOCK_UNKNOWN ? (err->status = DLOCK_CONFIG) : status;
}

enum dlock_status redis_guard_begin(struct redis_pipeline *pipeline, _Atomic bool *others_have_it,
                                    struct resp_info *info, int64_t deadline_ns,
                                    struct dlock_error *err)
{
    const struct resp_config *config = pipeline->connection.config;
    struct redis_guard *guard = pipeline->guard;
    int64_t known = 0;
    enum dlock_status status = DLOCK_OK;

    (void)snprintf(guard->id, sizeof guard->id, "%.40s", info->replid);
    guard->alone = !config->raw && config->failover != RESP_FAILOVER_UNSAFE;
    if (!is_needed(config, info, atomic_load(others_have_it)))
        return DLOCK_OK;
    if (config->all_keys)
        status = mark_choose(pipeline, &known, deadline_ns, err);
    info->replicas = known > info->replicas ? known : info->replicas;
    info->is_guarded = true;
    if (status == DLOCK_OK)
        status = redis_view_judge(config, info, guard, err);
    if (status != DLOCK_OK)
        return status;
    guard->on = true;
    atomic_store(others_have_it, true); /* before the view, which takes time */
    return redis_guard_view(pipeline, true, deadline_ns, err);
}

/* ---- looking ---- */

/* Texts of a view's command. */
struct view_words {
    char keys[2][RESP_KEY_MAX], needed[RESP_DIGITS], lasts[RESP_DIGITS], matters[RESP_DIGITS];
};

static void view_command(struct resp_command *command, struct view_words *words,
                         const struct redis_pipeline *pipeline, bool body)
{
    const struct resp_config *config = pipeline->connection.config;
    const struct redis_guard *guard = pipeline->guard;
    bool clustered = config->all_keys;
    const struct resp_script *script =
        &redis_scripts[clustered ? REDIS_SCRIPT_CLUSTER_VIEW : REDIS_SCRIPT_VIEW];

    (void)snprintf(words->keys[0], sizeof words->keys[0], "%s!%s", config->prefix, guard->tag);
    (void)snprintf(words->keys[1], sizeof words->keys[1], "%s!%s:s", config->prefix, guard->tag);
    resp_command_begin(command);
    resp_command_text(command, body ? "EVAL" : "EVALSHA");
    if (body)
        resp_command_add(command, script->body, script->len);
    else
        resp_command_text(command, script->sha);
    resp_command_text(command, clustered ? "2" : "1");
    for (int i = 0; i < (clustered ? 2 : 1); i++)
        resp_command_text(command, words->keys[i]);
    resp_command_text(command, guard->id);
    resp_command_text(command, resp_command_number(words->needed, guard->needed));
    resp_command_text(command, resp_command_number(words->lasts, guard->lasts_ms * US_PER_MS));
    if (clustered)
        resp_command_text(command,
                          resp_command_number(words->matters, guard->grants_ms * US_PER_MS));
    resp_command_text(command, "0"); /* no number: one answer at a time is outstanding here */
}

static enum dlock_status view_ask(struct redis_pipeline *pipeline, bool body, int64_t deadline_ns,
                                  redisReply **reply, struct dlock_error *err)
{
    struct resp_command command;
    struct view_words words;

    view_command(&command, &words, pipeline, body);
    return ask(pipeline, &command, deadline_ns, reply, err);
}

/* *looked: there is a new look. */
static enum dlock_status view_once(struct redis_pipeline *pipeline, int64_t deadline_ns,
                                   bool *looked, struct dlock_error *err)
{
    int64_t seen_ns = pipeline->guard->host->now_ns(pipeline->guard->host->ctx);
    redisReply *reply = NULL;
    const char *over = NULL;
    enum dlock_status status = view_ask(pipeline, false, deadline_ns, &reply, err);

    *looked = false;
    if (status == DLOCK_OK && resp_error_is(reply, "NOSCRIPT")) {
        freeReplyObject(reply);
        status = view_ask(pipeline, true, deadline_ns, &reply, err);
    }
    if (status != DLOCK_OK)
        return status;
    if (reply->type != REDIS_REPLY_ERROR) {
        over = redis_view_keep(pipeline->guard, reply, seen_ns);
        *looked = over == NULL;
        if (over != NULL)
            status = resp_error_fail(pipeline->guard->config, err, DLOCK_UNAVAILABLE, "%s", over);
    } else if (!resp_error_is(reply, "NOREPLICAS") && !resp_error_is(reply, "OOM")) {
        status = resp_error_take(pipeline->guard->config, reply,
                                 err); /* else what follows is refused, too */
    }
    freeReplyObject(reply);
    return status;
}

static enum dlock_status settle_wait(struct redis_pipeline *pipeline, int64_t deadline_ns,
                                     struct dlock_error *err)
{
    struct resp_command command;
    char needed[RESP_DIGITS], most[RESP_DIGITS];
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_OK;

    resp_command_begin(&command);
    resp_command_text(&command, "WAIT");
    resp_command_text(&command, resp_command_number(needed, pipeline->guard->needed));
    resp_command_text(&command, resp_command_number(most, SETTLE_MS));
    status = ask(pipeline, &command, deadline_ns, &reply, err);
    freeReplyObject(reply); /* guard.lua counts itself */
    return status;
}

static bool has_begun(struct redis_guard *guard)
{
    bool begun = false;

    (void)pthread_mutex_lock(&guard->mutex);
    begun = guard->since_us != 0;
    (void)pthread_mutex_unlock(&guard->mutex);
    return begun;
}

enum dlock_status redis_guard_view(struct redis_pipeline *pipeline, bool settle,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    bool looked = false;
    enum dlock_status status = view_once(pipeline, deadline_ns, &looked, err);

    if (status == DLOCK_OK && looked && settle) {
        status = settle_wait(pipeline, deadline_ns, err);
        if (status == DLOCK_OK && !has_begun(pipeline->guard))
            status = view_once(pipeline, deadline_ns, &looked, err);
    }
    if (status != DLOCK_OK) {
        atomic_store(&pipeline->dead, true);
        err->status = status = status == DLOCK_AUTH ? status : DLOCK_UNAVAILABLE;
    }
    return status;
}
