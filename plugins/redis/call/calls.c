/* SPDX-License-Identifier: MIT */
#include "redis/call/calls.h"
#include "redis/call/check.h"
#include "redis/call/send.h"
#include "resp/error.h"

#include <stdlib.h>

static int64_t now(const struct redis_pool *pool)
{
    return pool->host->now_ns(pool->host->ctx);
}

static bool are_pending(const struct redis_call_end *ends, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ends[i].pending)
            return true;
    return false;
}

static void end(struct redis_call_end *end, enum dlock_status status, const struct dlock_error *err)
{
    end->status = status;
    end->pending = false;
    if (err != NULL) {
        (void)snprintf(end->err->origin, sizeof end->err->origin, "%s", err->origin);
        (void)snprintf(end->err->message, sizeof end->err->message, "%s", err->message);
        end->err->status = status;
        end->err->code = err->code;
    }
}

/* Ends the calls that check the server, if it fails the check. */
static void server_check_all(struct redis_pool *pool, struct redis_pipeline *pipeline,
                             struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                             int64_t deadline_ns)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;
    bool checked = false;

    for (size_t i = 0; i < n; i++) {
        if (!ends[i].pending || !(calls[i]->grants || calls[i]->keeps))
            continue;
        if (!checked)
            status = redis_check_server(pool, pipeline, deadline_ns, &err);
        checked = true;
        if (status != DLOCK_OK)
            end(&ends[i], status, &err);
    }
}

/* Ends the calls that this connection may not send. As ask_on does for one. */
static void check_all(struct redis_pool *pool, struct redis_pipeline *pipeline,
                      struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                      int64_t deadline_ns)
{
    bool releases = false;

    for (size_t i = 0; i < n; i++)
        releases = releases || (ends[i].pending && calls[i]->releases);
    if (releases && pipeline->guard->on)
        redis_send_release_prepare(pool, pipeline, deadline_ns);
    server_check_all(pool, pipeline, calls, ends, n, deadline_ns);
    for (size_t i = 0; i < n; i++) {
        enum dlock_status status =
            ends[i].pending ? redis_check_guard(pool, pipeline, calls[i], ends[i].err) : DLOCK_OK;

        if (status != DLOCK_OK)
            end(&ends[i], status, NULL);
    }
}

/* The exchanges of the calls that are pending still; *which: the call of each. */
static size_t exchanges_make(struct redis_pool *pool, struct redis_pipeline *pipeline,
                             struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                             int64_t deadline_ns, struct redis_exchange *exchanges, size_t *which)
{
    bool is_over_time = now(pool) >= deadline_ns;
    size_t made = 0;

    for (size_t i = 0; i < n; i++) {
        struct redis_exchange *exchange = &exchanges[made];
        enum dlock_status status = DLOCK_OK;

        if (!ends[i].pending)
            continue;
        *exchange = (struct redis_exchange){.reply_max = calls[i]->reply_max,
                                            .deadline_ns = deadline_ns,
                                            .validate = redis_send_validate,
                                            .asked = calls[i]};
        status = is_over_time ? resp_error_fail(pool->config, ends[i].err, DLOCK_UNAVAILABLE,
                                                "not sent: no time is left")
                              : redis_send_make(pool, pipeline, calls[i], exchange, ends[i].err);
        if (status != DLOCK_OK)
            end(&ends[i], status, NULL);
        else
            which[made++] = i;
    }
    return made;
}

static bool is_unknown_script(const struct redis_exchange *exchange)
{
    return exchange->status == DLOCK_OK && resp_error_is(exchange->reply, "NOSCRIPT");
}

static void exchange_take(struct redis_pool *pool, struct redis_pipeline *pipeline,
                          struct redis_call *call, struct redis_exchange *exchange,
                          struct redis_call_end *to)
{
    bool again = is_unknown_script(exchange);

    redis_send_end(pool, pipeline, exchange);
    to->alone = (again && to->unknown) || redis_send_is_unconfirmed(exchange) ||
                redis_send_is_other(exchange);
    to->unknown = again;
    if (again || to->alone) { /* the server has done nothing */
        freeReplyObject(exchange->reply);
        to->pending = false;
        return;
    }
    to->reply = exchange->reply;
    end(to,
        redis_call_error_take(pool, call, redis_send_status(pool, exchange, to->err), &to->reply,
                              to->err),
        NULL);
}

/* Sends what this connection may send. False: it is dead, and nothing was sent. */
static bool ask_all_on(struct redis_pool *pool, struct redis_pipeline *pipeline,
                       struct redis_call *const *calls, struct redis_call_end *ends, size_t n,
                       int64_t deadline_ns)
{
    struct redis_exchange exchanges[REDIS_CALLS_MOST];
    size_t which[REDIS_CALLS_MOST], made = 0;
    bool asked = true;

    check_all(pool, pipeline, calls, ends, n, deadline_ns);
    made = exchanges_make(pool, pipeline, calls, ends, n, deadline_ns, exchanges, which);
    if (made > 0)
        asked = redis_pipeline_exchange_all(pipeline, exchanges, made);
    for (size_t i = 0; i < made; i++) {
        if (asked)
            exchange_take(pool, pipeline, calls[which[i]], &exchanges[i], &ends[which[i]]);
        free((char *)exchanges[i].bytes);
    }
    return asked;
}

static void ask_all(struct redis_pool *pool, struct redis_call *const *calls,
                    struct redis_call_end *ends, size_t n, int64_t deadline_ns)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;
    bool fresh = false;

    while (are_pending(ends, n) && !fresh) {
        struct redis_pipeline *pipeline = NULL;

        status = redis_pool_take(pool, deadline_ns, &pipeline, &fresh, &err);
        if (status != DLOCK_OK)
            break;
        (void)ask_all_on(pool, pipeline, calls, ends, n, deadline_ns);
        redis_pool_put(pool, pipeline);
    }
    if (status == DLOCK_OK)
        status = resp_error_fail(pool->config, &err, DLOCK_UNAVAILABLE,
                                 "not sent: the server closed the connection");
    for (size_t i = 0; i < n; i++)
        if (ends[i].pending)
            end(&ends[i], status, &err);
}

/* false: the server knew all scripts. */
static bool bodies_set(struct redis_call *const *calls, struct redis_call_end *ends, size_t n)
{
    const struct resp_script *known[REDIS_SCRIPT_COUNT];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        size_t at = 0;

        ends[i].pending = ends[i].unknown;
        while (at < count && known[at] != calls[i]->script)
            at++;
        if (ends[i].unknown && at == count) {
            known[count++] = calls[i]->script;
            redis_call_body_set(calls[i]);
        }
    }
    return count > 0;
}

void redis_calls_run(struct redis_pool *pool, struct redis_call *const *calls,
                     struct redis_call_end *ends, size_t n, int64_t deadline_ns)
{
    for (size_t i = 0; i < n; i++) {
        calls[i]->redirect.kind = REDIS_REDIRECT_NONE;
        calls[i]->of_name = calls[i]->refused = calls[i]->lasting = false;
        redis_call_number(pool, calls[i]);
        ends[i].reply = NULL;
        ends[i].pending = true;
        ends[i].unknown = ends[i].alone = false;
    }
    ask_all(pool, calls, ends, n, deadline_ns);
    if (bodies_set(calls, ends, n))
        ask_all(pool, calls, ends, n, deadline_ns);
    for (size_t i = 0; i < n; i++)
        if (ends[i].alone)
            ends[i].status =
                redis_call_run(pool, calls[i], deadline_ns, &ends[i].reply, ends[i].err);
}
