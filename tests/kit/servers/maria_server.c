/* SPDX-License-Identifier: MIT */
#include "maria_server.h"

#include <errno.h>
#include <fcntl.h>
#include <mysql.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_TRIES 5

static bool real_mysql(void)
{
    return getenv("DLT_REAL_MYSQL") != NULL;
}

static bool fail(struct dlt_maria *server, const char *what)
{
    dlt_process_why(server->why, sizeof server->why, server->directory, what);
    return false;
}

static bool run_to_end(struct dlt_maria *server, const char *const *argv)
{
    return dlt_process_run(server->directory, argv) || fail(server, argv[0]);
}

/* The empty tables of the server are made once in a build tree, and copied for each server. */
static const char *template_place(void)
{
    return real_mysql() ? DLT_MARIA_TEMPLATE ".mysql" : DLT_MARIA_TEMPLATE;
}

static bool template_install(struct dlt_maria *server, const char *half, const char *scratch)
{
    char datadir[256 + sizeof "--datadir="], tmpdir[256 + sizeof "--tmpdir="];
    const char *user = geteuid() == 0 ? "--user=root" : NULL;
    const char *maria[] = {"mariadb-install-db",
                           "--no-defaults",
                           datadir,
                           "--auth-root-authentication-method=normal",
                           "--skip-test-db",
                           "--innodb-log-file-size=8M",
                           "--innodb-use-native-aio=OFF",
                           tmpdir,
                           user,
                           NULL};
    const char *mysql[] = {DLT_MYSQLD, "--initialize-insecure", datadir, tmpdir, user, NULL};

    (void)snprintf(datadir, sizeof datadir, "--datadir=%s", half);
    (void)snprintf(tmpdir, sizeof tmpdir, "--tmpdir=%s", scratch);
    return run_to_end(server, real_mysql() ? mysql : maria);
}

static bool template_make(struct dlt_maria *server)
{
    char half[256], scratch[256], locked[256];
    const char *done = template_place(), *clear[] = {"rm", "-rf", half, NULL};
    int lock = -1;
    bool good = false;

    (void)snprintf(half, sizeof half, "%s.half", done);
    (void)snprintf(scratch, sizeof scratch, "%s.tmp", done);
    (void)snprintf(locked, sizeof locked, "%s.lock", done);
    lock = open(locked, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    good = lock >= 0 && flock(lock, LOCK_EX) == 0;
    if (!good)
        return fail(server, locked);
    (void)mkdir(scratch, 0700);
    if (access(done, F_OK) != 0)
        good = run_to_end(server, clear) && template_install(server, half, scratch) &&
               (rename(half, done) == 0 || fail(server, "rename"));
    (void)close(lock);
    return good;
}

static bool directory_make(struct dlt_maria *server)
{
    return dlt_directory_make(server->directory, "mysql") || fail(server, "a directory");
}

static bool data_make(struct dlt_maria *server)
{
    char data[96];
    const char *copy[] = {"cp", "-r", template_place(), data, NULL};

    (void)snprintf(data, sizeof data, "%s/data", server->directory);
    return template_make(server) && run_to_end(server, copy);
}

static bool run(struct dlt_maria *server)
{
    char data[96], socket_arg[96], pid_file[96], tmpdir[96], port[32];
    bool real = real_mysql(); /* whose statements about others read performance_schema */
    const char *argv[DLT_MARIA_ARGS_MAX + 16] = {
        real ? DLT_MYSQLD : "mariadbd",
        real ? "--skip-log-bin" : "--no-defaults",
        data,
        socket_arg,
        pid_file,
        port,
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=16M",
        real ? "--innodb-redo-log-capacity=8M" : "--innodb-log-file-size=8M",
        "--skip-name-resolve",
        real ? "--performance-schema=ON" : "--performance-schema=OFF",
        tmpdir,
        geteuid() == 0 ? "--user=root" : "--skip-symbolic-links"};
    size_t count = 0;

    while (argv[count] != NULL)
        count++;
    for (size_t i = 0; server->args[i] != NULL; i++)
        argv[count++] = server->args[i];
    (void)snprintf(data, sizeof data, "--datadir=%s/data", server->directory);
    (void)snprintf(socket_arg, sizeof socket_arg, "--socket=%s", server->socket);
    (void)snprintf(pid_file, sizeof pid_file, "--pid-file=%s/pid", server->directory);
    (void)snprintf(tmpdir, sizeof tmpdir, "--tmpdir=%s", server->directory);
    (void)snprintf(port, sizeof port, "--port=%u", server->port);
    server->pid = dlt_process_spawn(server->directory, argv, getenv("LD_PRELOAD"));
    return server->pid > 0 || fail(server, "fork");
}

static _Thread_local char root_why[256]; /* of the last connection that was not made */

static MYSQL *root(const struct dlt_maria *server, const char *database)
{
    const unsigned protocol = MYSQL_PROTOCOL_SOCKET, seconds = 20;
    MYSQL *mysql = mysql_init(NULL);

    (void)mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    (void)mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &seconds);
    if (mysql_real_connect(mysql, NULL, "root", "", database, 0, server->socket,
                           CLIENT_MULTI_STATEMENTS) == NULL) {
        (void)snprintf(root_why, sizeof root_why, "no connection: %s", mysql_error(mysql));
        mysql_close(mysql);
        return NULL;
    }
    return mysql;
}

static bool answers(void *arg)
{
    MYSQL *mysql = root(arg, NULL);

    if (mysql != NULL)
        mysql_close(mysql);
    return mysql != NULL;
}

static bool run_and_wait(struct dlt_maria *server)
{
    return run(server) &&
           (dlt_process_wait(&server->pid, answers, server) || fail(server, "mariadbd"));
}

static void place_set(struct dlt_maria *server, unsigned port)
{
    server->port = port;
    (void)snprintf(server->address, sizeof server->address, "127.0.0.1:%u", port);
    (void)snprintf(server->socket, sizeof server->socket, "%s/s", server->directory);
}

static bool users_make(struct dlt_maria *server)
{
    MYSQL *mysql = root(server, NULL);
    static const char *const text[] = {
        "CREATE DATABASE locks",
        "CREATE USER u IDENTIFIED BY 'secret'",
        "GRANT ALL ON locks.* TO u",
        "DELETE FROM mysql.global_priv WHERE user = ''", /* MySQL has no such users */
        "FLUSH PRIVILEGES",
    };
    const size_t count = sizeof text / sizeof text[0] - (real_mysql() ? 2 : 0);
    bool good = mysql != NULL;

    for (size_t i = 0; good && i < count; i++)
        good = mysql_query(mysql, text[i]) == 0;
    if (!good && mysql != NULL)
        (void)snprintf(server->why, sizeof server->why, "%s", mysql_error(mysql));
    if (mysql != NULL)
        mysql_close(mysql);
    return good;
}

static bool run_on_free_port(struct dlt_maria *server)
{
    for (int i = 0; i < START_TRIES; i++) {
        place_set(server, dlt_port_free());
        if (run_and_wait(server))
            return true;
    }
    return false;
}

bool dlt_maria_start(struct dlt_maria *server, const char *const *args)
{
    *server = (struct dlt_maria){.pid = 0};
    dlt_args_add(server->args, DLT_MARIA_ARGS_MAX, args);
    return directory_make(server) && data_make(server) && run_on_free_port(server) &&
           users_make(server);
}

bool dlt_maria_start_tls(struct dlt_maria *server, const char *certificate, const char *const *args)
{
    static const char *const settings[] = {"--ssl-cert", "--ssl-key", "--ssl-ca"};
    const char *names[] = {certificate, certificate, "ca"};
    static const char *const ends[] = {"pem", "key", "pem"};

    *server = (struct dlt_maria){.pid = 0};
    if (!directory_make(server))
        return false;
    if (!dlt_certificates_make(server->directory))
        return fail(server, "certificates");
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(server->tls_files[i], sizeof server->tls_files[i], "%s=%s/%s.%s",
                       settings[i], server->directory, names[i], ends[i]);
        server->args[i] = server->tls_files[i];
    }
    dlt_args_add(server->args, DLT_MARIA_ARGS_MAX, args);
    return data_make(server) && run_on_free_port(server) && users_make(server);
}

bool dlt_maria_borrow(struct dlt_maria *server)
{
    const char *directory = getenv("DLT_MARIA_DIRECTORY"), *port = getenv("DLT_MARIA_PORT");

    if (directory == NULL || port == NULL)
        return dlt_maria_start(server, NULL);
    *server = (struct dlt_maria){.borrowed = true};
    (void)snprintf(server->directory, sizeof server->directory, "%s", directory);
    place_set(server, (unsigned)strtoul(port, NULL, 10));
    return true;
}

bool dlt_maria_again(struct dlt_maria *server)
{
    return run_and_wait(server);
}

void dlt_maria_kill(struct dlt_maria *server)
{
    dlt_process_kill(&server->pid);
}

void dlt_maria_pause(struct dlt_maria *server, bool pause)
{
    dlt_process_pause(server->pid, pause);
}

void dlt_maria_stop(struct dlt_maria *server)
{
    dlt_maria_kill(server);
    if (!server->borrowed)
        dlt_directory_remove(server->directory);
}

static void row_print(MYSQL *mysql, char *out, size_t size)
{
    MYSQL_RES *result = mysql_store_result(mysql);
    MYSQL_ROW row = result != NULL ? mysql_fetch_row(result) : NULL;
    size_t used = 0;

    for (unsigned i = 0; row != NULL && i < mysql_num_fields(result) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? " " : "",
                                 row[i] != NULL ? row[i] : "NULL");
    if (result != NULL)
        mysql_free_result(result);
}

const char *dlt_maria_ask(const struct dlt_maria *server, const char *format, ...)
{
    static _Thread_local char answer[4096];
    char text[4096];
    MYSQL *mysql = root(server, server->borrowed ? dlt_path() + 1 : "locks");
    int more = 0; /* results: 0 yes, -1 no, 1 failed */
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    answer[0] = '\0';
    if (mysql == NULL)
        return root_why;
    for (more = mysql_query(mysql, text) != 0; more == 0; more = mysql_next_result(mysql))
        row_print(mysql, answer, sizeof answer);
    if (more > 0)
        (void)snprintf(answer, sizeof answer, "%s", mysql_error(mysql));
    mysql_close(mysql);
    return answer;
}
