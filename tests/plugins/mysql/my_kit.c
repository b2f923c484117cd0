/* SPDX-License-Identifier: MIT */
#include "my_kit.h"

void dlt_session_init(struct dlt_session *session, const struct dlt_maria *server)
{
    dlt_session_sql(session, dlock_plugin_mysql(), "mysql", server->address);
    if (server->borrowed)
        session->target.path = dlt_path();
}
