/* SPDX-License-Identifier: MIT */
#include "postgres_server.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_TRIES 5

/* A new name whenever the template would be another one. */
#define TEMPLATE DLT_POSTGRES_TEMPLATE "-1"

static bool fail(struct dlt_postgres *server, const char *what)
{
    dlt_process_why(server->why, sizeof server->why, server->directory, what);
    return false;
}

static bool run_to_end(struct dlt_postgres *server, const char *const *argv)
{
    return dlt_process_run(server->directory, argv) || fail(server, argv[0]);
}

/* As the user of the server. */
static bool run_as_server(struct dlt_postgres *server, const char *const *argv)
{
    return dlt_process_run_as(server->directory, argv, dlt_process_user("postgres")) ||
           fail(server, argv[0]);
}

static void place_set(struct dlt_postgres *server, unsigned port)
{
    server->port = port;
    (void)snprintf(server->address, sizeof server->address, "127.0.0.1:%u", port);
    (void)snprintf(server->socket, sizeof server->socket, "%s/.s.PGSQL.%u", server->directory,
                   port);
}

static bool directory_make(struct dlt_postgres *server)
{
    return dlt_directory_make(server->directory, "postgres") || fail(server, "a directory");
}

/* Root's files become the server's. */
static bool directory_give(struct dlt_postgres *server)
{
    const struct dlt_user *user = dlt_process_user("postgres");
    char owner[32];
    const char *give[] = {"chown", "-R", owner, server->directory, NULL};

    if (user == NULL)
        return true;
    (void)snprintf(owner, sizeof owner, "%u:%u", (unsigned)user->uid, (unsigned)user->gid);
    return run_to_end(server, give);
}

static bool run(struct dlt_postgres *server)
{
    char data[96], sockets[96], port[32], stale[128];
    const char *argv[DLT_POSTGRES_ARGS_MAX + 16] = {DLT_POSTGRES_BIN "postgres",
                                                    "-D",
                                                    data,
                                                    "-c",
                                                    "listen_addresses=127.0.0.1",
                                                    "-c",
                                                    port,
                                                    "-c",
                                                    sockets};
    size_t count = 0;

    while (argv[count] != NULL)
        count++;
    for (size_t i = 0; server->args[i] != NULL; i++)
        argv[count++] = server->args[i];
    (void)snprintf(data, sizeof data, "%s/data", server->directory);
    (void)snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", server->directory);
    (void)snprintf(port, sizeof port, "port=%u", server->port);
    /* The pid in the files of one that was killed may be somebody's now. */
    (void)snprintf(stale, sizeof stale, "%s/postmaster.pid", data);
    (void)unlink(stale);
    (void)snprintf(stale, sizeof stale, "%s.lock", server->socket);
    (void)unlink(stale);
    server->pid = dlt_process_spawn_as(server->directory, argv, getenv("LD_PRELOAD"),
                                       dlt_process_user("postgres"));
    return server->pid > 0 || fail(server, "fork");
}

static PGconn *administrator(const struct dlt_postgres *server, const char *database)
{
    char port[16];
    const char *const keys[] = {"host",    "port", "user", "dbname", "connect_timeout",
                                "options", NULL};
    const char *const values[] = {server->directory, port, "postgres", database, "20", "", NULL};
    PGconn *conn = NULL;

    (void)snprintf(port, sizeof port, "%u", server->port);
    conn = PQconnectdbParams(keys, values, 0);
    if (PQstatus(conn) == CONNECTION_OK)
        return conn;
    PQfinish(conn);
    return NULL;
}

static bool answers(void *arg)
{
    PGconn *conn = administrator(arg, "template1");

    PQfinish(conn);
    return conn != NULL;
}

static bool run_and_wait(struct dlt_postgres *server)
{
    return run(server) &&
           (dlt_process_wait(&server->pid, answers, server) || fail(server, "postgres"));
}

static bool run_on_free_port(struct dlt_postgres *server)
{
    for (int i = 0; i < START_TRIES; i++) {
        place_set(server, dlt_port_free());
        if (run_and_wait(server))
            return true;
    }
    return false;
}

static bool file_write(struct dlt_postgres *server, const char *name, const char *mode,
                       const char *text)
{
    char path[128];
    FILE *file = NULL;
    bool good = false;

    (void)snprintf(path, sizeof path, "%s/data/%s", server->directory, name);
    file = fopen(path, mode);
    good = file != NULL && fputs(text, file) >= 0;
    if (file != NULL)
        good = fclose(file) == 0 && good;
    return good || fail(server, path);
}

static bool users_make(struct dlt_postgres *server)
{
    PGconn *conn = administrator(server, "template1");
    static const char *const text[] = {
        "CREATE ROLE u LOGIN PASSWORD 'secret'",
        "CREATE ROLE certified LOGIN IN ROLE u",
        "CREATE ROLE least LOGIN PASSWORD 'least'",
        "CREATE DATABASE locks OWNER u",
        "DROP DATABASE postgres",
    };
    bool good = conn != NULL;

    for (size_t i = 0; good && i < sizeof text / sizeof text[0]; i++) {
        PGresult *result = PQexec(conn, text[i]);

        good = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
    }
    if (!good)
        (void)snprintf(server->why, sizeof server->why, "%s",
                       conn != NULL ? PQerrorMessage(conn) : "no connection");
    PQfinish(conn);
    return good;
}

static bool template_fill(struct dlt_postgres *server)
{
    char data[96];
    const char *install[] = {DLT_POSTGRES_BIN "initdb",
                             "-D",
                             data,
                             "-U",
                             "postgres",
                             "-E",
                             "UTF8",
                             "--locale=C",
                             "--auth=trust",
                             "--wal-segsize=1",
                             "--no-sync",
                             "--no-instructions",
                             NULL};
    bool good = false;

    (void)snprintf(data, sizeof data, "%s/data", server->directory);
    good = directory_give(server) && run_as_server(server, install) &&
           file_write(server, "postgresql.conf", "a",
                      "shared_buffers = 16MB\nmax_wal_size = 64MB\njit = off\n"
                      "dynamic_shared_memory_type = mmap\ntimezone = UTC\nlog_timezone = UTC\n") &&
           file_write(server, "pg_hba.conf", "w",
                      "local all postgres trust\nlocal all all scram-sha-256\n"
                      "hostssl all certified 127.0.0.1/32 cert map=client\n"
                      "host all all 127.0.0.1/32 scram-sha-256\n") &&
           file_write(server, "pg_ident.conf", "w", "client client certified\n") &&
           run_on_free_port(server) && users_make(server);
    if (server->pid > 0 && kill(server->pid, SIGINT) == 0)
        dlt_process_end(&server->pid);
    return good;
}

/* The empty tables of the server, and its users, are made once in a build tree, and copied for each
 * server. They are made elsewhere, since the server's user may have no way into the build tree. */
static bool template_make(struct dlt_postgres *server)
{
    static const char half[] = TEMPLATE ".half";
    struct dlt_postgres maker = {.pid = 0};
    char data[96];
    const char *clear[] = {"rm", "-rf", half, NULL}, *copy[] = {"cp", "-r", data, half, NULL};
    int lock = open(TEMPLATE ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool good = lock >= 0 && flock(lock, LOCK_EX) == 0;

    if (!good)
        return fail(server, TEMPLATE ".lock");
    if (access(TEMPLATE, F_OK) != 0) {
        good = directory_make(&maker) && template_fill(&maker);
        (void)snprintf(data, sizeof data, "%s/data", maker.directory);
        good = good && run_to_end(&maker, clear) && run_to_end(&maker, copy) &&
               (rename(half, TEMPLATE) == 0 || fail(&maker, "rename"));
        (void)memcpy(server->why, maker.why, sizeof server->why);
        dlt_postgres_stop(&maker);
    }
    (void)close(lock);
    return good;
}

static bool data_make(struct dlt_postgres *server)
{
    char data[96];
    const char *copy[] = {"cp", "-r", TEMPLATE, data, NULL};
    const char *close_to_others[] = {"chmod", "700", data, NULL}; /* or postgres does not start */

    (void)snprintf(data, sizeof data, "%s/data", server->directory);
    return template_make(server) && run_to_end(server, copy) &&
           run_to_end(server, close_to_others) && directory_give(server);
}

bool dlt_postgres_start(struct dlt_postgres *server, const char *const *args)
{
    *server = (struct dlt_postgres){.pid = 0};
    dlt_args_add(server->args, DLT_POSTGRES_ARGS_MAX, args);
    return directory_make(server) && data_make(server) && run_on_free_port(server);
}

bool dlt_postgres_start_tls(struct dlt_postgres *server, const char *certificate,
                            const char *const *args)
{
    static const char *const settings[] = {"ssl_cert_file", "ssl_key_file", "ssl_ca_file"};
    const char *names[] = {certificate, certificate, "ca"};
    static const char *const ends[] = {"pem", "key", "pem"};

    *server = (struct dlt_postgres){.pid = 0};
    if (!directory_make(server))
        return false;
    if (!dlt_certificates_make(server->directory))
        return fail(server, "certificates");
    dlt_args_add(server->args, DLT_POSTGRES_ARGS_MAX, (const char *[]){"-c", "ssl=on", NULL});
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(server->tls_files[i], sizeof server->tls_files[i], "%s=%s/%s.%s",
                       settings[i], server->directory, names[i], ends[i]);
        dlt_args_add(server->args, DLT_POSTGRES_ARGS_MAX,
                     (const char *[]){"-c", server->tls_files[i], NULL});
    }
    dlt_args_add(server->args, DLT_POSTGRES_ARGS_MAX, args);
    return data_make(server) && run_on_free_port(server);
}

bool dlt_postgres_borrow(struct dlt_postgres *server)
{
    const char *directory = getenv("DLT_POSTGRES_DIRECTORY"), *port = getenv("DLT_POSTGRES_PORT");

    if (directory == NULL || port == NULL)
        return dlt_postgres_start(server, NULL);
    *server = (struct dlt_postgres){.borrowed = true};
    (void)snprintf(server->directory, sizeof server->directory, "%s", directory);
    place_set(server, (unsigned)strtoul(port, NULL, 10));
    return true;
}

bool dlt_postgres_again(struct dlt_postgres *server)
{
    return run_and_wait(server);
}

void dlt_postgres_kill(struct dlt_postgres *server)
{
    dlt_process_kill_family(&server->pid);
}

void dlt_postgres_pause(struct dlt_postgres *server, bool pause)
{
    dlt_process_pause_family(server->pid, pause);
}

/* A server that was killed has left a segment of shared memory, which nobody else removes. */
static void segment_remove(const struct dlt_postgres *server)
{
    char path[128], line[128];
    FILE *file = NULL;
    unsigned long key = 0;
    int id = -1, number = 0;

    (void)snprintf(path, sizeof path, "%s/data/postmaster.pid", server->directory);
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (++number == 7 && sscanf(line, "%lu %d", &key, &id) == 2)
            (void)shmctl(id, IPC_RMID, NULL);
    if (file != NULL)
        (void)fclose(file);
}

void dlt_postgres_stop(struct dlt_postgres *server)
{
    dlt_postgres_kill(server);
    if (server->borrowed || server->directory[0] == '\0')
        return;
    segment_remove(server);
    dlt_directory_remove(server->directory);
}

const char *dlt_postgres_ask(const struct dlt_postgres *server, const char *format, ...)
{
    static _Thread_local char answer[4096];
    char text[4096];
    PGconn *conn = administrator(server, server->borrowed ? dlt_path() + 1 : "locks");
    PGresult *result = NULL;
    size_t used = 0;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    answer[0] = '\0';
    if (conn == NULL)
        return "no connection";
    result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        (void)snprintf(answer, sizeof answer, "%s", PQerrorMessage(conn));
    for (int i = 0; PQntuples(result) > 0 && i < PQnfields(result) && used < sizeof answer; i++)
        used += (size_t)snprintf(answer + used, sizeof answer - used, "%s%s", i > 0 ? " " : "",
                                 PQgetisnull(result, 0, i) ? "NULL" : PQgetvalue(result, 0, i));
    PQclear(result);
    PQfinish(conn);
    return answer;
}
