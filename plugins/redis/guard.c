/* SPDX-License-Identifier: MIT */
#include "guard.h"
#include "lib/time.h"
#include "pipeline.h"
#include "pool.h"
#include "resp/command.h"
#include "resp/error.h"
#include "resp/keys.h"
#include "resp/reply.h"
#include "script.h"

#include <stdlib.h>
#include <string.h>

#define CLOCKS_DIFFER_MS 1000 /* S */
#define MARGIN_MS        1000 /* of D, beyond what the server's settings say */
#define SETTLE_MS        100  /* the longest wait for replicas: other requests wait, too */
#define VIEWS_EVERY_MS   1000 /* see call.c */
#define ANSWER_MAX       ((size_t)64 * 1024)
#define US_PER_MS        INT64_C(1000)

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
}

/* ---- one command ---- */

static bool validate(const void *asked, redisReply *reply)
{
    return asked == NULL && reply != NULL;
}

/* OK: *reply is an answer, or an error of the server. UNAVAILABLE: the server did nothing that
 * counts. */
static enum dlock_status ask(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                             const struct resp_command *command, int64_t deadline_ns,
                             redisReply **reply, struct dlock_error *err)
{
    struct redis_exchange exchange = {
        .reply_max = ANSWER_MAX, .deadline_ns = deadline_ns, .validate = validate};
    char *bytes = resp_command_format(command, &exchange.len);
    bool asked = false;

    *reply = NULL;
    if (bytes == NULL)
        return resp_error_fail(pool->config, err, DLOCK_NOMEM, "no memory for a command");
    exchange.bytes = bytes;
    asked = redis_pipeline_exchange(pipeline, &exchange);
    free(bytes);
    if (!asked)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE,
                               "not sent: the server closed the connection");
    if (exchange.status != DLOCK_OK)
        return resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "not sent: %s", exchange.why);
    *reply = exchange.reply;
    return DLOCK_OK;
}

/* ---- how long an old master goes on ---- */

/* The master and its followers have to be half of the servers at least: two masters with so many
 * followers each would have one in common. */
static int64_t followers_least(int64_t replicas)
{
    return replicas > 1 ? (replicas + 1) / 2 : 1;
}

static enum dlock_status unbounded(const struct resp_config *config, const struct resp_info *info,
                                   struct dlock_error *err)
{
    if (info->min_replicas < 0)
        return resp_error_fail(
            config, err, DLOCK_CONFIG,
            "a replica may become the master, and how long this one goes on then "
            "is not known: the user may not read min-replicas-to-write (grant "
            "+config|get, or set failover_guard=41s, or failover=unsafe)");
    return resp_error_fail(
        config, err, DLOCK_CONFIG,
        "a replica may become the master, and nothing ends this one then: set "
        "min-replicas-to-write %lld (now %lld) and min-replicas-max-lag 10 in all "
        "servers, or failover=unsafe in the URI: a failover may make two holders",
        (long long)followers_least(info->replicas), (long long)info->min_replicas);
}

/* D, as the server's settings say; 0: they do not. */
static int64_t settings_last_ms(const struct resp_info *info)
{
    int64_t lasts_ms = info->cluster ? info->node_timeout_ms : info->max_lag_s * 1000;

    return lasts_ms > 0 ? lasts_ms + MARGIN_MS : 0;
}

/* Sets D and the number of replicas. */
static enum dlock_status lasts_judge(const struct resp_config *config, const struct resp_info *info,
                                     struct redis_guard *guard, struct dlock_error *err)
{
    int64_t longest_ms = config->restart_guard_ms, lasts_ms = settings_last_ms(info);
    int64_t least = followers_least(info->replicas);

    if (longest_ms <= 0)
        return resp_error_fail(config, err, DLOCK_CONFIG,
                               "a replica may become the master: restart_guard has to say what the "
                               "longest ttl is (or failover=unsafe)");
    guard->is_proven = info->min_replicas >= least && lasts_ms > 0;
    if (config->failover_guard_ms > 0)
        lasts_ms = config->failover_guard_ms - longest_ms;
    if (lasts_ms <= 0 || (!guard->is_proven && info->min_replicas >= 0) ||
        (!guard->is_proven && config->failover_guard_ms == 0))
        return unbounded(config, info, err);
    guard->needed = info->min_replicas > least ? info->min_replicas : least;
    guard->lasts_ms = lasts_ms / 2;
    guard->yours_ms = lasts_ms + CLOCKS_DIFFER_MS;
    guard->grants_ms = longest_ms + lasts_ms;
    return DLOCK_OK;
}

/* A master that is cut off may see no replica. */
static bool is_needed(const struct redis_pool *pool, const struct resp_config *config,
                      const struct resp_info *info)
{
    if (config->raw || config->failover == RESP_FAILOVER_UNSAFE)
        return false;
    return config->failover == RESP_FAILOVER_ALWAYS || config->failover_guard_ms > 0 ||
           info->replicas > 0 || info->min_replicas > 0 || info->promoted ||
           atomic_load(&pool->guarded);
}

enum dlock_status redis_guard_begin(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                    const struct resp_info *info, int64_t deadline_ns,
                                    struct dlock_error *err)
{
    const struct resp_config *config = pipeline->connection.config;
    struct redis_guard *guard = &pipeline->guard;
    enum dlock_status status = DLOCK_OK;

    if (!is_needed(pool, config, info))
        return DLOCK_OK;
    status = lasts_judge(config, info, guard, err);
    if (status != DLOCK_OK)
        return status;
    (void)snprintf(guard->id, sizeof guard->id, "%.40s", info->replid);
    guard->on = true;
    atomic_store(&pool->guarded, true);
    return redis_guard_view(pool, pipeline, true, deadline_ns, err);
}

/* ---- looking ---- */

/* Texts of a view's command. */
struct view_words {
    char key[RESP_KEY_MAX], needed[RESP_DIGITS], lasts[RESP_DIGITS];
};

static void view_command(struct resp_command *command, struct view_words *words,
                         const struct redis_pipeline *pipeline, bool body)
{
    const struct resp_script *script = &redis_scripts[REDIS_SCRIPT_VIEW];
    const struct resp_config *config = pipeline->connection.config;
    const struct redis_guard *guard = &pipeline->guard;

    (void)snprintf(words->key, sizeof words->key, "%s!%s", config->prefix,
                   config->mark_tag != NULL ? config->mark_tag : "");
    resp_command_begin(command);
    resp_command_text(command, body ? "EVAL" : "EVALSHA");
    if (body)
        resp_command_add(command, script->body, script->len);
    else
        resp_command_text(command, script->sha);
    resp_command_text(command, "1");
    resp_command_text(command, words->key);
    resp_command_text(command, guard->id);
    resp_command_text(command, resp_command_number(words->needed, guard->needed));
    resp_command_text(command, resp_command_number(words->lasts, guard->lasts_ms * US_PER_MS));
    resp_command_text(command, "0"); /* no number: one answer at a time is outstanding here */
}

static bool number_read(const redisReply *reply, size_t i, int64_t *out)
{
    const redisReply *text = resp_reply_text(reply, i);

    if (text == NULL || text->len == 0 || text->len > 18)
        return false;
    *out = strtoll(text->str, NULL, 10);
    return *out >= 0;
}

/* NULL: fine. Else why the next connection has to judge the server again. */
static const char *view_keep(struct redis_guard *guard, const redisReply *reply, int64_t seen_ns)
{
    struct redis_view view = {.seen_ns = seen_ns};
    int64_t since_us = 0, replicas = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5 ||
        !number_read(reply, 0, &view.server_us) || !number_read(reply, 1, &view.offset) ||
        !number_read(reply, 2, &since_us) || !number_read(reply, 3, &replicas) ||
        view.server_us == 0)
        return "no longer the master that it was";
    if (followers_least(replicas) > guard->needed)
        return "the server has more replicas now";
    (void)pthread_mutex_lock(&guard->mutex);
    if (guard->views[0].server_us == 0 || view.offset >= guard->views[0].offset) {
        guard->views[1] = guard->views[0];
        guard->views[0] = view;
        guard->since_us = since_us;
    } /* else another thread has stored a later look already */
    (void)pthread_mutex_unlock(&guard->mutex);
    return NULL;
}

static enum dlock_status view_ask(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                  bool body, int64_t deadline_ns, redisReply **reply,
                                  struct dlock_error *err)
{
    struct resp_command command;
    struct view_words words;

    view_command(&command, &words, pipeline, body);
    return ask(pool, pipeline, &command, deadline_ns, reply, err);
}

/* *looked: there is a new look. */
static enum dlock_status view_once(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                   int64_t deadline_ns, bool *looked, struct dlock_error *err)
{
    int64_t seen_ns = now(pool);
    redisReply *reply = NULL;
    const char *over = NULL;
    enum dlock_status status = view_ask(pool, pipeline, false, deadline_ns, &reply, err);

    *looked = false;
    if (status == DLOCK_OK && resp_error_is(reply, "NOSCRIPT")) {
        freeReplyObject(reply);
        status = view_ask(pool, pipeline, true, deadline_ns, &reply, err);
    }
    if (status != DLOCK_OK)
        return status;
    if (reply->type != REDIS_REPLY_ERROR) {
        over = view_keep(&pipeline->guard, reply, seen_ns);
        *looked = over == NULL;
        if (over != NULL)
            status = resp_error_fail(pool->config, err, DLOCK_UNAVAILABLE, "%s", over);
    } else if (!resp_error_is(reply, "NOREPLICAS") && !resp_error_is(reply, "OOM")) {
        status = resp_error_take(pool->config, reply, err); /* else what follows is refused, too */
    }
    freeReplyObject(reply);
    return status;
}

static enum dlock_status settle_wait(const struct redis_pool *pool, struct redis_pipeline *pipeline,
                                     int64_t deadline_ns, struct dlock_error *err)
{
    struct resp_command command;
    char needed[RESP_DIGITS], most[RESP_DIGITS];
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_OK;

    resp_command_begin(&command);
    resp_command_text(&command, "WAIT");
    resp_command_text(&command, resp_command_number(needed, pipeline->guard.needed));
    resp_command_text(&command, resp_command_number(most, SETTLE_MS));
    status = ask(pool, pipeline, &command, deadline_ns, &reply, err);
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

enum dlock_status redis_guard_view(struct redis_pool *pool, struct redis_pipeline *pipeline,
                                   bool settle, int64_t deadline_ns, struct dlock_error *err)
{
    bool looked = false;
    enum dlock_status status = view_once(pool, pipeline, deadline_ns, &looked, err);

    if (status == DLOCK_OK && looked && settle) {
        status = settle_wait(pool, pipeline, deadline_ns, err);
        if (status == DLOCK_OK && !has_begun(&pipeline->guard))
            status = view_once(pool, pipeline, deadline_ns, &looked, err);
    }
    if (status != DLOCK_OK) {
        atomic_store(&pipeline->dead, true);
        err->status = status = status == DLOCK_AUTH ? status : DLOCK_UNAVAILABLE;
    }
    return status;
}

/* ---- what was seen ---- */

static bool counts(const struct redis_guard *guard, const struct redis_view *view, int64_t now_ns)
{
    return view->server_us != 0 && now_ns - view->seen_ns <= guard->lasts_ms * DL_NS_PER_MS;
}

bool redis_guard_unsettled(struct redis_guard *guard, int64_t now_ns)
{
    int64_t most_ms = guard->lasts_ms - VIEWS_EVERY_MS / 2;
    bool unsettled = false;

    (void)pthread_mutex_lock(&guard->mutex);
    unsettled =
        guard->views[1].server_us == 0 || now_ns - guard->views[1].seen_ns > most_ms * DL_NS_PER_MS;
    (void)pthread_mutex_unlock(&guard->mutex);
    return unsettled;
}

void redis_guard_word(struct redis_guard *guard, int64_t now_ns, char out[REDIS_GUARD_WORD_SIZE])
{
    struct redis_view views[2];
    int64_t since_us = 0;

    (void)pthread_mutex_lock(&guard->mutex);
    memcpy(views, guard->views, sizeof views);
    since_us = guard->since_us;
    (void)pthread_mutex_unlock(&guard->mutex);
    for (size_t i = 0; i < 2; i++)
        if (!counts(guard, &views[i], now_ns))
            views[i] = (struct redis_view){.offset = -1};
    (void)snprintf(
        out, REDIS_GUARD_WORD_SIZE, "%s %lld %lld %lld %lld %lld %lld %lld %lld %lld", guard->id,
        (long long)since_us, (long long)views[0].server_us, (long long)views[0].offset,
        (long long)views[1].server_us, (long long)views[1].offset, (long long)guard->needed,
        (long long)(guard->lasts_ms * US_PER_MS), (long long)(guard->yours_ms * US_PER_MS),
        (long long)(guard->grants_ms * US_PER_MS));
}

int64_t redis_guard_left_ms(struct redis_guard *guard, int64_t now_ns, int64_t *age_ms)
{
    int64_t age_us = guard->grants_ms * US_PER_MS; /* not known yet: the script refuses */

    (void)pthread_mutex_lock(&guard->mutex);
    if (guard->since_us != 0)
        age_us = guard->views[0].server_us - guard->since_us +
                 (now_ns - guard->views[0].seen_ns) / (DL_NS_PER_MS / US_PER_MS);
    (void)pthread_mutex_unlock(&guard->mutex);
    *age_ms = age_us / US_PER_MS;
    return *age_ms < guard->grants_ms ? guard->grants_ms - *age_ms : 0;
}
