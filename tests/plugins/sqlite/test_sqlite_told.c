/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/watch.c core/async/driver.c */
/*
 * Operations of dlock_op_start wait in the wake file, and do not poll (C13, C19). Runs under
 * ThreadSanitizer, too.
 */
#include "store_kit.h"
#include "tap.h"
#include "told.h"

#include <stdlib.h>
#include <string.h>

/* Calls that write, of this process: a poll of a queue entry is a commit. */
static unsigned long writes(void *arg)
{
    FILE *file = fopen("/proc/self/io", "r");
    char text[512];
    const char *at = NULL;
    size_t len = 0;

    (void)arg;
    if (file == NULL)
        abort();
    len = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    at = strstr(text, "syscw: ");
    if (at == NULL)
        abort();
    return strtoul(at + strlen("syscw: "), NULL, 10);
}

int main(void)
{
    char directory[64], path[64], uri[128];

    dlt_store_directory(directory, path);
    (void)snprintf(uri, sizeof uri, "sqlite://%s?poll_max=60s&waiter_lease=60s", path);
    dlt_told_check(uri, writes, NULL);
    dlt_store_remove(directory);
    return dlt_done();
}
