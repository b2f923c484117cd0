/* SPDX-License-Identifier: MIT */
#include "api/query.h"
#include "session/dispatch.h"

enum query_kind { QUERY_INSPECT, QUERY_LIST, QUERY_BREAK, QUERY_PROBE };

struct query {
    enum query_kind kind;
    const unsigned char *name;
    uint32_t name_len;
    const char *owner;
    dlock_info_fn *fn;
    dlock_finding_fn *finding_fn; /* QUERY_PROBE */
    void *arg;
    struct dlock_session_info found; /* QUERY_PROBE */
    bool reported;                   /* fn was called: the query must not begin again */
};

static int report(void *arg, const struct dlock_lease_info *lease)
{
    struct query *query = arg;
    struct dlock_info info = {
        .struct_size = sizeof info,
        .name = lease->name,
        .name_len = lease->name_len,
        .mode = (enum dlock_mode)lease->mode,
        .waiters = lease->waiters,
        .fence = lease->fence,
        .fence_room = lease->fence == 0 ? 0 : lease->fence_room,
        .remaining_ms = lease->remaining_ms,
        .held_ms = lease->held_ms,
        .owner = lease->owner,
        .label = lease->label,
    };

    query->reported = true;
    return query->fn(query->arg, &info);
}

static void finding_report(void *arg, const struct dlock_check *check)
{
    struct query *query = arg;
    struct dlock_finding finding = {
        .struct_size = sizeof finding,
        .name = check->name,
        .found = check->found,
        .advice = check->advice,
        .clears = check->clears,
    };

    query->reported = true;
    if (query->finding_fn != NULL)
        query->finding_fn(query->arg, &finding);
}

static enum dlock_status query_slot(const struct dl_plugin *plugin, struct query *query, void *self,
                                    int64_t deadline_ns, struct dlock_error *err)
{
    switch (query->kind) {
    case QUERY_INSPECT:
        return dl_dispatch_inspect(plugin, self, query->name, query->name_len, deadline_ns, report,
                                   query, err);
    case QUERY_LIST:
        return dl_dispatch_list(plugin, self, query->name, query->name_len, deadline_ns, report,
                                query, err);
    case QUERY_BREAK:
        return dl_dispatch_break(plugin, self, query->name, query->name_len, query->owner,
                                 deadline_ns, err);
    case QUERY_PROBE:
        return dl_dispatch_probe(plugin, self, deadline_ns, &query->found, finding_report, query,
                                 err);
    }
    return DLOCK_INTERNAL;
}

/* A probe may connect. */
static int64_t query_timeout_ms(const struct dl_settings *settings, enum query_kind kind)
{
    int64_t timeout_ms = dl_settings_op_timeout_ms(settings);

    if (kind == QUERY_PROBE && timeout_ms < settings->connect_timeout_ms)
        return settings->connect_timeout_ms;
    return timeout_ms;
}

/* Once more when nothing was executed or reported: an idle connection may have gone stale. */
static enum dlock_status query_run(struct dlock_client *client, struct query *query,
                                   struct dlock_error *err)
{
    int64_t timeout_ms = query_timeout_ms(&client->store->settings, query->kind);
    int64_t deadline_ns = dl_clock_after_ms(dl_client_now(client), timeout_ms);
    enum dlock_status status = dl_client_enter(client, err);

    if (status != DLOCK_OK)
        return status;
    for (int turn = 0; turn < 2; turn++) {
        struct dl_session *session;

        status = dl_session_pool_take(&client->pool, DL_USE_ACQUIRE, deadline_ns, &session, err);
        if (status == DLOCK_BUSY) /* all connections are in use; err says so */
            status = DLOCK_UNAVAILABLE;
        if (status != DLOCK_OK)
            break;
        status = query_slot(client->plugin, query, session->self, deadline_ns, err);
        dl_session_pool_put(&client->pool, DL_USE_ACQUIRE, session, status);
        if (status != DLOCK_UNAVAILABLE || query->reported)
            break;
    }
    dl_client_leave(client);
    return status;
}

enum dlock_status dl_query_inspect(struct dlock_client *client, const void *name, size_t name_len,
                                   dlock_info_fn *fn, void *arg, struct dlock_error *err)
{
    struct query query = {
        .kind = QUERY_INSPECT, .name = name, .name_len = (uint32_t)name_len, .fn = fn, .arg = arg};

    return query_run(client, &query, err);
}

enum dlock_status dl_query_list(struct dlock_client *client, const void *prefix, size_t prefix_len,
                                dlock_info_fn *fn, void *arg, struct dlock_error *err)
{
    struct query query = {
        .kind = QUERY_LIST, .name = prefix, .name_len = (uint32_t)prefix_len, .fn = fn, .arg = arg};

    return query_run(client, &query, err);
}

enum dlock_status dl_query_break(struct dlock_client *client, const void *name, size_t name_len,
                                 const char *owner, struct dlock_error *err)
{
    struct query query = {
        .kind = QUERY_BREAK, .name = name, .name_len = (uint32_t)name_len, .owner = owner};

    return query_run(client, &query, err);
}

enum dlock_status dl_query_probe(struct dlock_client *client, dlock_finding_fn *fn, void *arg,
                                 struct dlock_error *err)
{
    struct query query = {.kind = QUERY_PROBE, .finding_fn = fn, .arg = arg};
    enum dlock_status status = query_run(client, &query, err);

    if (status == DLOCK_OK)
        dl_session_pool_caps_limit(&client->pool, query.found.caps);
    else if (status == DLOCK_CONFIG)
        dl_session_pool_caps_limit(&client->pool, 0);
    if (status == DLOCK_OK || status == DLOCK_CONFIG)
        atomic_store(&client->unfit, status == DLOCK_CONFIG);
    return status;
}
