/* SPDX-License-Identifier: MIT */
#include "redlock_slots.h"

#include <stdio.h>

const struct dlock_plugin *dlock_plugin_redlock(void);

void dlt_redlock_target(struct dlt_session *session, const char *const *addresses, unsigned count)
{
    char nodes[128];
    size_t used = 0;

    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(nodes + used, sizeof nodes - used, "%sredis://%s",
                                 i > 0 ? "\n" : "", addresses[i]);
    dlt_session_target(session, dlock_plugin_redlock(), "redlock", "");
    session->hosts[0] = NULL;
    session->call_ms = 10000;
    dlt_session_option(session, "node", nodes);
    dlt_session_option(session, "prefix", "rl:");
    dlt_session_option(session, "node_timeout", "1000");
}
