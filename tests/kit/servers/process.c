/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS   60000
#define POLL_MS    5
#define STARTED    16
#define TAIL_LINES 20
#define ROOM_BYTES (UINT64_C(1) << 30)

/* Below those that clients get from the kernel: one of them might have the port of a server that is
 * stopped for a while. */
#define PORT_FIRST 12000
#define PORT_COUNT 20000
#define PORT_TRIES 20

/* This port if it is free, or else 0. Of 0: any. */
static unsigned port_try(unsigned wanted)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wanted),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
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

unsigned dlt_port_free(void)
{
    unsigned port = 0, random = 0;

    for (int i = 0; i < PORT_TRIES && port == 0; i++)
        if (getrandom(&random, sizeof random, 0) == (ssize_t)sizeof random)
            port = port_try(PORT_FIRST + random % PORT_COUNT);
    return port != 0 ? port : port_try(0);
}

/* Where the environment says (DLT_DIRECTORY); else in memory if there is room, since each commit of
 * a database would wait for what other tests write. */
static const char *parent_choose(void)
{
    static const char memory[] = "/dev/shm";
    const char *told = getenv("DLT_DIRECTORY");
    struct statvfs room;

    if (told != NULL)
        return told;
    if (access(memory, W_OK) == 0 && statvfs(memory, &room) == 0 &&
        (uint64_t)room.f_bavail * room.f_frsize >= ROOM_BYTES)
        return memory;
    return "/tmp";
}

/* What tests left behind that were killed or failed: their pid is in the name. */
static void leftovers_remove(const char *parent, const char *kind)
{
    DIR *dir = opendir(parent);
    const struct dirent *entry = NULL;
    char prefix[32], path[DLT_DIRECTORY_SIZE];

    (void)snprintf(prefix, sizeof prefix, "dlock-%s-", kind);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char *end = NULL;
        long pid = strncmp(entry->d_name, prefix, strlen(prefix)) == 0
                       ? strtol(entry->d_name + strlen(prefix), &end, 10)
                       : 0;

        if (pid <= 1 || *end != '-' || strlen(end) != sizeof "-XXXXXX" - 1 ||
            kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s%ld%.7s", parent, prefix, pid, end);
        dlt_directory_remove(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

bool dlt_directory_make(char directory[DLT_DIRECTORY_SIZE], const char *kind)
{
    const char *parent = parent_choose();

    leftovers_remove(parent, kind);
    (void)snprintf(directory, DLT_DIRECTORY_SIZE, "%s/dlock-%s-%d-XXXXXX", parent, kind,
                   (int)getpid());
    if (mkdtemp(directory) != NULL)
        return true;
    directory[0] = '\0';
    return false;
}

void dlt_directory_remove(char directory[DLT_DIRECTORY_SIZE])
{
    char command[DLT_DIRECTORY_SIZE + 16];

    if (directory[0] == '\0')
        return;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
    (void)!system(command);
    directory[0] = '\0';
}

const char *dlt_path(void)
{
    const char *path = getenv("DLT_PATH");

    return path != NULL ? path : "/locks";
}

void dlt_args_add(const char **args, size_t room, const char *const *more)
{
    size_t count = 0;

    while (args[count] != NULL)
        count++;
    for (; more != NULL && *more != NULL; more++) {
        if (count + 1 >= room)
            abort();
        args[count++] = *more;
    }
    args[count] = NULL;
}

bool dlt_certificates_make(const char *directory)
{
    return dlt_process_run(directory, (const char *[]){DLT_CERTIFICATES, directory, NULL});
}

/* In the child. A change of the user clears the death signal. */
static void user_set(const char *directory, const struct dlt_user *user)
{
    if (chdir(directory) != 0 || setgroups(0, NULL) != 0 || setgid(user->gid) != 0 ||
        setuid(user->uid) != 0)
        _exit(126);
}

static void child_prepare(const char *directory, const char *preload, const struct dlt_user *user)
{
    char log[DLT_DIRECTORY_SIZE + 16];
    sigset_t none;
    int fd = -1;

    (void)snprintf(log, sizeof log, "%s/log", directory);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(open("/dev/null", O_RDONLY), 0);
    (void)dup2(fd, 1);
    (void)dup2(fd, 2);
    (void)unsetenv("LD_PRELOAD");
    if (preload != NULL)
        (void)setenv("LD_PRELOAD", preload, 1);
    if (user != NULL)
        user_set(directory, user);
}

const struct dlt_user *dlt_process_user(const char *name)
{
    static _Thread_local struct dlt_user user;
    const struct passwd *entry = NULL;

    if (geteuid() != 0)
        return NULL;
    entry = getpwnam(name);
    if (entry == NULL)
        entry = getpwnam("nobody");
    if (entry == NULL)
        return NULL;
    user = (struct dlt_user){entry->pw_uid, entry->pw_gid};
    return &user;
}

/* The last ones, some of them more than once. */
static char started[STARTED][DLT_DIRECTORY_SIZE];
static _Atomic unsigned start_count;

void dlt_process_logs_add(const char *directory)
{
    (void)snprintf(started[start_count++ % STARTED], DLT_DIRECTORY_SIZE, "%s", directory);
}

pid_t dlt_process_spawn_as(const char *directory, const char *const *argv, const char *preload,
                           const struct dlt_user *user)
{
    pid_t parent = getpid(), pid = fork();

    dlt_process_logs_add(directory);
    if (pid == 0) {
        child_prepare(directory, preload, user);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            (void)execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid;
}

bool dlt_process_run_as(const char *directory, const char *const *argv, const struct dlt_user *user)
{
    int status = 0;
    pid_t pid = dlt_process_spawn_as(directory, argv, NULL, user);

    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    errno = ECHILD;
    return status == 0;
}

pid_t dlt_process_spawn(const char *directory, const char *const *argv, const char *preload)
{
    return dlt_process_spawn_as(directory, argv, preload, NULL);
}

bool dlt_process_run(const char *directory, const char *const *argv)
{
    return dlt_process_run_as(directory, argv, NULL);
}

void dlt_process_kill(pid_t *pid)
{
    if (*pid > 0) {
        (void)kill(*pid, SIGKILL);
        (void)waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

void dlt_process_end(pid_t *pid)
{
    if (*pid > 0)
        (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}

void dlt_process_pause(pid_t pid, bool pause)
{
    if (pid <= 0)
        return;
    (void)kill(pid, pause ? SIGSTOP : SIGCONT);
    if (pause) /* it goes on until it has stopped */
        (void)waitpid(pid, NULL, WUNTRACED);
}

bool dlt_process_wait(pid_t *pid, bool (*answers)(void *arg), void *arg)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000};

    for (int ms = 0; ms < START_MS; ms += POLL_MS) {
        if (answers(arg))
            return true;
        if (waitpid(*pid, NULL, WNOHANG) == *pid) {
            *pid = 0;
            errno = ECHILD;
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
    errno = ETIMEDOUT;
    return false;
}

static void log_show(const char *directory)
{
    char path[DLT_DIRECTORY_SIZE + 16], lines[TAIL_LINES][256];
    unsigned count = 0;
    FILE *log = NULL;

    (void)snprintf(path, sizeof path, "%s/log", directory);
    log = fopen(path, "re");
    if (log == NULL)
        return;
    while (fgets(lines[count % TAIL_LINES], sizeof lines[0], log) != NULL)
        count++;
    (void)fclose(log);
    (void)fprintf(stderr, "# the end of %s:\n", path);
    for (unsigned i = count > TAIL_LINES ? count - TAIL_LINES : 0; i < count; i++)
        (void)fprintf(stderr, "#   %.*s\n", (int)strcspn(lines[i % TAIL_LINES], "\n"),
                      lines[i % TAIL_LINES]);
}

void dlt_process_logs_show(void)
{
    for (unsigned i = 0; i < STARTED; i++) {
        bool again = false;

        for (unsigned j = 0; j < i; j++)
            again = again || strcmp(started[i], started[j]) == 0;
        if (!again && started[i][0] != '\0')
            log_show(started[i]);
    }
}

void dlt_process_why(char *why, size_t size, const char *directory, const char *what)
{
    int number = errno;
    char path[DLT_DIRECTORY_SIZE + 16], tail[512];
    FILE *log = NULL;
    size_t got = 0;

    (void)snprintf(path, sizeof path, "%s/log", directory);
    log = fopen(path, "r");
    if (log != NULL && fseek(log, -(long)sizeof tail + 1, SEEK_END) != 0)
        rewind(log);
    if (log != NULL) {
        got = fread(tail, 1, sizeof tail - 1, log);
        (void)fclose(log);
    }
    tail[got] = '\0';
    (void)snprintf(why, size, "%s: %s; the end of its log: %s", what, strerror(number), tail);
}
