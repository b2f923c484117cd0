/* SPDX-License-Identifier: MIT */
#include "redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TRIES 5
#define START_MS    20000

static void sleep_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
        ;
}

static bool fail(struct dlt_redis *server, const char *what)
{
    (void)snprintf(server->why, sizeof server->why, "%s: %s", what, strerror(errno));
    return false;
}

/* Free now; somebody else may be quicker, and then another one is tried. */
static unsigned port_free(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        (void)close(fd);
    return port;
}

static size_t args_make(struct dlt_redis *server, char ports[2][16], const char **out)
{
    size_t count = 0;
    const char *fixed[] = {
        "redis-server", "--port",     ports[0],          "--bind",    "127.0.0.1", "--unixsocket",
        server->socket, "--dir",      server->directory, "--save",    "",          "--daemonize",
        "no",           "--loglevel", "warning",         "--logfile", "log",
    };

    (void)snprintf(ports[0], 16, "%u", server->port);
    (void)snprintf(ports[1], 16, "%u", server->tls_port);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        out[count++] = fixed[i];
    if (server->tls) {
        out[count++] = "--tls-port";
        out[count++] = ports[1];
    }
    for (size_t i = 0; server->args[i] != NULL; i++)
        out[count++] = server->args[i];
    out[count] = NULL;
    return count;
}

static bool run(struct dlt_redis *server)
{
    const char *args[DLT_REDIS_ARGS_MAX + 32];
    char ports[2][16];
    pid_t parent = getpid();

    (void)args_make(server, ports, args);
    (void)unlink(server->socket);
    server->pid = fork();
    if (server->pid < 0)
        return fail(server, "fork");
    if (server->pid == 0) {
        sigset_t none;
        int null = open("/dev/null", O_RDWR);

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)dup2(null, 0);
        (void)dup2(null, 1);
        (void)execvp(args[0], (char *const *)args);
        _exit(127);
    }
    return true;
}

/* 1: it answers; 0: not yet; -1: it has ended. */
static int answers(struct dlt_redis *server)
{
    redisContext *context = redisConnectUnix(server->socket);
    redisReply *reply = context != NULL && context->err == 0 ? redisCommand(context, "PING") : NULL;
    bool loading =
        reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "LOAD", 4) == 0;
    int result = reply != NULL && !loading;

    if (reply != NULL)
        freeReplyObject(reply);
    if (context != NULL)
        redisFree(context);
    if (result == 0 && waitpid(server->pid, NULL, WNOHANG) == server->pid) {
        server->pid = 0;
        return -1;
    }
    return result;
}

static bool run_and_wait(struct dlt_redis *server)
{
    if (!run(server))
        return false;
    for (int ms = 0; ms < START_MS; ms += 5) {
        int result = answers(server);

        if (result != 0) {
            errno = result < 0 ? ECHILD : 0;
            return result > 0 || fail(server, "redis-server ended at once (see its log)");
        }
        sleep_ms(5);
    }
    errno = ETIMEDOUT;
    return fail(server, "redis-server does not answer");
}

static bool directory_make(struct dlt_redis *server)
{
    (void)snprintf(server->directory, sizeof server->directory, "/tmp/dlock-redis-XXXXXX");
    if (mkdtemp(server->directory) == NULL)
        return fail(server, "a directory");
    (void)snprintf(server->socket, sizeof server->socket, "%s/s", server->directory);
    return true;
}

static bool start(struct dlt_redis *server)
{
    for (int i = 0; i < START_TRIES; i++) {
        server->port = port_free();
        server->tls_port = server->tls ? port_free() : 0;
        (void)snprintf(server->address, sizeof server->address, "127.0.0.1:%u", server->port);
        if (run_and_wait(server))
            return true;
    }
    return false;
}

static void args_set(struct dlt_redis *server, const char *const *args)
{
    size_t count = 0;

    for (; args != NULL && args[count] != NULL && count + 1 < DLT_REDIS_ARGS_MAX; count++)
        server->args[count] = args[count];
    server->args[count] = NULL;
}

bool dlt_redis_start(struct dlt_redis *server, const char *const *args)
{
    *server = (struct dlt_redis){.pid = 0};
    args_set(server, args);
    return directory_make(server) && start(server);
}

static bool certificates_make(struct dlt_redis *server)
{
    char command[512];

    (void)snprintf(command, sizeof command, "%s '%s' >'%s/openssl.log' 2>&1", DLT_CERTIFICATES,
                   server->directory, server->directory);
    errno = 0;
    return system(command) == 0 || fail(server, "certificates");
}

bool dlt_redis_start_tls(struct dlt_redis *server, const char *certificate, const char *clients)
{
    static char files[3][128];

    *server = (struct dlt_redis){.tls = true};
    if (!directory_make(server) || !certificates_make(server))
        return false;
    (void)snprintf(files[0], sizeof files[0], "%s/%s.pem", server->directory, certificate);
    (void)snprintf(files[1], sizeof files[1], "%s/%s.key", server->directory, certificate);
    (void)snprintf(files[2], sizeof files[2], "%s/ca.pem", server->directory);
    args_set(server,
             (const char *[]){"--tls-cert-file", files[0], "--tls-key-file", files[1],
                              "--tls-ca-cert-file", files[2], "--tls-auth-clients", clients, NULL});
    return start(server);
}

bool dlt_redis_again(struct dlt_redis *server)
{
    return run_and_wait(server);
}

void dlt_redis_kill(struct dlt_redis *server)
{
    if (server->pid > 0) {
        (void)kill(server->pid, SIGKILL);
        (void)waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
}

void dlt_redis_pause(struct dlt_redis *server, bool pause)
{
    if (server->pid > 0)
        (void)kill(server->pid, pause ? SIGSTOP : SIGCONT);
}

void dlt_redis_stop(struct dlt_redis *server)
{
    char command[128];

    dlt_redis_kill(server);
    if (server->directory[0] == '\0')
        return;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", server->directory);
    (void)!system(command);
    server->directory[0] = '\0';
}

static size_t reply_print(const redisReply *reply, char *out, size_t size)
{
    size_t used = 0;

    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        return (size_t)snprintf(out, size, "%lld", reply->integer);
    case REDIS_REPLY_NIL:
        return (size_t)snprintf(out, size, "nil");
    case REDIS_REPLY_ARRAY:
        out[0] = '\0';
        for (size_t i = 0; i < reply->elements && used + 2 < size; i++) {
            used += reply_print(reply->element[i], out + used, size - used);
            if (i + 1 < reply->elements && used + 2 < size)
                used += (size_t)snprintf(out + used, size - used, "\n");
        }
        return used < size ? used : size - 1;
    default:
        return (size_t)snprintf(out, size, "%s", reply->str);
    }
}

const char *dlt_redis_ask(struct dlt_redis *server, const char *format, ...)
{
    static char answer[1 << 16];
    redisContext *context = redisConnectUnix(server->socket);
    redisReply *reply = NULL;
    va_list args;

    (void)snprintf(answer, sizeof answer, "no connection");
    if (context != NULL && context->err == 0) {
        va_start(args, format);
        reply = redisvCommand(context, format, args);
        va_end(args);
    }
    if (reply != NULL) {
        (void)reply_print(reply, answer, sizeof answer);
        freeReplyObject(reply);
    }
    if (context != NULL)
        redisFree(context);
    return answer;
}
