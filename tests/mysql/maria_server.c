/* SPDX-License-Identifier: MIT */
#include "maria_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mysql.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TRIES 5
#define START_MS    60000

static void log_tail(const struct dlt_maria *server, char *out, size_t size)
{
    char path[96];
    FILE *log = NULL;
    size_t got = 0;

    (void)snprintf(path, sizeof path, "%s/log", server->directory);
    log = fopen(path, "r");
    if (log != NULL && fseek(log, -(long)size + 1, SEEK_END) != 0)
        rewind(log);
    if (log != NULL) {
        got = fread(out, 1, size - 1, log);
        (void)fclose(log);
    }
    out[got] = '\0';
}

static bool fail(struct dlt_maria *server, const char *what)
{
    int number = errno;
    char tail[512];

    log_tail(server, tail, sizeof tail);
    (void)snprintf(server->why, sizeof server->why, "%s: %s; the end of its log: %s", what,
                   strerror(number), tail);
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

/* Runs argv with its output in the file `log` of the server's directory. */
static pid_t spawn(const struct dlt_maria *server, const char *const *argv)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0) {
        char log[96];
        sigset_t none;
        int fd = -1;

        (void)snprintf(log, sizeof log, "%s/log", server->directory);
        fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
        (void)unsetenv("LD_PRELOAD");
        (void)execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid;
}

static bool run_to_end(struct dlt_maria *server, const char *const *argv)
{
    int status = 0;
    pid_t pid = spawn(server, argv);

    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return fail(server, "fork");
    errno = 0;
    return status == 0 || fail(server, argv[0]);
}

/* The empty tables of the server are made once in a build tree, and copied for each server. */
static bool template_make(struct dlt_maria *server)
{
    static const char datadir[] = "--datadir=" DLT_MARIA_TEMPLATE ".half";
    static const char tmpdir[] = "--tmpdir=" DLT_MARIA_TEMPLATE ".tmp";
    static const char half[] = DLT_MARIA_TEMPLATE ".half", done[] = DLT_MARIA_TEMPLATE;
    const char *install[] = {"mariadb-install-db",
                             "--no-defaults",
                             datadir,
                             "--auth-root-authentication-method=normal",
                             "--skip-test-db",
                             "--innodb-log-file-size=8M",
                             "--innodb-use-native-aio=OFF",
                             tmpdir,
                             geteuid() == 0 ? "--user=root" : NULL,
                             NULL};
    const char *clear[] = {"rm", "-rf", half, NULL};
    int lock = open(DLT_MARIA_TEMPLATE ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool good = lock >= 0 && flock(lock, LOCK_EX) == 0;

    if (!good)
        return fail(server, DLT_MARIA_TEMPLATE ".lock");
    (void)mkdir(DLT_MARIA_TEMPLATE ".tmp", 0700);
    if (access(done, F_OK) != 0)
        good = run_to_end(server, clear) && run_to_end(server, install) &&
               (rename(half, done) == 0 || fail(server, "rename"));
    (void)close(lock);
    return good;
}

static bool data_make(struct dlt_maria *server)
{
    char data[96];
    const char *copy[] = {"cp", "-r", DLT_MARIA_TEMPLATE, data, NULL};

    (void)snprintf(server->directory, sizeof server->directory, "/tmp/dlock-mysql-XXXXXX");
    if (mkdtemp(server->directory) == NULL)
        return fail(server, "a directory");
    (void)snprintf(server->socket, sizeof server->socket, "%s/s", server->directory);
    (void)snprintf(data, sizeof data, "%s/data", server->directory);
    return template_make(server) && run_to_end(server, copy);
}

static bool run(struct dlt_maria *server)
{
    char data[96], socket_arg[96], pid_file[96], tmpdir[96], port[32];
    const char *argv[DLT_MARIA_ARGS_MAX + 16] = {"mariadbd",
                                                 "--no-defaults",
                                                 data,
                                                 socket_arg,
                                                 pid_file,
                                                 port,
                                                 "--bind-address=127.0.0.1",
                                                 "--innodb-buffer-pool-size=16M",
                                                 "--innodb-log-file-size=8M",
                                                 "--skip-name-resolve",
                                                 "--performance-schema=OFF",
                                                 tmpdir,
                                                 geteuid() == 0 ? "--user=root"
                                                                : "--skip-symbolic-links"};
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
    server->pid = spawn(server, argv);
    return server->pid > 0 || fail(server, "fork");
}

static MYSQL *root(const struct dlt_maria *server, const char *database)
{
    const unsigned protocol = MYSQL_PROTOCOL_SOCKET, seconds = 20;
    MYSQL *mysql = mysql_init(NULL);

    (void)mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    (void)mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &seconds);
    if (mysql_real_connect(mysql, NULL, "root", "", database, 0, server->socket,
                           CLIENT_MULTI_STATEMENTS) == NULL) {
        mysql_close(mysql);
        return NULL;
    }
    return mysql;
}

/* 1: it answers; 0: not yet; -1: it has ended. */
static int answers(struct dlt_maria *server)
{
    MYSQL *mysql = root(server, NULL);

    if (mysql != NULL) {
        mysql_close(mysql);
        return 1;
    }
    if (waitpid(server->pid, NULL, WNOHANG) != server->pid)
        return 0;
    server->pid = 0;
    return -1;
}

static bool run_and_wait(struct dlt_maria *server)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    if (!run(server))
        return false;
    for (int ms = 0; ms < START_MS; ms += 10) {
        int result = answers(server);

        if (result != 0) {
            errno = result < 0 ? ECHILD : 0;
            return result > 0 || fail(server, "mariadbd ended at once");
        }
        (void)nanosleep(&pause, NULL);
    }
    errno = ETIMEDOUT;
    return fail(server, "mariadbd does not answer");
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
        "DELETE FROM mysql.global_priv WHERE user = ''",
        "FLUSH PRIVILEGES",
        "GRANT ALL ON locks.* TO u",
    };
    bool good = mysql != NULL;

    for (size_t i = 0; good && i < sizeof text / sizeof text[0]; i++)
        good = mysql_query(mysql, text[i]) == 0;
    if (!good && mysql != NULL)
        (void)snprintf(server->why, sizeof server->why, "%s", mysql_error(mysql));
    if (mysql != NULL)
        mysql_close(mysql);
    return good;
}

bool dlt_maria_start(struct dlt_maria *server, const char *const *args)
{
    *server = (struct dlt_maria){.pid = 0};
    for (size_t i = 0; args != NULL && args[i] != NULL && i + 1 < DLT_MARIA_ARGS_MAX; i++)
        server->args[i] = args[i];
    if (!data_make(server))
        return false;
    for (int i = 0; i < START_TRIES; i++) {
        place_set(server, port_free());
        if (run_and_wait(server))
            return users_make(server);
    }
    return false;
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
    if (server->pid > 0) {
        (void)kill(server->pid, SIGKILL);
        (void)waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
}

void dlt_maria_pause(struct dlt_maria *server, bool pause)
{
    if (server->pid > 0)
        (void)kill(server->pid, pause ? SIGSTOP : SIGCONT);
    if (server->pid > 0 && pause) /* it goes on until it has stopped */
        (void)waitpid(server->pid, NULL, WUNTRACED);
}

void dlt_maria_stop(struct dlt_maria *server)
{
    char command[128];

    dlt_maria_kill(server);
    if (server->directory[0] == '\0' || server->borrowed)
        return;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", server->directory);
    (void)!system(command);
    server->directory[0] = '\0';
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
    static char answer[4096];
    char text[4096];
    MYSQL *mysql = root(server, "locks");
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    answer[0] = '\0';
    if (mysql == NULL)
        return "no connection";
    if (mysql_query(mysql, text) != 0)
        (void)snprintf(answer, sizeof answer, "%s", mysql_error(mysql));
    else
        row_print(mysql, answer, sizeof answer);
    mysql_close(mysql);
    return answer;
}
