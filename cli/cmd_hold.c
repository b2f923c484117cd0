/* SPDX-License-Identifier: MIT */
/* dlock hold: holds and renews a lock until standard input is closed. */
#include "exitcode.h"
#include "grant.h"
#include "lock_options.h"
#include "loss.h"
#include "output.h"
#include "refusal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
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
    struct dlock_notice notice = {.struct_size = sizeof notice, .reason = DLOCK_REASON_EXPIRED};

    while (dlock_client_next(acquire->client, &notice, NULL) == 1)
        continue;
    cli_output_fail(acquire->cli, "%s: lock lost: %s",
                    cli_output_printable(acquire->name->bytes, acquire->name->len),
                    loss_text(notice.reason));
    return CLI_EXIT_LOST;
}

/* Sleeps until something may have happened: at the latest at the end of the lease. */
static int hold_sleep(const struct acquire *acquire, struct pollfd fds[3])
{
    int64_t left_ms = dlock_remaining_ms(acquire->held.lock) + 1;
    int n = poll(fds, 3, left_ms < INT_MAX ? (int)left_ms : INT_MAX);

    return n < 0 && errno != EINTR ? errno : 0;
}

/* The exit code: 0 when standard input is closed. */
static int hold_watch(const struct acquire *acquire, const struct signals *signals)
{
    struct pollfd fds[3] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
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
        while ((n = signals_next(signals)) != 0)
            if (n != SIGCHLD)
                return CLI_EXIT_SIGNAL + n;
        if (fds[0].revents != 0 && !input_is_open())
            return CLI_EXIT_OK;
    }
}

/* Unlocks. The answer of the store may change the exit code. */
static int hold_release(const struct acquire *acquire, int exit_code)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
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
    int exit_code = grant_print(acquire);

    if (exit_code == CLI_EXIT_OK) {
        atomic_store(&acquire->cli->holds, true);
        exit_code = hold_watch(acquire, signals);
    }
    return hold_release(acquire, exit_code);
}

int cli_hold(struct cli *cli, int argc, char **argv)
{
    struct cli_name name = {0};
    struct acquire acquire;
    int exit_code;

    lock_options_init(&acquire, cli);
    exit_code = lock_options_read(&acquire, argc, argv, &name);
    return exit_code >= 0 ? exit_code : refusal_or_use(&acquire, hold_all);
}
