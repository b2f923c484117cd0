/* SPDX-License-Identifier: MIT */
#include "zk_kit.h"

#include <stdlib.h>

/* The library loses an empty buffer now and then when a server ends a session under it. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:zookeeper_process\n";
}

void dlt_session_init_at(struct dlt_session *session, const char *address)
{
    static bool begun;
    char ttl[16];

    dlt_session_target(session, dlock_plugin_zookeeper(), "zk", address);
    session->call_ms = 5000;
    (void)snprintf(ttl, sizeof ttl, "%d", DLT_ZK_TTL_MS);
    dlt_session_option(session, "ttl", ttl);
    if (!begun && dlock_plugin_zookeeper()->init != NULL &&
        dlock_plugin_zookeeper()->init(&session->host.table, &session->err) != DLOCK_OK)
        abort();
    begun = true;
}

void dlt_session_init(struct dlt_session *session, const struct dlt_zk *server)
{
    dlt_session_init_at(session, server->members[0].address);
    for (unsigned i = 1;
         i < server->count && i < sizeof session->hosts / sizeof *session->hosts - 1; i++)
        session->hosts[i] = server->members[i].address;
}

void dlt_session_base(struct dlt_session *session, const char *path)
{
    session->target.path = path;
}
