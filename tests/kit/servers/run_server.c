/* SPDX-License-Identifier: MIT */
#include "run_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_SIZE 4096
#define END_MS    30000

static void path_print(char path[PATH_SIZE], const struct dlt_kind *kind, pid_t run)
{
    (void)snprintf(path, PATH_SIZE, DLT_RUN_DIRECTORY "/%s.%d", kind->name, (int)run);
}

/* What runs left behind that were killed: the pid of ctest is in the name. */
static void leftovers_remove(void)
{
    DIR *dir = opendir(DLT_RUN_DIRECTORY);
    const struct dirent *entry = NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        pid_t run = end != NULL ? (pid_t)strtol(end + 1, NULL, 10) : 0;

        if (run > 0 && kill(run, 0) != 0 && errno == ESRCH)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

/* ---- the keeper: a process beside ctest ---- */

/* Until the run has ended, or somebody asks for the end, or the server is no more. */
static void keep(int run, int signals)
{
    struct pollfd polled[] = {{.fd = run, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info = {.ssi_signo = 0};

    for (;;) {
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return;
        if (polled[0].revents != 0)
            return;
        if (polled[1].revents == 0 || read(signals, &info, sizeof info) != sizeof info)
            continue;
        if (info.ssi_signo != SIGCHLD || waitpid(-1, NULL, WNOHANG) != 0)
            return;
    }
}

static int signals_open(void)
{
    sigset_t set;
    int fd = -1;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    fd = signalfd(-1, &set, SFD_CLOEXEC);
    (void)sigaddset(&set, SIGPIPE); /* whoever asked for the server may have been killed */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return fd;
}

/* ctest waits until nobody has the output of a test. */
static void outputs_leave(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd < 3; fd++)
        (void)dup2(null, fd);
    (void)close(null);
}

/* Never returns. Writes to `told` why it cannot, or "good". */
static void keeper(const struct dlt_kind *kind, const char *path, int run, int told,
                   void (*print)(FILE *file, const struct dlt_server *server))
{
    static struct dlt_server server;
    static const char *none[] = {NULL};
    FILE *file = fopen(path, "we");
    int signals = signals_open();

    (void)setsid();
    outputs_leave();
    if (file == NULL || flock(fileno(file), LOCK_EX | LOCK_NB) != 0) {
        (void)dprintf(told, "%s: %s", path, strerror(errno));
        _exit(1);
    }
    if (kind->start(&server, false, none)) {
        print(file, &server);
        (void)fprintf(file, "DLT_RUN_KEEPER=%d\n", (int)getpid());
        (void)fflush(file);
        (void)dprintf(told, "good");
        (void)close(told);
        keep(run, signals);
    } else {
        (void)dprintf(told, "%s", server.why);
    }
    (void)unlink(path);
    kind->stop(&server);
    _exit(0);
}

static int verdict(bool good, const char *what, const char *kind, const char *why)
{
    (void)printf("1..1\n%s 1 - the run %s a server: %s\n", good ? "ok" : "not ok", what, kind);
    if (!good)
        (void)printf("# %s\n", why);
    return good ? 0 : 1;
}

int dlt_run_begin(const struct dlt_kind *kind,
                  void (*print)(FILE *file, const struct dlt_server *server))
{
    char path[PATH_SIZE], why[1024];
    pid_t run = getppid();
    int ended = (int)syscall(SYS_pidfd_open, run, 0), told[2];
    size_t used = 0;
    ssize_t got = 0;

    (void)mkdir(DLT_RUN_DIRECTORY, 0700); /* it may be there */
    leftovers_remove();
    path_print(path, kind, run);
    if (ended < 0 || getppid() != run || pipe2(told, O_CLOEXEC) != 0)
        return verdict(false, "begins", kind->name, strerror(errno));
    if (fork() == 0) {
        (void)close(told[0]);
        keeper(kind, path, ended, told[1], print);
    }
    (void)close(told[1]);
    while ((got = read(told[0], why + used, sizeof why - 1 - used)) > 0)
        used += (size_t)got;
    why[used] = '\0';
    return verdict(strcmp(why, "good") == 0, "begins", kind->name, why);
}

/* ---- those who use it ---- */

static pid_t parent_of(pid_t pid)
{
    char path[32], text[256] = "";
    const char *end = NULL; /* of the name, which may hold anything */
    int parent = 0;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    end = strrchr(text, ')');
    return end != NULL && sscanf(end + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

/* Does the keeper of this file live? */
static bool is_kept(FILE *file)
{
    return flock(fileno(file), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static FILE *file_of(const struct dlt_kind *kind, pid_t run)
{
    char path[PATH_SIZE];
    FILE *file = NULL;

    path_print(path, kind, run);
    file = fopen(path, "re");
    if (file == NULL || is_kept(file))
        return file;
    (void)fclose(file);
    return NULL;
}

FILE *dlt_run_open(const struct dlt_kind *kind)
{
    FILE *file = NULL;

    for (pid_t run = getppid(); run > 1 && file == NULL; run = parent_of(run))
        file = file_of(kind, run);
    return file;
}

bool dlt_run_wanted(const struct dlt_kind *kind)
{
    const char *wanted = getenv("DLT_RUN_SERVER");

    return kind->name_make != NULL && wanted != NULL && strcmp(wanted, kind->name) == 0;
}

int dlt_run_end(const struct dlt_kind *kind)
{
    FILE *file = file_of(kind, getppid());
    char line[PATH_SIZE];
    int keeper = 0, ms = 0;

    while (file != NULL && keeper == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "DLT_RUN_KEEPER=%d", &keeper) != 1)
            keeper = 0;
    if (keeper <= 0)
        return verdict(false, "ends", kind->name, "a test has ended it");
    (void)kill(keeper, SIGTERM);
    while (is_kept(file) && ms++ < END_MS)
        (void)usleep(1000);
    return verdict(ms < END_MS, "ends", kind->name, "it does not end");
}
