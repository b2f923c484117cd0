/* SPDX-License-Identifier: MIT */
#include "supervise.h"
#include "exitcode.h"
#include "lib/time.h"
#include "output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* No signal reports the end of the command's own children. How often to look for them: while they
 * may end by themselves, while they are killed, and while only those are left that cannot be. */
#define COUNT_MS   INT64_C(25)
#define KILL_MS    INT64_C(5)
#define REFUSED_MS INT64_C(250)

/* The library counts max_hold from a moment before we could read the clock. */
#define HOLD_SLACK_MS INT64_C(50)

/* The notice may come after the state. */
static enum dlock_reason reason_known(const struct supervise *s)
{
    if (s->reason != 0)
        return s->reason;
    if (s->hold_ends_first)
        return DLOCK_REASON_MAX_HOLD;
    if (held_state(s->held) == DLOCK_STATE_LOST && acquire_now_ms() < s->watch.valid_until_ms)
        return DLOCK_REASON_TAKEN;
    return DLOCK_REASON_EXPIRED;
}

void supervise_loss_write(struct outcome *outcome, enum dlock_reason reason)
{
    outcome_write(outcome, "lost", json_pack("{s:s}", "reason", cli_output_loss_word(reason)));
}

static void loss_report(struct supervise *s, const char *consequence)
{
    enum dlock_reason reason = reason_known(s);

    if (s->lost)
        return;
    s->lost = true;
    cli_output_fail(s->cli, "%s: lock lost: %s; %s", s->name, cli_output_loss(reason), consequence);
    supervise_loss_write(s->outcome, reason);
}

static void events_drain(struct supervise *s)
{
    struct dlock_notice event = DLOCK_NOTICE_INIT;

    while (dlock_client_next(s->client, &event, NULL) == DLOCK_OK &&
           event.kind != DLOCK_NOTICE_NONE)
        if (held_has(s->held, event.lock))
            s->reason = event.reason;
}

static struct watch_view lease_view(struct supervise *s)
{
    struct watch_view view = {.now_ms = acquire_now_ms()};
    int64_t hold_left_ms = s->hold_until_ms - view.now_ms;

    view.lost = held_state(s->held) == DLOCK_STATE_LOST;
    view.remaining_ms = view.lost ? 0 : held_remaining_ms(s->held);
    s->hold_ends_first = hold_left_ms < view.remaining_ms + HOLD_SLACK_MS;
    if (hold_left_ms < view.remaining_ms)
        view.remaining_ms = hold_left_ms;
    return view;
}

static void lease_check(struct supervise *s)
{
    struct watch_view view = lease_view(s);

    events_drain(s);
    switch (watch_step(&s->watch, &view, &s->next_ms)) {
    case WATCH_WARN:
        loss_report(s, "the command runs on");
        break;
    case WATCH_TERM:
        child_signal(s->child, SIGTERM);
        child_signal(s->child, SIGCONT); /* a stopped command cannot act on SIGTERM */
        descendants_term(&s->child->descendants, s->child->pid);
        loss_report(s, "ending the command");
        break;
    case WATCH_KILL:
        child_signal(s->child, SIGKILL);
        descendants_kill(&s->child->descendants);
        loss_report(s, "killing the command");
        break;
    case WATCH_NONE:
    default:
        break;
    }
}

static void timer_set(const struct supervise *s, int64_t at_ms)
{
    struct itimerspec spec = {0};

    if (at_ms != WATCH_NEVER) {
        spec.it_value.tv_sec = (time_t)(at_ms / 1000);
        spec.it_value.tv_nsec = (long)(at_ms % 1000) * 1000000;
    }
    (void)timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Stops with the command, as a shell expects of a job, and returns when both shall continue. The
 * lease runs on meanwhile, and is checked before the command may run. */
static void stop_follow(struct supervise *s, bool wants_tty)
{
    bool was_lent = tty_is_lent(s->tty, s->child->pid);

    tty_take_back(s->tty, s->child->pid, false);
    if (!signals_stop_self() && wants_tty)
        child_signal(s->child, SIGHUP); /* it would wait for the terminal forever */
    lease_check(s);
    if ((was_lent || wants_tty) && tty_is_ours(s->tty))
        tty_lend(s->tty, s->child->pid);
    child_signal(s->child, SIGCONT);
}

/* A program that stops the command by its number, or without a terminal, also continues it. A user
 * at a terminal needs the shell back: dlock stops, too. */
static void stop_handle(struct supervise *s)
{
    bool wants_tty = s->child->stopped == SIGTTIN || s->child->stopped == SIGTTOU;
    bool by_terminal = s->stop_passed_on || tty_is_lent(s->tty, s->child->pid);

    s->child->stopped = 0;
    s->stop_passed_on = false;
    if (s->tty->fd < 0)
        return;
    if (wants_tty && tty_is_ours(s->tty)) {
        tty_lend(s->tty, s->child->pid);
        child_signal(s->child, SIGCONT);
    } else if (wants_tty || by_terminal) {
        stop_follow(s, wants_tty);
    }
}

static void signals_handle(struct supervise *s)
{
    int n;

    while ((n = signals_next(s->signals)) != 0) {
        if (n == SIGCHLD)
            continue;
        if (n == SIGTERM || n == SIGINT || n == SIGHUP || n == SIGQUIT) {
            s->ending_signal = s->child->ended ? s->ending_signal : n;
            s->gives_up |= s->refusal_said;
        }
        s->stop_passed_on = n == SIGTSTP;
        child_signal(s->child, n);
    }
    child_poll(s->child);
    if (s->child->stopped != 0)
        stop_handle(s);
}

static void kill_all(struct supervise *s, const char *consequence)
{
    struct descendants *descendants = &s->child->descendants;
    const struct proc_stat *stubborn = &descendants->stubborn;

    descendants_kill(descendants);
    if (descendants->refused == 0 || s->refusal_said)
        return;
    s->refusal_said = true;
    cli_output_fail(s->cli, "%s: process %ld (%s) of another user cannot be ended; %s", s->name,
                    (long)stubborn->pid,
                    cli_output_printable(stubborn->program, strlen(stubborn->program)),
                    consequence);
}

/* The lock is lost, or about to be. */
static bool loss_is_over(struct supervise *s)
{
    struct descendants *descendants = &s->child->descendants;

    if (s->watch.phase == WATCH_KILLED)
        kill_all(s, "it runs on without the lock");
    else
        descendants_count(descendants);
    return s->child->ended && descendants->living == descendants->refused;
}

/* The command has ended after a signal: the lock is not unlocked while its descendants work. */
static bool signal_is_over(struct supervise *s)
{
    struct descendants *descendants = &s->child->descendants;
    int64_t now_ms = acquire_now_ms();

    if (s->kill_all_ms == 0) {
        s->kill_all_ms = now_ms + s->watch.kill_after_ms;
        descendants_term(descendants, s->ending_signal == SIGTERM ? s->child->pid : 0);
    } else if (now_ms < s->kill_all_ms) {
        descendants_count(descendants);
    } else {
        kill_all(s, "the lock is kept until it ends, or another signal comes");
    }
    return descendants->living == 0 || (s->gives_up && descendants->living == descendants->refused);
}

static bool is_over(struct supervise *s)
{
    bool ended = s->child->ended;

    if (s->watch.phase == WATCH_KILLED || (ended && s->watch.phase == WATCH_TERMED))
        return loss_is_over(s);
    if (ended && s->watch.phase == WATCH_RUNNING &&
        (s->ending_signal != 0 || s->child->signal != 0))
        return signal_is_over(s);
    return ended;
}

static int64_t wake_at_ms(const struct supervise *s)
{
    const struct descendants *descendants = &s->child->descendants;
    int64_t now_ms = acquire_now_ms();
    int64_t soon_ms = now_ms + COUNT_MS;

    if (!s->child->ended && s->watch.phase != WATCH_KILLED)
        return s->next_ms;
    if (descendants->refused > 0 && descendants->living == descendants->refused)
        soon_ms = now_ms + REFUSED_MS;
    else if (s->watch.phase == WATCH_KILLED || (s->kill_all_ms > 0 && now_ms >= s->kill_all_ms))
        soon_ms = now_ms + KILL_MS;
    return s->next_ms == WATCH_NEVER || soon_ms < s->next_ms ? soon_ms : s->next_ms;
}

static int supervise_loop(struct supervise *s)
{
    struct pollfd fds[3] = {
        {.fd = s->signals->fd, .events = POLLIN},
        {.fd = dlock_client_fd(s->client), .events = POLLIN},
        {.fd = s->timer, .events = POLLIN},
    };

    for (;;) {
        lease_check(s); /* first: a signal may continue a stopped command */
        signals_handle(s);
        if (is_over(s))
            return 0;
        timer_set(s, wake_at_ms(s));
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return errno;
    }
}

int supervise_child(struct supervise *s)
{
    int error;

    s->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    error = s->timer < 0 ? errno : supervise_loop(s);
    if (s->timer >= 0)
        (void)close(s->timer);
    if (error != 0) {
        child_signal(s->child, SIGKILL);
        descendants_kill(&s->child->descendants);
    }
    return error;
}

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
    int64_t end_ms = acquire_now_ms() + pause_ms;
    int n;

    for (int64_t left_ms = pause_ms; left_ms > 0; left_ms = end_ms - acquire_now_ms()) {
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
           acquire_now_ms() + pause_before_ms(unlocking->repeated) < unlocking->until_ms;
}

static void unlock_until_certain(const struct release *release, struct unlocking *unlocking)
{
    char what[WHAT_SIZE];

    unlocking->until_ms = acquire_now_ms() + held_remaining_ms(release->held);
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
    bool in_doubt = unlocking->doubt && acquire_now_ms() >= unlocking->until_ms;

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
