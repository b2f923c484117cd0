/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/query.c plugins/postgresql/connection.c plugins/postgresql/connect.c */
/* network_tests.c, on PostgreSQL. */
#include "network_tests.h"
#include "pg_kit.h"

static struct dlt_postgres server;

const struct dlt_network dlt_network = {.framing = "raw", .frames = 3};

struct dlt_store_server dlt_network_server(void)
{
    return dlt_store_postgres(&server);
}

void dlt_network_session(struct dlt_session *session, const char *strategy)
{
    dlt_session_init(session, &server);
    dlt_session_strategy(session, strategy, "net");
    dlt_session_option(session, "session_grace", "2000");
}
