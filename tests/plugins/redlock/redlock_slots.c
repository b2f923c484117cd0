/* SPDX-License-Identifier: MIT */
#include "redlock_slots.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define NODES_MOST 9

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

void dlt_redlock_start(struct dlt_session *session, struct dlt_redis *servers, unsigned count)
{
    const char *addresses[NODES_MOST];

    cr_assert_leq(count, NODES_MOST);
    for (unsigned i = 0; i < count; i++) {
        cr_assert(dlt_redis_start(&servers[i], NULL), "%s", servers[i].why);
        addresses[i] = servers[i].address;
    }
    dlt_redlock_target(session, addresses, count);
}

void dlt_redlock_stop(struct dlt_session *session, struct dlt_redis *servers, unsigned count)
{
    dlt_session_close(session);
    for (unsigned i = 0; i < count; i++)
        dlt_redis_stop(&servers[i]);
}
