/* SPDX-License-Identifier: MIT */
#include "release.h"

#include "exitcode.h"
#include "output.h"
#include "supervise.h"

#include <poll.h>
#include <stdio.h>

#define PAUSE_FIRST_MS 50
#define PAUSE_MOST_MS  1000

#define WHAT_SIZE (CLI_PRINTABLE_SIZE + 128)

/* The unlocks of a run. */
struct unlocking {
    int64_t until_ms; /* the end of the lease */
    unsigned repeated;
    bool doubt; /* one may have been executed without an answer */
    enum dlock_status status;
    struct dlock_error err;
};

/* Before the n'th repetition, from 0 on. */
static int64_t pause_before_ms(unsigned n)
{
    int64_t pause_ms = PAUSE_FIRST_MS;

    while (n-- > 0 && pause_ms < PAUSE_MOST_MS)
        pause_ms *= 2;
    return pause_ms < PAUSE_MOST_MS ? pause_ms : PAUSE_MOST_MS;
}

static void unlock(const struct release *release, struct unlocking *unlocking)
{
    unlocking->err = (struct dlock_error)DLOCK_ERROR_INIT;
    unlocking->status = held_unlock(release->held, &unlocking->err);
    unlocking->err.status = unlocking->status;
    unlocking->doubt |= unlocking->status == DLOCK_UNKNOWN || unlocking->status == DLOCK_PROTOCOL ||
                        unlocking->status == DLOCK_INTERNAL;
}

/* False: a signal has ended it. */
static bool pause_make(const struct release *release, int64_t pause_ms)
{
    struct pollfd fd = {.fd = release->signals->fd, .events = POLLIN};
    int64_t end_ms = supervise_now_ms() + pause_ms;
    int n;

    for (int64_t left_ms = pause_ms; left_ms > 0; left_ms = end_ms - supervise_now_ms()) {
        (void)poll(&fd, 1, (int)left_ms);
        while ((n = signals_next(release->signals)) != 0)
            if (n != SIGCHLD && sigismember(&release->signals->waiting, n) == 1)
                return false;
    }
    return true;
}

/* Whether the next unlock can do what this one could not, without a person. */
static bool is_failing(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM;
}

static bool may_repeat(const struct release *release, const struct unlocking *unlocking)
{
    return release->keep == RELEASE_KEEPS && is_failing(unlocking->status) &&
           supervise_now_ms() + pause_before_ms(unlocking->repeated) < unlocking->until_ms;
}

static void unlock_until_certain(const struct release *release, struct unlocking *unlocking)
{
    char what[WHAT_SIZE];

    unlocking->until_ms = supervise_now_ms() + held_remaining_ms(release->held);
    unlock(release, unlocking);
    while (may_repeat(release, unlocking)) {
        if (unlocking->repeated == 0) {
            (void)snprintf(what, sizeof what,
                           "%s: repeating the unlock, which keeps the name, until the lease ends",
                           release->name);
            (void)cli_output_fail_status(release->cli, what, &unlocking->err);
        }
        if (!pause_make(release, pause_before_ms(unlocking->repeated)))
            return;
        unlocking->repeated++;
        unlock(release, unlocking);
    }
}

/* A lock that is gone is OK after an unlock without an answer, but later than that the lease may
 * have ended by itself. */
static const char *kept_word(const struct release *release, const struct unlocking *unlocking)
{
    bool in_doubt = unlocking->doubt && supervise_now_ms() >= unlocking->until_ms;

    if (release->keep != RELEASE_KEEPS)
        return "no";
    if (unlocking->status == DLOCK_OK && !in_doubt)
        return "yes";
    return unlocking->doubt ? "unknown" : "no";
}

static json_t *fields_make(const struct release *release, const struct unlocking *unlocking,
                           const char *kept)
{
    json_t *fields = json_object();

    if (unlocking->status != DLOCK_OK)
        (void)json_object_set_new(fields, "status",
                                  json_string(dlock_status_name((int)unlocking->status)));
    if (release->keep != RELEASE_PLAIN)
        (void)json_object_set_new(fields, "kept", json_string(kept));
    return fields;
}

static void failure_report(const struct release *release, const struct unlocking *unlocking,
                           const char *kept)
{
    char what[WHAT_SIZE] = "unlock failed (the lock ends with its lease)";

    if (release->keep == RELEASE_KEEPS)
        (void)snprintf(
            what, sizeof what, "%s: %s, because the unlock failed (the lock ends with its lease)",
            release->name, kept[0] == 'u' ? "the name may not be kept" : "the name is not kept");
    (void)cli_output_fail_status(release->cli, what, &unlocking->err);
}

static void end_report(const struct release *release, const struct unlocking *unlocking)
{
    const char *kept = kept_word(release, unlocking);
    bool is_released = unlocking->status == DLOCK_OK;

    if (is_released && (release->keep != RELEASE_KEEPS || kept[0] == 'y'))
        cli_output_say(release->cli, "%s: released%s", release->name,
                       release->keep == RELEASE_KEEPS ? ", and kept" : "");
    else if (is_released)
        cli_output_fail(release->cli,
                        "%s: the name may not be kept: the unlock was confirmed after the lease",
                        release->name);
    else
        failure_report(release, unlocking, kept);
    outcome_write(release->outcome, is_released ? "released" : "unreleased",
                  fields_make(release, unlocking, kept));
}

int release_run(const struct release *release, int exit_code)
{
    struct unlocking unlocking = {0};

    unlock_until_certain(release, &unlocking);
    if (exit_code == CLI_EXIT_LOST && release->keep != RELEASE_KEEPS &&
        unlocking.status != DLOCK_OK)
        return exit_code;
    if (unlocking.status != DLOCK_LOST || unlocking.repeated > 0) {
        end_report(release, &unlocking);
        return exit_code;
    }
    cli_output_fail(release->cli,
                    "%s: lock lost: this run did not hold it any more when the command ended",
                    release->name);
    supervise_loss_write(release->outcome, DLOCK_REASON_TAKEN);
    return CLI_EXIT_LOST;
}
