/* SPDX-License-Identifier: MIT */
#include "child.h"

#include "exitcode.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct start_failure {
    int error;
    int in_exec;
};

static void child_give_up(int fd, int error, int in_exec)
{
    struct start_failure failure = {.error = error, .in_exec = in_exec};

    if (write(fd, &failure, sizeof failure) < 0)
        _exit(CLI_EXIT_NOT_EXECUTABLE);
    _exit(CLI_EXIT_NOT_FOUND);
}

/* The parent has threads: nothing but async-signal-safe calls here (glibc's execvpe is one, it
 * allocates nothing). */
static void child_become(const struct child_plan *plan, pid_t parent, int fd)
{
    if (setpgid(0, 0) != 0)
        child_give_up(fd, errno, 0);
    if (plan->die_with_us) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            child_give_up(fd, errno, 0);
        if (getppid() != parent) /* it died before prctl */
            _exit(CLI_EXIT_NOT_FOUND);
    }
    if (plan->tty->eager)
        tty_lend(plan->tty, getpid());
    signals_restore(plan->signals);
    (void)execvpe(plan->argv[0], plan->argv, plan->env);
    child_give_up(fd, errno, 1);
}

/* fork. The child writes a struct start_failure, or closes fds[1] by exec. */
static int child_fork(struct child *child, const struct child_plan *plan, int fds[2])
{
    pid_t parent = getpid();
    int error;

    if (pipe2(fds, O_CLOEXEC) != 0)
        return errno;
    child->pid = fork();
    error = child->pid < 0 ? errno : 0;
    if (child->pid == 0)
        child_become(plan, parent, fds[1]);
    if (error == 0)
        return 0;
    (void)close(fds[0]);
    (void)close(fds[1]);
    return error;
}

int child_start(struct child *child, const struct child_plan *plan, bool *in_exec)
{
    struct start_failure failure = {0};
    int fds[2];
    ssize_t n;

    *in_exec = false;
    *child = (struct child){0};
    failure.error = descendants_init(&child->descendants);
    if (failure.error == 0)
        failure.error = child_fork(child, plan, fds);
    if (failure.error != 0) {
        descendants_fini(&child->descendants);
        return failure.error;
    }
    child->descendants.kept = child->pid;
    (void)close(fds[1]);
    do
        n = read(fds[0], &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    (void)close(fds[0]);
    if (n != (ssize_t)sizeof failure)
        return 0; /* exec closed the pipe */
    child_reap(child);
    tty_take_back(plan->tty, child->pid, false);
    *in_exec = failure.in_exec != 0;
    return failure.error;
}

void child_poll(struct child *child)
{
    siginfo_t info = {0};

    descendants_reap(child->pid);
    if (waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
        info.si_pid != 0)
        child->stopped = info.si_code == CLD_STOPPED ? info.si_status : 0;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        /* Another part of this process has reaped it: how it ended is not known. */
        child->ended = true;
        child->code = CLI_EXIT_INTERNAL;
        return;
    }
    if (info.si_pid == 0)
        return;
    child->ended = true;
    child->stopped = 0;
    child->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    child->code = child->signal == 0 ? info.si_status : CLI_EXIT_SIGNAL + child->signal;
}

void child_signal(const struct child *child, int n)
{
    (void)kill(-child->pid, n);
}

void child_reap(struct child *child)
{
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    descendants_fini(&child->descendants);
}

const char *child_shell_hint(char *const *argv)
{
    if (argv[1] != NULL || strpbrk(argv[0], " \t\n;|&<>$`*") == NULL)
        return "";
    return "; a command line needs a shell: sh -c '...'";
}
