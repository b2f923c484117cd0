/* SPDX-License-Identifier: MIT */
#include "pg_kit.h"

void dlt_session_init(struct dlt_session *session, const struct dlt_postgres *server)
{
    dlt_session_sql(session, dlock_plugin_postgresql(), "postgresql", server->address);
    if (server->borrowed)
        session->target.path = dlt_path();
    dlt_session_option(session, "waiter_lease", "3000");
}
