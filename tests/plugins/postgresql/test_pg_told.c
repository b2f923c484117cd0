/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_watch.c core/async/driver.c */
/*
 * Operations of dlock_op_start wait in the server, and do not poll (C13, C19). Runs under
 * ThreadSanitizer, too.
 */
#include "postgres_server.h"
#include "tap.h"
#include "told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attempts to take a name that the server has seen: it logs each statement. */
static unsigned long attempts(void *arg)
{
    const struct dlt_postgres *server = arg;
    char path[128], line[4096];
    FILE *file = NULL;
    unsigned long count = 0;

    (void)snprintf(path, sizeof path, "%s/log", server->directory);
    file = fopen(path, "re");
    if (file == NULL)
        abort();
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, "told_take\"(") != NULL;
    (void)fclose(file);
    return count;
}

int main(void)
{
    static const char *const settings[] = {"-c", "log_statement=all", "-c", "fsync=off", NULL};
    struct dlt_postgres server;
    char uri[256];

    if (!dlt_postgres_start(&server, settings))
        abort();
    (void)snprintf(
        uri, sizeof uri,
        "postgresql://u:secret@%s/locks?table_prefix=told_&poll_max=60s&waiter_lease=60s",
        server.address);
    dlt_told_check(uri, attempts, &server);
    dlt_postgres_stop(&server);
    return dlt_done();
}
