/* SPDX-License-Identifier: MIT */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
static const int passed_on[] = {SIGWINCH, SIGCONT, SIGTSTP};

static void set_add(sigset_t *set, const sigset_t *ignored, const int *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sigismember(ignored, list[i]) == 0)
            (void)sigaddset(set, list[i]);
}

static void ignored_read(sigset_t *ignored)
{
    struct sigaction action;

    (void)sigemptyset(ignored);
    for (int n = 1; n < NSIG; n++)
        if (sigaction(n, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            (void)sigaddset(ignored, n);
}

int signals_start(struct signals *signals)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t blocked;

    ignored_read(&signals->ignored);
    (void)sigemptyset(&signals->waiting);
    set_add(&signals->waiting, &signals->ignored, ending, sizeof ending / sizeof ending[0]);
    (void)sigaddset(&signals->waiting, SIGCHLD);
    signals->running = signals->waiting;
    set_add(&signals->running, &signals->ignored, passed_on,
            sizeof passed_on / sizeof passed_on[0]);

    /* An ignored SIGCHLD would take away the command's exit status. */
    if (sigaction(SIGCHLD, &plain, NULL) != 0)
        return errno;
    blocked = signals->waiting;
    (void)sigaddset(&blocked, SIGTTOU); /* tcsetpgrp from the background */
    (void)sigaddset(&blocked, SIGPIPE);
    (void)sigaddset(&blocked, SIGXFSZ); /* --outcome beyond the limit of a file: EFBIG */
    if (pthread_sigmask(SIG_BLOCK, &blocked, &signals->mask) != 0)
        return EINVAL;
    signals->fd = signalfd(-1, &signals->waiting, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? errno : 0;
}

int signals_run(struct signals *signals)
{
    if (pthread_sigmask(SIG_BLOCK, &signals->running, NULL) != 0)
        return EINVAL;
    return signalfd(signals->fd, &signals->running, 0) < 0 ? errno : 0;
}

int signals_wait(struct signals *signals)
{
    sigset_t passed;

    (void)sigemptyset(&passed);
    set_add(&passed, &signals->ignored, passed_on, sizeof passed_on / sizeof passed_on[0]);
    if (signalfd(signals->fd, &signals->waiting, 0) < 0)
        return errno;
    return pthread_sigmask(SIG_UNBLOCK, &passed, NULL) != 0 ? EINVAL : 0;
}

int signals_next(const struct signals *signals)
{
    struct signalfd_siginfo info;

    if (read(signals->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return 0;
    return (int)info.ssi_signo;
}

void signals_restore(const struct signals *signals)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    for (int n = 1; n < NSIG; n++) {
        action.sa_handler = sigismember(&signals->ignored, n) == 1 ? SIG_IGN : SIG_DFL;
        (void)sigaction(n, &action, NULL);
    }
    (void)sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

/* Signal n, which is pending or about to be, through the mask. */
static void let_through(int n)
{
    sigset_t one;

    (void)sigemptyset(&one);
    (void)sigaddset(&one, n);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &one, NULL);
}

bool signals_stop_self(void)
{
    sigset_t pending;

    (void)kill(0, SIGTSTP);
    let_through(SIGTSTP);
    /* Whoever continued us has sent SIGCONT, which is blocked. */
    (void)sigemptyset(&pending);
    (void)sigpending(&pending);
    return sigismember(&pending, SIGCONT) == 1;
}

void signals_die(int n)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};

    (void)sigaction(n, &plain, NULL);
    (void)raise(n);
    let_through(n);
}
