/* SPDX-License-Identifier: MIT */
/*
 * stall.c - makes a SQLite store unable to serve anybody, for a while.
 *
 *     cli_stall DATABASE SECONDS      prints "stalled" once it is so
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    int rc;

    if (argc != 3)
        return 64;
    rc = sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db, 5000);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc == SQLITE_OK) {
        (void)puts("stalled");
        (void)fflush(stdout);
        (void)sleep((unsigned)strtoul(argv[2], NULL, 10));
        rc = sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK)
        (void)fprintf(stderr, "cli_stall: %s\n", sqlite3_errstr(rc));
    (void)sqlite3_close(db);
    return rc == SQLITE_OK ? 0 : 1;
}
