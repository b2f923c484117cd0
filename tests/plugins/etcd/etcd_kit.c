/* SPDX-License-Identifier: MIT */
#include "etcd_kit.h"

#include <stdlib.h>

void dlt_session_init(struct dlt_session *session, const struct dlt_etcd *server)
{
    static bool begun;

    dlt_session_target(session, dlock_plugin_etcd(), "etcd", server->members[0].address);
    session->call_ms = 5000;
    dlt_session_option(session, "key", "name");
    dlt_session_option(session, "waiter_lease", "3000");
    dlt_session_option(session, "fence_scale", "32");
    if (!begun && dlock_plugin_etcd()->init != NULL &&
        dlock_plugin_etcd()->init(&session->host.table, &session->err) != DLOCK_OK)
        abort();
    begun = true;
}

void dlt_session_prefix(struct dlt_session *session, const char *path)
{
    session->target.path = path;
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
