/* SPDX-License-Identifier: MIT */
#include "pg_kit.h"

#include <stdlib.h>

void dlt_session_strategy(struct dlt_session *session, const char *strategy, const char *test)
{
    char prefix[64];

    (void)snprintf(prefix, sizeof prefix, "%s_%s_", strategy, test);
    dlt_session_option(session, "strategy", strategy);
    dlt_session_option(session, "table_prefix", prefix);
}

void dlt_session_init(struct dlt_session *session, const struct dlt_postgres *server)
{
    static bool begun;

    dlt_session_target(session, dlock_plugin_postgresql(), "postgresql", server->address);
    session->call_ms = 5000;
    session->target.user = "u";
    session->target.password = "secret";
    session->target.path = "/locks";
    dlt_session_option(session, "session_grace", "5000");
    dlt_session_option(session, "waiter_lease", "3000");
    if (!begun && dlock_plugin_postgresql()->init(&session->host.table, &session->err) != DLOCK_OK)
        abort();
    begun = true;
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

void dlt_interrupt(struct dlt_session *session, struct dlt_request *request)
{
    session->ops->interrupt(session->self, &request->req);
}
