/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/wait.c core/async/driver.c */
/*
 * Operations of dlock_op_start wait in the queues of the nodes, and do not poll (C13, C19). Runs
 * under ThreadSanitizer, too.
 */
#include "redis_server.h"
#include "tap.h"
#include "told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 3

/* Scripts that the first node has run: each attempt asks all nodes. */
static unsigned long scripts_run(void *arg)
{
    const char *stats = dlt_redis_ask(arg, "INFO commandstats");
    const char *at = strstr(stats, "cmdstat_evalsha:calls=");

    return at == NULL ? 0 : strtoul(at + strlen("cmdstat_evalsha:calls="), NULL, 10);
}

int main(void)
{
    struct dlt_redis nodes[NODES];
    char uri[512];

    for (int i = 0; i < NODES; i++)
        if (!dlt_redis_start(&nodes[i], NULL))
            abort();
    (void)snprintf(uri, sizeof uri, "redlock://%s,%s,%s?restart_guard=0&poll_max=60s",
                   nodes[0].address, nodes[1].address, nodes[2].address);
    dlt_told_check(uri, scripts_run, &nodes[0]);
    dlt_told_try_check(uri, scripts_run, &nodes[0]);
    for (int i = 0; i < NODES; i++)
        dlt_redis_stop(&nodes[i]);
    return dlt_done();
}
