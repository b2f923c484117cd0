/* SPDX-License-Identifier: MIT */
#include "pgbouncer_server.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_TRIES 5

static bool fail(struct dlt_pgbouncer *pooler, const char *what)
{
    dlt_process_why(pooler->why, sizeof pooler->why, pooler->directory, what);
    return false;
}

static bool file_write(struct dlt_pgbouncer *pooler, const char *name, const char *text)
{
    char path[128];
    FILE *file = NULL;
    bool good = false;

    (void)snprintf(path, sizeof path, "%s/%s", pooler->directory, name);
    file = fopen(path, "we");
    good = file != NULL && fputs(text, file) >= 0;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    return good || fail(pooler, path);
}

static bool settings_write(struct dlt_pgbouncer *pooler, const struct dlt_postgres *server,
                           const char *mode, const char *settings)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "[databases]\nlocks = host=127.0.0.1 port=%u dbname=locks\n"
                   "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %u\nunix_socket_dir =\n"
                   "auth_type = md5\nauth_file = %s/users\npool_mode = %s\n"
                   "default_pool_size = 300\nmax_client_conn = 1000\nserver_login_retry = 0.1\n%s",
                   server->port, pooler->port, pooler->directory, mode,
                   settings != NULL ? settings : "");
    return file_write(pooler, "settings", text) &&
           file_write(pooler, "users", "\"u\" \"secret\"\n\"least\" \"least\"\n");
}

static bool answers(void *arg)
{
    const struct dlt_pgbouncer *pooler = arg;
    char port[16];
    const char *const keys[] = {"host",    "port", "user", "dbname", "password", "connect_timeout",
                                "sslmode", NULL};
    const char *const values[] = {"127.0.0.1", port, "u", "locks", "secret", "20", "disable", NULL};
    PGconn *conn = NULL;
    bool good = false;

    (void)snprintf(port, sizeof port, "%u", pooler->port);
    conn = PQconnectdbParams(keys, values, 0);
    good = PQstatus(conn) == CONNECTION_OK;
    PQfinish(conn);
    return good;
}

static bool run_and_wait(struct dlt_pgbouncer *pooler, const struct dlt_postgres *server,
                         const char *mode, const char *settings)
{
    const struct dlt_user *user = dlt_process_user("postgres");
    char file[96], owner[32];
    const char *argv[] = {DLT_PGBOUNCER, file, NULL};
    const char *give[] = {"chown", "-R", owner, pooler->directory, NULL};

    (void)snprintf(file, sizeof file, "%s/settings", pooler->directory);
    if (user != NULL)
        (void)snprintf(owner, sizeof owner, "%u:%u", (unsigned)user->uid, (unsigned)user->gid);
    if (!settings_write(pooler, server, mode, settings) ||
        (user != NULL && !dlt_process_run(pooler->directory, give)))
        return fail(pooler, "settings");
    pooler->pid = dlt_process_spawn_as(pooler->directory, argv, NULL, user);
    if (pooler->pid < 0)
        return fail(pooler, "fork");
    return dlt_process_wait(&pooler->pid, answers, pooler) || fail(pooler, "pgbouncer");
}

bool dlt_pgbouncer_start(struct dlt_pgbouncer *pooler, const struct dlt_postgres *server,
                         const char *mode, const char *settings)
{
    *pooler = (struct dlt_pgbouncer){.pid = 0};
    if (!dlt_directory_make(pooler->directory, "pgbouncer"))
        return fail(pooler, "a directory");
    for (int i = 0; i < START_TRIES; i++) {
        pooler->port = dlt_port_free();
        if (run_and_wait(pooler, server, mode, settings))
            return true;
    }
    return false;
}

bool dlt_pgbouncer_again(struct dlt_pgbouncer *pooler, const struct dlt_postgres *server,
                         const char *mode, const char *settings)
{
    dlt_pgbouncer_kill(pooler);
    return run_and_wait(pooler, server, mode, settings);
}

void dlt_pgbouncer_kill(struct dlt_pgbouncer *pooler)
{
    dlt_process_kill(&pooler->pid);
}

void dlt_pgbouncer_stop(struct dlt_pgbouncer *pooler)
{
    dlt_pgbouncer_kill(pooler);
    dlt_directory_remove(pooler->directory);
}
