/* SPDX-License-Identifier: MIT */
#include "contain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAP_SIZE 48

/* What the maker of the namespace says to this process. */
struct made {
    pid_t init, command;
    int error;
};

struct maps {
    char users[MAP_SIZE], groups[MAP_SIZE];
};

/* All processes that are made here have copies of this process' threads' memory: nothing but
 * async-signal-safe calls in them. CLONE_PARENT: the child is one of the caller's parent. */
static pid_t fork_for_parent(void)
{
    const unsigned long flags = CLONE_PARENT | SIGCHLD;

#if defined(__s390__)
    return (pid_t)syscall(SYS_clone, NULL, flags, NULL, NULL, NULL);
#else
    return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
#endif
}

static bool file_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int error = errno;

    if (fd >= 0)
        (void)close(fd);
    errno = error;
    return done;
}

static bool namespaces_make(const struct maps *maps)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) == 0)
        return true;
    return errno == EPERM && unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) == 0 &&
           file_write("/proc/self/uid_map", maps->users) &&
           (file_write("/proc/self/setgroups", "deny") || errno == ENOENT) &&
           file_write("/proc/self/gid_map", maps->groups);
}

static void maps_fill(struct maps *maps)
{
    (void)snprintf(maps->users, sizeof maps->users, "%u %u 1", geteuid(), geteuid());
    (void)snprintf(maps->groups, sizeof maps->groups, "%u %u 1", getegid(), getegid());
}

/* All but fd and the next one. */
static void descriptors_close(int fd, int next)
{
    struct rlimit limit = {.rlim_cur = 1024};

    for (int n = 0; n < 3; n++)
        if (n != fd && n != next)
            (void)close(n);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned n = 3; n < limit.rlim_cur && n < 1u << 20; n++) {
        if (n == (unsigned)fd || n == (unsigned)next)
            continue;
#ifdef SYS_close_range
        if (n > (unsigned)fd && n > (unsigned)next && syscall(SYS_close_range, n, UINT_MAX, 0) == 0)
            return;
#endif
        (void)close((int)n);
    }
}

/* The first process of the namespace. A container may forbid a new /proc: then the old one stays,
 * with the numbers of the namespace outside. */
static void init_run(int alive_fd, int ready_fd)
{
    struct pollfd alive = {.fd = alive_fd};
    sigset_t all;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)signal(SIGCHLD, SIG_IGN); /* the kernel reaps */
    descriptors_close(alive_fd, ready_fd);
    (void)prctl(PR_SET_NAME, "dlock-init");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(1);
    if (poll(&alive, 1, 0) != 0) /* the process that reads has died before prctl */
        _exit(1);
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
        (void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (write(ready_fd, "", 1) != 1)
        _exit(1);
    (void)close(alive_fd);
    (void)close(ready_fd);
    for (;;)
        (void)pause();
}

/* 0 or an errno. */
static int init_start(pid_t *init, int alive_fd)
{
    int ready[2];
    char byte;
    ssize_t n;

    if (pipe2(ready, O_CLOEXEC) != 0)
        return errno;
    *init = fork_for_parent();
    if (*init == 0)
        init_run(alive_fd, ready[1]);
    if (*init < 0)
        return errno;
    (void)close(ready[1]);
    do
        n = read(ready[0], &byte, 1);
    while (n < 0 && errno == EINTR);
    (void)close(ready[0]);
    return n == 1 ? 0 : ECHILD;
}

/* The process that makes the namespace, and is not in it. Returns in the command. */
static void maker_run(const struct maps *maps, const int fds[2], int made_fd)
{
    struct made made = {.init = -1, .command = -1};

    (void)close(fds[0]);
    if (!namespaces_make(maps))
        made.error = errno;
    if (made.error == 0)
        made.error = init_start(&made.init, fds[1]);
    if (made.error == 0) {
        made.command = fork_for_parent();
        if (made.command == 0) {
            (void)close(made_fd);
            return;
        }
        made.error = made.command < 0 ? errno : 0;
    }
    _exit(write(made_fd, &made, sizeof made) == (ssize_t)sizeof made ? 0 : 1);
}

static void reap(pid_t pid)
{
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int contain_fork(pid_t *command, pid_t *init, const int fds[2])
{
    struct made made = {.init = -1, .command = -1, .error = ECHILD};
    struct maps maps;
    int from_maker[2];
    pid_t maker;

    maps_fill(&maps);
    if (pipe2(from_maker, O_CLOEXEC) != 0)
        return errno;
    maker = fork();
    if (maker == 0) {
        maker_run(&maps, fds, from_maker[1]);
        *command = 0;
        return 0;
    }
    if (maker < 0)
        made.error = errno;
    (void)close(from_maker[1]);
    reap(maker);
    if (maker > 0 && read(from_maker[0], &made, sizeof made) != (ssize_t)sizeof made)
        made.error = ECHILD;
    (void)close(from_maker[0]);
    *command = made.command;
    *init = made.init;
    if (made.error != 0 && made.init > 0) {
        contain_kill(made.init);
        reap(made.init);
    }
    return made.error;
}

int contain_check(void)
{
    pid_t command = -1, init = -1;
    int fds[2];
    int error;

    if (pipe2(fds, O_CLOEXEC) != 0)
        return errno;
    error = contain_fork(&command, &init, fds);
    if (command == 0)
        _exit(0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    if (error != 0)
        return error;
    contain_kill(init);
    reap(command);
    reap(init);
    return 0;
}

void contain_kill(pid_t init)
{
    (void)kill(init, SIGKILL);
}
