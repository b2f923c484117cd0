/* SPDX-License-Identifier: MIT */
#include "redis_kit.h"

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

void dlt_session_init(struct dlt_session *session, const char *scheme, const char *where)
{
    bool local = strchr(scheme, '+') != NULL;

    memset(session, 0, sizeof *session);
    session->ops = dlock_plugin_redis()->ops;
    dlt_host_init_running(&session->host);
    session->shared = &session->host;
    session->call_ms = CALL_MS;
    (void)snprintf(session->address, sizeof session->address, "%s", where);
    session->hosts[0] = local ? NULL : session->address;
    dlt_session_option(session, "waiter_lease", "3000");
    dlt_session_option(session, "sockets", "4");
    session->target = (struct dlock_target){
        .scheme = scheme,
        .path = local ? session->address : "",
        .directory = "/",
        .hosts = session->hosts,
        .option = option_find,
        .number = number_find,
    };
}

void dlt_session_option(struct dlt_session *session, const char *name, const char *value)
{
    for (size_t i = 0; i < DLT_OPTIONS_MAX; i++) {
        if (session->options[i][0][0] == '\0' || strcmp(session->options[i][0], name) == 0) {
            (void)snprintf(session->options[i][0], 128, "%s", name);
            (void)snprintf(session->options[i][1], 128, "%s", value);
            return;
        }
    }
    abort();
}

static void calls_begin(struct dlt_session *session)
{
    session->err = (struct dlock_error)DLOCK_ERROR_INIT;
    session->grant = (struct dlock_grant){.waiters = UINT32_MAX, .holder_ms = -1};
}

enum dlock_status dlt_session_open(struct dlt_session *session)
{
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(session);
    session->self = calloc(1, session->ops->session_size);
    if (session->self == NULL)
        abort();
    status = session->ops->open(session->self, &session->shared->table, &session->target,
                                dlt_host_in(session->shared, session->call_ms), &session->info,
                                &session->err);
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

enum dlock_status dlt_session_start(struct dlt_session *session, const struct dlt_redis *server)
{
    enum dlock_status status = DLOCK_INTERNAL;

    dlt_session_init(session, "redis", server->address);
    status = dlt_session_open(session);
    if (status != DLOCK_OK)
        printf("# %s: %s\n", server->address, session->err.message);
    return status;
}

void dlt_session_join(struct dlt_session *session, struct dlt_session *first)
{
    dlt_session_init(session, first->target.scheme, first->address);
    session->shared = first->shared;
    session->subscribed = first->subscribed;
    session->self = first->self;
    session->joined = true;
}

enum dlock_status dlt_try(struct dlt_session *session, struct dlt_request *request)
{
    calls_begin(session);
    request->req.deadline_ns = dlt_host_in(session->shared, session->call_ms);
    return session->ops->trylock(session->self, &request->req, &session->grant, &session->err);
}

static enum dlock_status try_flagged(struct dlt_session *session, struct dlt_request *request,
                                     uint32_t flags)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.flags = flags;
    status = dlt_try(session, request);
    request->req.flags = 0;
    return status;
}

enum dlock_status dlt_enqueue(struct dlt_session *session, struct dlt_request *request)
{
    return try_flagged(session, request, DLOCK_REQ_ENQUEUE);
}

enum dlock_status dlt_refresh(struct dlt_session *session, struct dlt_request *request)
{
    return try_flagged(session, request, DLOCK_REQ_REFRESH);
}

enum dlock_status dlt_watch(struct dlt_session *session, struct dlt_request *request,
                            int64_t timeout_ms)
{
    calls_begin(session);
    request->req.deadline_ns = dlt_host_in(session->shared, timeout_ms);
    return session->ops->watch(session->self, &request->req, &session->grant, &session->err);
}

enum dlock_status dlt_leave(struct dlt_session *session, struct dlt_request *request)
{
    calls_begin(session);
    request->req.deadline_ns = dlt_host_in(session->shared, session->call_ms);
    return session->ops->leave(session->self, &request->req, &session->err);
}

enum dlock_status dlt_queue_up(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = dlt_enqueue(session, request);

    if (status != DLOCK_BUSY || session->subscribed)
        return status;
    session->subscribed = true;
    return dlt_watch(session, request, CALL_MS) == DLOCK_BUSY ? dlt_refresh(session, request)
                                                              : DLOCK_INTERNAL;
}

enum dlock_status dlt_renew(struct dlt_session *session, struct dlt_request *request)
{
    struct dlock_lease_op op = {.req = &request->req, .status = DLOCK_INTERNAL};
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(session);
    request->req.deadline_ns = dlt_host_in(session->shared, session->call_ms);
    status = session->ops->renew(session->self, &op, 1, request->req.deadline_ns, &session->err);
    session->grant = op.grant;
    return status == DLOCK_OK ? op.status : status;
}

enum dlock_status dlt_unlock(struct dlt_session *session, struct dlt_request *request)
{
    calls_begin(session);
    request->req.deadline_ns = dlt_host_in(session->shared, session->call_ms);
    return session->ops->unlock(session->self, &request->req, &session->err);
}

enum dlock_status dlt_break(struct dlt_session *session, const char *name, const char *owner)
{
    calls_begin(session);
    return session->ops->break_lock(session->self, (const unsigned char *)name,
                                    (uint32_t)strlen(name), owner,
                                    dlt_host_in(session->shared, session->call_ms), &session->err);
}

struct holders {
    struct dlt_holder *out;
    size_t count, room;
};

static int holder_take(void *arg, const struct dlock_lease_info *lease)
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
    };
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)lease->name_len,
                   (const char *)lease->name);
    (void)snprintf(out->owner, sizeof out->owner, "%s", lease->owner);
    (void)snprintf(out->label, sizeof out->label, "%s", lease->label);
    return 0;
}

enum dlock_status dlt_inspect(struct dlt_session *session, const char *name,
                              struct dlt_holder *holders, size_t *count)
{
    struct holders taken = {holders, 0, *count};
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(session);
    status = session->ops->inspect(
        session->self, (const unsigned char *)name, (uint32_t)strlen(name),
        dlt_host_in(session->shared, session->call_ms), holder_take, &taken, &session->err);
    *count = taken.count;
    return status;
}

enum dlock_status dlt_list(struct dlt_session *session, const char *prefix,
                           struct dlt_holder *holders, size_t *count)
{
    struct holders taken = {holders, 0, *count};
    enum dlock_status status = DLOCK_INTERNAL;

    calls_begin(session);
    status = session->ops->list(
        session->self, (const unsigned char *)prefix, (uint32_t)strlen(prefix),
        dlt_host_in(session->shared, session->call_ms), holder_take, &taken, &session->err);
    *count = taken.count;
    return status;
}

void dlt_request(struct dlt_session *session, struct dlt_request *request, const char *name,
                 unsigned char owner, int64_t ttl_ms)
{
    dlt_request_init(request, session->shared, name, owner, ttl_ms);
    request->req.deadline_ns = dlt_host_in(session->shared, session->call_ms);
    request->req.op_timeout_ms = CALL_MS;
}

void dlt_sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
        ;
}
