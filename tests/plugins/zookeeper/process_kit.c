/* SPDX-License-Identifier: MIT */
#include "process_kit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FDS_MOST   1024
#define CHILD_S    5
#define SOCKET_MS  300
#define HANGS_MOST 30000

/* A session that the servers end costs the client library 24 bytes. Nothing is to be said of it on
 * standard error. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:zookeeper_process\n";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}

int64_t process_now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

void rest_ms(int64_t ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        continue;
}

static void ours_note(void);

/* ---- a child whose standard error is looked at ---- */

/* A sanitizer's report is shown, too. */
static bool is_empty(int fd)
{
    char text[4096];
    ssize_t got = 0, all = 0;

    (void)lseek(fd, 0, SEEK_SET);
    while ((got = read(fd, text, sizeof text)) > 0) {
        (void)!write(STDERR_FILENO, text, (size_t)got);
        all += got;
    }
    return got == 0 && all == 0;
}

bool process_run_silently(void (*fn)(void *arg), void *arg)
{
    int *counts =
        mmap(NULL, 2 * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = memfd_create("stderr", MFD_CLOEXEC), status = -1;
    pid_t pid = 0;

    if (counts == MAP_FAILED || fd < 0)
        abort();
    pid = fork();
    if (pid == 0) {
        (void)dup2(fd, STDERR_FILENO);
        (void)close(fd);
        ours_note();
        fn(arg);
        counts[0] = dlt_tap_count;
        counts[1] = dlt_tap_failed;
        exit(0); /* sanitizers look for leaks */
    }
    if (waitpid(pid, &status, 0) != pid)
        abort();
    dlt_tap_count = counts[0];
    dlt_tap_failed = counts[1];
    return is_empty(fd) & (status == 0);
}

/* ---- descriptors, threads, signals ---- */

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

struct process_usage process_usage_now(void)
{
    return (struct process_usage){.descriptors = entries("/proc/self/fd"),
                                  .threads = entries("/proc/self/task")};
}

static bool ours[FDS_MOST]; /* descriptors that somebody gave to this process */

static void ours_note(void)
{
    for (int fd = 0; fd < FDS_MOST; fd++)
        ours[fd] = fcntl(fd, F_GETFD) >= 0;
}

bool process_inherits_nothing(void)
{
    bool good = true;

    for (int fd = 3; fd < FDS_MOST; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (ours[fd] || flags < 0 || (flags & FD_CLOEXEC) != 0)
            continue;
        printf("# descriptor %d has no close-on-exec\n", fd);
        good = false;
    }
    return good;
}

bool process_exec_is_alone(void)
{
    static const char script[] =
        "for f in /proc/$$/fd/*; do case ${f##*/} in [012]) continue;; esac; "
        "case $(readlink \"$f\") in socket:*|anon_inode:*) exit 1;; esac; done";
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* The signals that a thread of this process has blocked, bit 0 for signal 1. */
static uint64_t blocked_by(const char *thread)
{
    char path[64], line[128];
    uint64_t blocked = UINT64_MAX;
    FILE *file = NULL;

    (void)snprintf(path, sizeof path, "/proc/self/task/%.16s/status", thread);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "SigBlk:", 7) == 0)
            blocked = strtoull(line + 7, NULL, 16);
    if (file != NULL)
        (void)fclose(file);
    return blocked;
}

bool process_signals_are_ours(void)
{
    static const int signals[] = {SIGHUP,  SIGINT,  SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE};
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry = NULL;
    bool good = dir != NULL;

    while (good && (entry = readdir(dir)) != NULL) {
        uint64_t blocked = 0;

        if (entry->d_name[0] == '.' || strtol(entry->d_name, NULL, 10) == getpid())
            continue;
        blocked = blocked_by(entry->d_name);
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            good &= (blocked >> (signals[i] - 1) & 1) != 0;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return good;
}

bool process_child_closes(struct dlock_client *client, struct dlock_handle *lock)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)alarm(CHILD_S);
        dlock_free(lock);
        dlock_client_close(client);
        _exit(0);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- functions of the system ---- */

static _Atomic bool hanging;

void process_names_hang(bool hang)
{
    hanging = hang;
}

__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *req,
                                                       struct addrinfo **pai)
{
    __typeof__(getaddrinfo) *real = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (name == NULL || strcmp(name, "slow") != 0)
        return real(name, service, req, pai);
    if (req != NULL && (req->ai_flags & AI_NUMERICHOST) != 0)
        return EAI_NONAME;
    for (int ms = 0; ms < HANGS_MOST && hanging; ms += 10)
        rest_ms(10);
    return EAI_AGAIN;
}

static _Atomic bool slowed;
static _Atomic int connecting = -1;   /* the socket, while its maker waits */
static _Atomic int inherited, forked; /* children that saw one, and all */
static pthread_t forker;

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
    __typeof__(socket) *real = NULL;
    int fd = -1;

    *(void **)&real = dlsym(RTLD_NEXT, "socket");
    fd = real(domain, type, protocol);
    if (slowed && fd >= 0) {
        connecting = fd;
        rest_ms(SOCKET_MS);
        connecting = -1;
    }
    return fd;
}

/* A program that starts in the child of now: would it have the socket? */
static void child_look(int fd)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fcntl(fd, F_GETFD) >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0);
    (void)waitpid(pid, &status, 0);
    inherited += status != 0;
    forked++;
}

static void *fork_meanwhile(void *arg)
{
    (void)arg;
    while (slowed) {
        int fd = connecting;

        if (fd >= 0)
            child_look(fd);
        rest_ms(1);
    }
    return NULL;
}

bool process_sockets_slow(bool slow)
{
    slowed = slow;
    if (slow && pthread_create(&forker, NULL, fork_meanwhile, NULL) != 0)
        abort();
    if (slow)
        return true;
    (void)pthread_join(forker, NULL);
    printf("# %d of %d children saw a socket\n", (int)inherited, (int)forked);
    return forked > 0 && inherited == 0;
}

/* ---- no ZooKeeper ---- */

static int babbler = -1;

static void *babble(void *arg)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

    (void)arg;
    for (;;) {
        int fd = accept4(babbler, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
            return NULL;
        (void)send(fd, text, sizeof text - 1, MSG_NOSIGNAL);
        rest_ms(20);
        (void)close(fd);
    }
}

const char *process_babbler(void)
{
    static char address[32];
    struct sockaddr_in bound = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof bound;
    sigset_t all, before;
    pthread_t thread;

    babbler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(babbler, (struct sockaddr *)&bound, size) != 0 || listen(babbler, 4) != 0 ||
        getsockname(babbler, (struct sockaddr *)&bound, &size) != 0)
        abort();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(&thread, NULL, babble, NULL) != 0)
        abort();
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_detach(thread);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)ntohs(bound.sin_port));
    return address;
}
