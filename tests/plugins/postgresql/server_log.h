/* SPDX-License-Identifier: MIT */
/* server_log.h - what the server of a test has written to its log. */
#ifndef DLT_PG_SERVER_LOG_H
#define DLT_PG_SERVER_LOG_H

#include "postgres_server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Lines of the server's log that have this text. Statements are there if it starts with
 * log_settings. */
static inline int logged(const struct dlt_postgres *of, const char *text)
{
    char path[128], line[4096];
    FILE *file = NULL;
    int count = 0;

    (void)snprintf(path, sizeof path, "%s/log", of->directory);
    file = fopen(path, "re");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, text) != NULL;
    (void)fclose(file);
    return count;
}

#endif
