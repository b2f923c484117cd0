/* SPDX-License-Identifier: MIT */
/*
 * test_mysql_process - what libmariadb would do to the process that it starts in: take code from
 * the directory that the environment names, which the caller of a set-user-ID program chooses, and
 * change what SIGPIPE does (C10).
 */
#include "my_kit.h"
#include "privileged.h"

#include <dlfcn.h>
#include <mysql.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

static enum dlock_status plugin_start(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlt_host host;

    dlt_host_init_running(&host);
    return dlock_plugin_mysql()->init(&host.table, &err);
}

static bool evil_loaded(void)
{
    return getenv("DLT_EVIL_WAS_HERE") != NULL;
}

/* As a server does that wants to be logged in to by a method of another plugin. */
static void method_load(void)
{
    void *(*find)(MYSQL *, const char *, int) = NULL;
    const int authentication = 2;
    MYSQL *mysql = mysql_init(NULL);

    *(void **)&find = dlsym(RTLD_DEFAULT, "mysql_client_find_plugin");
    if (find != NULL)
        (void)find(mysql, "dlock_evil", authentication);
    mysql_close(mysql);
}

static int privileged_main(void)
{
    if (getauxval(AT_SECURE) == 0)
        return DLT_NOT_PRIVILEGED;
    if (plugin_start() != DLOCK_OK)
        return 1;
    if (evil_loaded())
        return 2;
    method_load();
    return evil_loaded() ? 3 : 0;
}

/* In a child, so that the library starts anew. */
static bool in_a_child(bool (*test)(void))
{
    int wait_status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(test() ? 0 : 1);
    (void)waitpid(child, &wait_status, 0);
    return wait_status == 0;
}

static bool trap_works(void)
{
    return plugin_start() == DLOCK_OK && evil_loaded();
}

static void handler(int number)
{
    (void)number;
}

/* In the place of the library's: another thread sets a handler while it starts. */
static bool meanwhile;
int mysql_server_init(int argc, char **argv, char **groups)
{
    static int (*real)(int, char **, char **);
    int failed = 0;

    *(void **)&real = dlsym(RTLD_NEXT, "mysql_server_init");
    failed = real(argc, argv, groups);
    if (meanwhile)
        (void)signal(SIGPIPE, handler);
    return failed;
}

static bool pipe_handler_is(void (*wanted)(int))
{
    struct sigaction now;

    return plugin_start() == DLOCK_OK && sigaction(SIGPIPE, NULL, &now) == 0 &&
           now.sa_handler == wanted;
}

static bool pipe_stays(void)
{
    return pipe_handler_is(SIG_DFL);
}

static bool pipe_set_meanwhile(void)
{
    meanwhile = true;
    return pipe_handler_is(handler);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], DLT_PRIVILEGED) == 0)
        _exit(privileged_main()); /* a leak checker may not look into a privileged process */
    (void)dlt_ok(in_a_child(pipe_stays), "C10 SIGPIPE is as it was");
    (void)dlt_ok(in_a_child(pipe_set_meanwhile), "C10 and as another thread set it meanwhile");
    (void)setenv("LIBMYSQL_PLUGINS", "dlock_evil", 1);
    (void)setenv("MARIADB_PLUGIN_DIR", EVIL_DIR, 1);
    (void)dlt_ok(in_a_child(trap_works), "the trap is set");
    dlt_privileged_ok("a set-user-id program runs no code that the environment names");
    return dlt_done();
}
