/* SPDX-License-Identifier: MIT */
/*
 * Does the server of the tests of PostgreSQL stand still when it is told to, keep what was
 * committed when it is killed, and leave nothing behind? Without that, no test with faults shows
 * anything.
 */
#include "postgres_server.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A question that another process asks, since it may never be answered. True: "1" came in time. */
static bool answered(const struct dlt_postgres *server, useconds_t wait_us)
{
    pid_t pid = fork();
    int status = 0;
    bool ended = false;

    if (pid == 0)
        _exit(strcmp(dlt_postgres_ask(server, "SELECT 1"), "1") == 0 ? 0 : 1);
    for (useconds_t us = 0; us < wait_us && !ended; us += 10000) {
        (void)usleep(10000);
        ended = waitpid(pid, &status, WNOHANG) == pid;
    }
    if (!ended)
        dlt_process_kill(&pid);
    return ended && status == 0;
}

static void says(const char *answer, const char *expected, const char *name)
{
    (void)dlt_ok(strcmp(answer, expected) == 0, "%s (%s)", name, answer);
}

int main(void)
{
    static const char *const args[] = {"-c", "deadlock_timeout=7s", NULL};
    struct dlt_postgres server;
    char directory[DLT_DIRECTORY_SIZE];

    (void)dlt_ok(dlt_postgres_start(&server, args), "a server starts%s", server.why);
    (void)memcpy(directory, server.directory, sizeof directory);
    says(dlt_postgres_ask(&server, "SHOW fsync"), "on", "it keeps what it is told");
    says(dlt_postgres_ask(&server, "SHOW deadlock_timeout"), "7s",
         "it has the settings of the test");
    says(dlt_postgres_ask(&server, "CREATE TABLE kept(n int); INSERT INTO kept "
                                   "VALUES(7); SELECT n FROM kept"),
         "7", "several statements have the answer of the last");

    dlt_postgres_pause(&server, true);
    (void)dlt_ok(!answered(&server, 300000), "no process of a paused server answers");
    dlt_postgres_pause(&server, false);
    (void)dlt_ok(answered(&server, 10000000), "it answers again afterwards");

    dlt_postgres_kill(&server);
    (void)dlt_ok(!answered(&server, 1000000), "a killed server does not answer");
    (void)dlt_ok(dlt_postgres_again(&server), "it starts again at once");
    says(dlt_postgres_ask(&server, "SELECT n FROM kept"), "7", "and has what was committed");
    dlt_postgres_pause(&server, true);
    dlt_postgres_stop(&server);
    (void)dlt_ok(access(directory, F_OK) != 0, "one that is paused ends, and its directory, too");
    return dlt_done();
}
