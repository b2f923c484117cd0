/* SPDX-License-Identifier: MIT */
#include "session_kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALL_MS 2000

static const char *option_find(const struct dlock_target *target, const char *name)
{
    const struct dlt_session *session = (const struct dlt_session *)(const void *)target;

    for (size_t i = 0; i < DLT_OPTIONS_MAX; i++)
        if (strcmp(session->options[i][0], name) == 0)
            return session->options[i][1];
    return NULL;
}

static int64_t number_find(const struct dlock_target *target, const char *name)
{
    const char *value = option_find(target, name);

    return value != NULL ? strtoll(value, NULL, 10) : 0;
}

/* As core does [STG-1]; the default is the first one. */
static void strategy_choose(struct dlt_session *session)
{
    const struct dlock_strategy *strategy = session->plugin->strategies;
    const char *name = session->target.option(&session->target, "strategy");

    session->ops = session->plugin->ops;
    if (strategy == NULL)
        return;
    while (name != NULL && strategy->name != NULL && strcmp(strategy->name, name) != 0)
        strategy++;
    session->ops = strategy->ops;
}

void dlt_session_target(struct dlt_session *session, const struct dlock_plugin *plugin,
                        const char *scheme, const char *where)
{
    bool local = strchr(scheme, '+') != NULL;

    memset(session, 0, sizeof *session);
    session->plugin = plugin;
    dlt_host_init_running(&session->host);
    session->shared = &session->host;
    session->call_ms = CALL_MS;
    (void)snprintf(session->address, sizeof session->address, "%s", where);
    session->hosts[0] = local ? NULL : session->address;
    session->target = (struct dlock_target){
        .struct_size = sizeof session->target,
        .scheme = scheme,
        .path = local ? session->address : "",
        .directory = "/",
        .hosts = session->hosts,
        .option = option_find,
        .number = number_find,
        .read_secret = dlt_read_secret,
    };
    strategy_choose(session);
}

void dlt_session_option(struct dlt_session *session, const char *name, const char *value)
{
    for (size_t i = 0; i < DLT_OPTIONS_MAX; i++) {
        if (session->options[i][0][0] == '\0' || strcmp(session->options[i][0], name) == 0) {
            (void)snprintf(session->options[i][0], 128, "%s", name);
            (void)snprintf(session->options[i][1], 128, "%s", value);
            strategy_choose(session);
            return;
        }
    }
    abort();
}

static void call_begin(struct dlt_session *session)
{
    session->err = (struct dlock_error)DLOCK_ERROR_INIT;
    session->err.nodes = session->nodes;
    session->err.node_room = DLOCK_NODE_ERRORS_MAX;
    session->grant = (struct dlock_grant){
        .struct_size = sizeof session->grant, .waiters = UINT32_MAX, .holder_ms = -1};
}

static int64_t due_ns(struct dlt_session *session)
{
    return dlt_host_in(session->shared, session->call_ms);
}

enum dlock_status dlt_session_open(struct dlt_session *session)
{
    enum dlock_status status = DLOCK_INTERNAL;

    call_begin(session);
    session->info.struct_size = sizeof session->info;
    session->self = calloc(1, session->ops->session_size);
    if (session->self == NULL)
        abort();
    status = session->ops->open(session->self, &session->shared->table, &session->target,
                                due_ns(session), &session->info, &session->err);
    if (status != DLOCK_OK)
        dlt_session_close(session);
    return status;
}

void dlt_session_close(struct dlt_session *session)
{
    if (session->self != NULL && !session->joined) {
        session->ops->close(session->self, 0);
        free(session->self);
    }
    session->self = NULL;
}

struct dlock_request *dlt_due(struct dlt_session *session, struct dlt_request *request,
                              int64_t timeout_ms)
{
    call_begin(session);
    request->req.deadline_ns = dlt_host_in(session->shared, timeout_ms);
    request->req.op_timeout_ms = session->call_ms;
    return &request->req;
}

enum dlock_status dlt_try(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->trylock(session->self, dlt_due(session, request, session->call_ms),
                                 &session->grant, &session->err);
}

enum dlock_status dlt_renew(struct dlt_session *session, struct dlt_request *request)
{
    struct dlock_lease_op op = {.req = dlt_due(session, request, session->call_ms),
                                .status = DLOCK_INTERNAL};
    enum dlock_status status = dlt_renew_many(session->ops, session->self, &op, 1,
                                              request->req.deadline_ns, &session->err);

    session->grant = op.grant;
    return status == DLOCK_OK ? op.status : status;
}

enum dlock_status dlt_unlock(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->unlock(session->self, dlt_due(session, request, session->call_ms),
                                &session->err);
}

enum dlock_status dlt_break(struct dlt_session *session, const char *name, const char *owner)
{
    call_begin(session);
    return session->ops->break_lock(session->self, (const unsigned char *)name,
                                    (uint32_t)strlen(name), owner, due_ns(session), &session->err);
}

enum dlock_status dlt_watch(struct dlt_session *session, struct dlt_request *request,
                            int64_t timeout_ms)
{
    return session->ops->watch(session->self, dlt_due(session, request, timeout_ms),
                               &session->grant, &session->err);
}

enum dlock_status dlt_dequeue(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->dequeue(session->self, dlt_due(session, request, session->call_ms),
                                 &session->err);
}

void dlt_interrupt(struct dlt_session *session, struct dlt_request *request)
{
    session->ops->interrupt(session->self, &request->req);
}

struct holders {
    struct dlt_holder *out;
    size_t count, room;
};

static bool holder_take(void *arg, const struct dlock_holder *lease)
{
    struct holders *holders = arg;
    struct dlt_holder *out = NULL;

    if (holders->count == holders->room)
        return 1;
    out = &holders->out[holders->count++];
    *out = (struct dlt_holder){
        .mode = lease->mode,
        .waiters = lease->waiters,
        .fence = lease->fence,
        .remaining_ms = lease->remaining_ms,
        .held_ms = lease->held_ms,
        .limit = lease->limit,
        .permit = lease->permit,
        .kept = lease->kept,
    };
    memcpy(out->name, lease->name, lease->name_len); /* any byte */
    (void)snprintf(out->owner, sizeof out->owner, "%s", lease->owner);
    (void)snprintf(out->label, sizeof out->label, "%s", lease->label);
    return 0;
}

typedef enum dlock_status look_fn(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);

static enum dlock_status look(struct dlt_session *session, look_fn *slot, const char *name,
                              struct dlt_holder *holders, size_t *count)
{
    struct holders taken = {holders, 0, *count};
    enum dlock_status status = DLOCK_INTERNAL;

    call_begin(session);
    status = slot(session->self, (const unsigned char *)name, (uint32_t)strlen(name),
                  due_ns(session), holder_take, &taken, &session->err);
    *count = taken.count;
    return status;
}

enum dlock_status dlt_inspect(struct dlt_session *session, const char *name,
                              struct dlt_holder *holders, size_t *count)
{
    return look(session, session->ops->inspect, name, holders, count);
}

enum dlock_status dlt_list(struct dlt_session *session, const char *prefix,
                           struct dlt_holder *holders, size_t *count)
{
    return look(session, session->ops->list, prefix, holders, count);
}

struct queued {
    struct dlt_queued *out;
    size_t count, room;
};

static bool queued_take(void *arg, const struct dlock_waiter *waiter)
{
    struct queued *taken = arg;
    struct dlt_queued *out = &taken->out[taken->count];

    if (taken->count == taken->room)
        return true;
    *out = (struct dlt_queued){
        .mode = waiter->mode, .position = waiter->position, .waited_ms = waiter->waited_ms};
    (void)snprintf(out->owner, sizeof out->owner, "%s", waiter->owner);
    (void)snprintf(out->label, sizeof out->label, "%s", waiter->label);
    return ++taken->count == taken->room;
}

enum dlock_status dlt_list_waiters(struct dlt_session *session, const char *name,
                                   struct dlt_queued *waiters, size_t *count)
{
    struct queued taken = {waiters, 0, *count};
    enum dlock_status status = DLOCK_INTERNAL;

    call_begin(session);
    status = session->ops->list_waiters(session->self, (const unsigned char *)name,
                                        (uint32_t)strlen(name), due_ns(session), queued_take,
                                        &taken, &session->err);
    *count = taken.count;
    return status;
}

void dlt_request(struct dlt_session *session, struct dlt_request *request, const char *name,
                 unsigned char owner, int64_t ttl_ms)
{
    dlt_request_init(request, session->shared, name, owner, ttl_ms);
    request->req.deadline_ns = due_ns(session);
    request->req.op_timeout_ms = session->call_ms;
}

void dlt_sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
        ;
}
