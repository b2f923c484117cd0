/* SPDX-License-Identifier: MIT */
/* dlock hold: holds and renews a lock until its standard input is closed, or a signal comes, or its
 * parent ends. */
#include "acquire.h"
#include "child.h"
#include "exitcode.h"
#include "lock_options.h"
#include "output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is written to standard input means nothing. False: its end, or it cannot be read. */
static bool input_is_open(void)
{
    char bytes[4096];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);

    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static int loss_report(const struct acquire *acquire)
{
    enum dlock_reason reason = DLOCK_REASON_EXPIRED;
    struct dlock_notice notice = DLOCK_NOTICE_INIT;

    while (dlock_client_next(acquire->client, &notice, NULL) == DLOCK_OK &&
           notice.kind != DLOCK_NOTICE_NONE)
        reason = notice.reason;
    cli_output_fail(acquire->cli, "%s: lock lost: %s",
                    cli_output_printable(acquire->name->bytes, acquire->name->len),
                    cli_output_loss(reason));
    return CLI_EXIT_LOST;
}

/* Sleeps until something may have happened: at the latest at the end of the lease. */
static int hold_sleep(const struct acquire *acquire, struct pollfd fds[3])
{
    int64_t left_ms = dlock_remaining_ms(acquire->held.lock) + 1;
    int n = poll(fds, 3, left_ms < INT_MAX ? (int)left_ms : INT_MAX);

    return n < 0 && errno != EINTR ? errno : 0;
}

/* A word of --until. */
static bool ends_by(const char *until, const char *word)
{
    return strcmp(until, word) == 0;
}

/* -1: go on; else the exit code. A terminal stops a program that reads from it in the background,
 * and /dev/null, a file or nothing have no end that the caller could choose. */
static int input_check(const struct cli *cli)
{
    pid_t foreground = isatty(STDIN_FILENO) == 1 ? tcgetpgrp(STDIN_FILENO) : 0;
    struct stat st;

    if (isatty(STDIN_FILENO) == 1 && (foreground < 0 || foreground == getpgrp()))
        return -1;
    if (foreground == 0 && fstat(STDIN_FILENO, &st) == 0 &&
        (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        return -1;
    return cli_args_usage(cli, "hold: standard input is no pipe, socket or terminal in the "
                               "foreground, which could be closed; --until parent or --until "
                               "signal holds without it");
}

/* -1: go on; else the exit code. parent: read when the process began. */
static int parent_open(struct acquire *acquire, pid_t parent)
{
    acquire->parent = (int)syscall(SYS_pidfd_open, parent, 0);
    if (acquire->parent >= 0 && getppid() == parent)
        return -1;
    if (acquire->parent < 0 && errno != ESRCH) {
        cli_output_fail(acquire->cli, "--until=parent: %s", strerror(errno));
        return CLI_EXIT_INTERNAL;
    }
    cli_output_fail(acquire->cli, "--until=parent: the parent has ended");
    return CLI_EXIT_SIGNAL + SIGTERM;
}

/* -1: go on; else the exit code. */
static int until_check(struct acquire *acquire, const char *until, pid_t parent)
{
    if (ends_by(until, "input"))
        return input_check(acquire->cli);
    if (ends_by(until, "parent"))
        return parent_open(acquire, parent);
    if (ends_by(until, "signal"))
        return -1;
    return cli_args_usage(acquire->cli, "--until=%s is not one of input|signal|parent",
                          cli_output_printable(until, strlen(until)));
}

static int signal_exit(const struct acquire *acquire, int n)
{
    bool is_end = !acquire->until_input && (n == SIGTERM || n == SIGINT);

    return is_end ? CLI_EXIT_OK : CLI_EXIT_SIGNAL + n;
}

/* The exit code: 0 at the end that was asked for. */
static int hold_watch(const struct acquire *acquire, const struct signals *signals)
{
    struct pollfd fds[3] = {
        {.fd = acquire->until_input ? STDIN_FILENO : acquire->parent, .events = POLLIN},
        {.fd = signals->fd, .events = POLLIN},
        {.fd = dlock_client_fd(acquire->client), .events = POLLIN},
    };

    for (;;) {
        int n;
        int error = hold_sleep(acquire, fds);

        if (error != 0) {
            cli_output_fail(acquire->cli, "poll: %s", strerror(error));
            return CLI_EXIT_INTERNAL;
        }
        if (dlock_state(acquire->held.lock) == DLOCK_STATE_LOST)
            return loss_report(acquire);
        descendants_reap(0);
        while ((n = signals_next(signals)) != 0)
            if (n != SIGCHLD)
                return signal_exit(acquire, n);
        if (fds[0].revents != 0 && !(acquire->until_input && input_is_open()))
            return CLI_EXIT_OK;
    }
}

/* Unlocks. The answer of the store may change the exit code. */
static int hold_release(const struct acquire *acquire, int exit_code)
{
    struct dlock_error err = CLI_ERROR_INIT;
    enum dlock_status status = dlock_unlock(acquire->held.lock, &err);

    if (status == DLOCK_OK || exit_code == CLI_EXIT_LOST)
        return exit_code;
    err.status = status;
    if (status == DLOCK_LOST)
        return cli_output_fail_status(
            acquire->cli, cli_output_printable(acquire->name->bytes, acquire->name->len), &err);
    (void)cli_output_fail_status(acquire->cli, "unlock failed (the lock ends with its lease)",
                                 &err);
    return exit_code;
}

static int hold_all(struct acquire *acquire, const struct signals *signals)
{
    int exit_code = acquire_print(acquire);

    if (exit_code == CLI_EXIT_OK) {
        atomic_store(&acquire->cli->holds, true);
        exit_code = hold_watch(acquire, signals);
    }
    return hold_release(acquire, exit_code);
}

int cli_hold(struct cli *cli, int argc, char **argv)
{
    const char *until = "input";
    struct cli_name name = {0};
    pid_t parent = getppid();
    struct acquire acquire;
    int exit_code;

    lock_options_init(&acquire, cli);
    exit_code = lock_options_read(&acquire, &until, argc, argv, &name);
    if (exit_code < 0)
        exit_code = until_check(&acquire, until, parent);
    acquire.until_input = ends_by(until, "input");
    if (exit_code < 0)
        exit_code = refusal_or_use(&acquire, hold_all);
    if (acquire.parent >= 0)
        (void)close(acquire.parent);
    return exit_code;
}
