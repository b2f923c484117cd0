/* SPDX-License-Identifier: MIT */
#include "my_kit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct dlt_session *session_of(const struct dlock_target *target)
{
    return (const struct dlt_session *)(const void *)target;
}

static const char *target_option(const struct dlock_target *target, const char *name)
{
    const struct dlt_session *session = session_of(target);

    for (size_t i = 0; i < DLT_OPTIONS_MAX; i++) {
        if (strcmp(session->options[i][0], name) == 0)
            return session->options[i][1];
    }
    return NULL;
}

static int64_t target_number(const struct dlock_target *target, const char *name)
{
    const char *text = target_option(target, name);

    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

void dlt_session_option(struct dlt_session *session, const char *name, const char *value)
{
    size_t i = 0;

    while (i + 1 < DLT_OPTIONS_MAX && session->options[i][0][0] != '\0' &&
           strcmp(session->options[i][0], name) != 0)
        i++;
    (void)snprintf(session->options[i][0], sizeof session->options[i][0], "%s", name);
    (void)snprintf(session->options[i][1], sizeof session->options[i][1], "%s", value);
}

void dlt_session_strategy(struct dlt_session *session, const char *strategy, const char *test)
{
    char prefix[64];

    (void)snprintf(prefix, sizeof prefix, "%s_%s_", strategy, test);
    dlt_session_option(session, "strategy", strategy);
    dlt_session_option(session, "table_prefix", prefix);
}

void dlt_session_init(struct dlt_session *session, const struct dlt_maria *server)
{
    static bool begun;

    memset(session, 0, sizeof *session);
    session->ops = dlock_plugin_mysql()->ops;
    session->call_ms = 5000;
    dlt_host_init_running(&session->host);
    session->shared = &session->host;
    (void)snprintf(session->address, sizeof session->address, "%s", server->address);
    session->hosts[0] = session->address;
    session->target = (struct dlock_target){
        .scheme = "mysql",
        .user = "u",
        .password = "secret",
        .path = "/locks",
        .directory = "/",
        .hosts = session->hosts,
        .option = target_option,
        .number = target_number,
    };
    dlt_session_option(session, "session_grace", "5000");
    if (!begun && dlock_plugin_mysql()->init(&session->host.table, &session->err) != DLOCK_OK)
        abort();
    begun = true;
}

static void begin(struct dlt_session *session)
{
    session->err = (struct dlock_error)DLOCK_ERROR_INIT;
    session->grant = (struct dlock_grant){.waiters = UINT32_MAX, .holder_ms = -1};
}

static int64_t due(struct dlt_session *session, int64_t ms)
{
    return dlt_host_in(session->shared, ms);
}

static struct dlock_request *prepared(struct dlt_session *session, struct dlt_request *request,
                                      int64_t timeout_ms)
{
    begin(session);
    request->req.deadline_ns = due(session, timeout_ms);
    request->req.op_timeout_ms = session->call_ms;
    return &request->req;
}

enum dlock_status dlt_session_open(struct dlt_session *session)
{
    enum dlock_status status = DLOCK_INTERNAL;

    begin(session);
    session->self = calloc(1, session->ops->session_size);
    if (session->self == NULL)
        abort();
    status = session->ops->open(session->self, &session->shared->table, &session->target,
                                due(session, session->call_ms), &session->info, &session->err);
    if (status != DLOCK_OK)
        dlt_session_close(session);
    return status;
}

enum dlock_status dlt_session_join(struct dlt_session *session, struct dlt_session *first)
{
    *session = *first;
    session->self = NULL;
    session->shared = first->shared;
    session->hosts[0] = session->address;
    session->target.hosts = session->hosts;
    return dlt_session_open(session);
}

void dlt_session_close(struct dlt_session *session)
{
    if (session->self != NULL)
        session->ops->close(session->self, 0);
    free(session->self);
    session->self = NULL;
}

enum dlock_status dlt_try(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->trylock(session->self, prepared(session, request, session->call_ms),
                                 &session->grant, &session->err);
}

enum dlock_status dlt_lock(struct dlt_session *session, struct dlt_request *request,
                           int64_t timeout_ms)
{
    return session->ops->lock(session->self, prepared(session, request, timeout_ms),
                              &session->grant, &session->err);
}

void dlt_interrupt(struct dlt_session *session, struct dlt_request *request)
{
    session->ops->interrupt(session->self, &request->req);
}

enum dlock_status dlt_renew(struct dlt_session *session, struct dlt_request *request)
{
    struct dlock_lease_op op = {.req = prepared(session, request, session->call_ms),
                                .status = DLOCK_INTERNAL};
    enum dlock_status status =
        session->ops->renew(session->self, &op, 1, due(session, session->call_ms), &session->err);

    session->grant = op.grant;
    return status == DLOCK_OK ? op.status : status;
}

enum dlock_status dlt_unlock(struct dlt_session *session, struct dlt_request *request)
{
    return session->ops->unlock(session->self, prepared(session, request, session->call_ms),
                                &session->err);
}

enum dlock_status dlt_break(struct dlt_session *session, const char *name, const char *owner)
{
    begin(session);
    return session->ops->break_lock(session->self, (const unsigned char *)name,
                                    (uint32_t)strlen(name), owner, due(session, session->call_ms),
                                    &session->err);
}

struct collect {
    struct dlt_holder *holders;
    size_t room, count;
};

static int collect_one(void *arg, const struct dlock_lease_info *lease)
{
    struct collect *collect = arg;
    struct dlt_holder *holder = &collect->holders[collect->count];

    if (collect->count == collect->room)
        return 1;
    *holder = (struct dlt_holder){
        .mode = lease->mode,
        .fence = lease->fence,
        .remaining_ms = lease->remaining_ms,
        .held_ms = lease->held_ms,
    };
    memcpy(holder->name, lease->name, lease->name_len);
    (void)snprintf(holder->owner, sizeof holder->owner, "%s", lease->owner);
    (void)snprintf(holder->label, sizeof holder->label, "%s", lease->label);
    collect->count++;
    return 0;
}

typedef enum dlock_status look_fn(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_lease_fn *fn, void *arg,
                                  struct dlock_error *err);

static enum dlock_status look(struct dlt_session *session, look_fn *slot, const char *name,
                              struct dlt_holder *holders, size_t *count)
{
    struct collect collect = {.holders = holders, .room = *count};
    enum dlock_status status = DLOCK_INTERNAL;

    begin(session);
    status = slot(session->self, (const unsigned char *)name, (uint32_t)strlen(name),
                  due(session, session->call_ms), collect_one, &collect, &session->err);
    *count = collect.count;
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

void dlt_request(struct dlt_session *session, struct dlt_request *request, const char *name,
                 unsigned char owner, int64_t ttl_ms)
{
    dlt_request_init(request, session->shared, name, owner, ttl_ms);
}

void dlt_request_shared(struct dlt_session *session, struct dlt_request *request, const char *name,
                        unsigned char owner, int64_t ttl_ms)
{
    dlt_request_init(request, session->shared, name, owner, ttl_ms);
    request->req.mode = DLOCK_SHARED;
}

void dlt_sleep_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}
