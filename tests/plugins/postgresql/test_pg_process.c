/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/connect.c plugins/postgresql/connection.c */
/* Tests: plugins/postgresql/plugin.c */
/*
 * test_pg_process - what libpq would do to the process that it starts in: take settings from the
 * environment, which the caller of a set-user-ID program chooses. And a fork while a connection
 * begins (C10).
 */
#include "pg_kit.h"
#include "privileged.h"

#include <locale.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

static enum dlock_status plugin_start(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlt_host host;

    dlt_host_init_running(&host);
    return dlock_plugin_postgresql()->init(&host.table, &err);
}

static int privileged_main(void)
{
    if (getauxval(AT_SECURE) == 0)
        return DLT_NOT_PRIVILEGED;
    if (plugin_start() != DLOCK_OK)
        return 1;
    return getenv("PGSERVICEFILE") != NULL || getenv("PGOPTIONS") != NULL ? 2 : 0;
}

/* In a child, so that a hang ends. */
static bool in_a_child(bool (*test)(void))
{
    int wait_status = -1;
    pid_t child = fork();

    if (child == 0) {
        (void)alarm(30);
        _exit(test() ? 0 : 1);
    }
    (void)waitpid(child, &wait_status, 0);
    return wait_status == 0;
}

static bool environment_stays(void)
{
    return plugin_start() == DLOCK_OK && getenv("PGOPTIONS") != NULL;
}

static bool locale_stays(void)
{
    static struct dlt_session session;
    struct dlt_postgres server = {.port = 1, .address = "127.0.0.1:1"};
    locale_t before = uselocale((locale_t)0);

    dlt_session_init(&session, &server);
    return dlt_session_open(&session) == DLOCK_UNAVAILABLE && uselocale((locale_t)0) == before;
}

/* A server that listens and says nothing. Returns its port. */
static unsigned silent_server(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        abort();
    return ntohs(at.sin_port);
}

static _Atomic bool ended;

static void *fork_often(void *arg)
{
    while (!ended) {
        int wait_status = 0;
        pid_t child = fork();

        if (child == 0)
            _exit(0);
        (void)waitpid(child, &wait_status, 0);
    }
    return arg;
}

/* The mutexes of a beginning connection, which fork takes, too. */
static bool forks_meanwhile(void)
{
    static struct dlt_session session;
    struct dlt_postgres server = {.port = silent_server()};
    pthread_t thread;
    bool failed = true;

    (void)snprintf(server.address, sizeof server.address, "localhost:%u", server.port);
    dlt_session_init(&session, &server);
    session.call_ms = 10;
    if (pthread_create(&thread, NULL, fork_often, NULL) != 0)
        return false;
    for (int i = 0; i < 50; i++) {
        failed &= dlt_session_open(&session) == DLOCK_UNAVAILABLE;
        dlt_session_close(&session);
    }
    ended = true;
    return pthread_join(thread, NULL) == 0 && failed;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], DLT_PRIVILEGED) == 0)
        _exit(privileged_main()); /* a leak checker may not look into a privileged process */
    (void)setenv("PGOPTIONS", "-c work_mem=1MB", 1);
    (void)setenv("PGSERVICEFILE", "/nowhere", 1);
    (void)dlt_ok(in_a_child(environment_stays), "the environment of an ordinary program stays");
    (void)dlt_ok(in_a_child(locale_stays), "the locale of the thread stays");
    (void)dlt_ok(in_a_child(forks_meanwhile), "C10 forks while connections begin");
    dlt_privileged_ok("a set-user-id program takes no settings from the environment");
    return dlt_done();
}
