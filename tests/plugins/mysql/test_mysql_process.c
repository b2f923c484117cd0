/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/connect.c */
/*
 * test_mysql_process - what libmariadb would do to the process that it starts in: take code from
 * the directory that the environment names, which the caller of a set-user-ID program chooses, and
 * change what SIGPIPE does (C10). And a fork while a connection begins.
 */
#include "my_kit.h"
#include "privileged.h"

#include <dlfcn.h>
#include <mysql.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* In the place of the library's: a fork begins while this thread makes the socket. */
static _Atomic bool connects;
int mysql_real_connect_start(MYSQL **connected, MYSQL *mysql, const char *host, const char *user,
                             const char *password, const char *database, unsigned port,
                             const char *path, unsigned long flags)
{
    static int (*real)(MYSQL **, MYSQL *, const char *, const char *, const char *, const char *,
                       unsigned, const char *, unsigned long);

    *(void **)&real = dlsym(RTLD_NEXT, "mysql_real_connect_start");
    connects = true;
    dlt_sleep_ms(300);
    return real(connected, mysql, host, user, password, database, port, path, flags);
}

static void *fork_once(void *arg)
{
    int wait_status = 0;
    pid_t child = 0;

    (void)arg;
    while (!connects)
        dlt_sleep_ms(1);
    child = fork();
    if (child == 0)
        _exit(0);
    (void)waitpid(child, &wait_status, 0);
    return NULL;
}

/* A server that listens and says nothing. Returns its port. */
static unsigned silent_server(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        abort();
    return ntohs(at.sin_port);
}

/* With TLS a thread of its own connects, which has a mutex that fork takes, too. */
static bool fork_meanwhile(void)
{
    static struct dlt_session session;
    struct dlt_maria server = {.port = silent_server()};
    pthread_t thread;
    bool failed = false;

    (void)alarm(30); /* ends this child if the two threads wait for each other */
    (void)snprintf(server.address, sizeof server.address, "127.0.0.1:%u", server.port);
    dlt_session_init(&session, &server);
    dlt_session_option(&session, "tls", "1");
    session.call_ms = 1000;
    if (pthread_create(&thread, NULL, fork_once, NULL) != 0)
        return false;
    failed = dlt_session_open(&session) == DLOCK_UNAVAILABLE;
    return pthread_join(thread, NULL) == 0 && connects && failed;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], DLT_PRIVILEGED) == 0)
        _exit(privileged_main()); /* a leak checker may not look into a privileged process */
    (void)dlt_ok(in_a_child(pipe_stays), "C10 SIGPIPE is as it was");
    (void)dlt_ok(in_a_child(pipe_set_meanwhile), "C10 and as another thread set it meanwhile");
    (void)dlt_ok(in_a_child(fork_meanwhile), "C10 a fork while a connection with TLS begins");
    (void)setenv("LIBMYSQL_PLUGINS", "dlock_evil", 1);
    (void)setenv("MARIADB_PLUGIN_DIR", EVIL_DIR, 1);
    (void)dlt_ok(in_a_child(trap_works), "the trap is set");
    dlt_privileged_ok("a set-user-id program runs no code that the environment names");
    return dlt_done();
}
