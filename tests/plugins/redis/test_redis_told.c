/* SPDX-License-Identifier: MIT */
/*
 * Operations of dlock_op_start wait in the server, and do not poll (C13, C19). Runs under
 * ThreadSanitizer, too.
 */
#include "redis_server.h"
#include "tap.h"
#include "told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Scripts that the server has run. */
static unsigned long scripts_run(void *arg)
{
    const char *stats = dlt_redis_ask(arg, "INFO commandstats");
    const char *at = strstr(stats, "cmdstat_evalsha:calls=");

    return at == NULL ? 0 : strtoul(at + strlen("cmdstat_evalsha:calls="), NULL, 10);
}

int main(void)
{
    struct dlt_redis server;
    char uri[256];

    if (!dlt_redis_start(&server, NULL))
        abort();
    (void)snprintf(uri, sizeof uri, "redis://%s?restart_guard=0&poll_max=60s&waiter_lease=60s",
                   server.address);
    dlt_told_check(uri, scripts_run, &server);
    dlt_redis_stop(&server);
    return dlt_done();
}
