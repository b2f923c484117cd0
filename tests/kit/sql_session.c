/* SPDX-License-Identifier: MIT */
#include "sql_session.h"

#include <stdlib.h>

void dlt_session_sql(struct dlt_session *session, const struct dlock_plugin *plugin,
                     const char *scheme, const char *address)
{
    static const struct dlock_plugin *begun;

    dlt_session_target(session, plugin, scheme, address);
    session->call_ms = 5000;
    session->target.user = "u";
    session->target.password = "secret";
    session->target.path = "/locks";
    dlt_session_option(session, "session_grace", "5000");
    if (begun != plugin && plugin->init(&session->host.table, &session->err) != DLOCK_OK)
        abort();
    begun = plugin;
}

void dlt_session_strategy(struct dlt_session *session, const char *strategy, const char *test)
{
    char prefix[64];

    (void)snprintf(prefix, sizeof prefix, "%s_%s_", strategy, test);
    dlt_session_option(session, "strategy", strategy);
    dlt_session_option(session, "table_prefix", prefix);
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

enum dlock_status dlt_lock(struct dlt_session *session, struct dlt_request *request,
                           int64_t timeout_ms)
{
    return session->ops->lock(session->self, dlt_due(session, request, timeout_ms), &session->grant,
                              &session->err);
}

void dlt_request_shared(struct dlt_session *session, struct dlt_request *request, const char *name,
                        unsigned char owner, int64_t ttl_ms)
{
    dlt_request(session, request, name, owner, ttl_ms);
    request->req.mode = DLOCK_SHARED;
}
