/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/connection.c plugins/mysql/connect.c */
/* network_tests.c, on MariaDB. */
#include "my_kit.h"
#include "network_tests.h"

static struct dlt_maria server;

const struct dlt_network dlt_network = {.framing = "mysql", .frames = 24};

struct dlt_store_server dlt_network_server(void)
{
    return dlt_store_maria(&server);
}

void dlt_network_session(struct dlt_session *session, const char *strategy)
{
    dlt_session_init(session, &server);
    dlt_session_strategy(session, strategy, "net");
    dlt_session_option(session, "session_grace", "2000");
}
