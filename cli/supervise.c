/* SPDX-License-Identifier: MIT */
#include "supervise.h"
#include "lib/time.h"

#include "loss.h"
#include "output.h"

#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define GROUP_POLL_MS INT64_C(25)

/* The library counts max_hold from a moment before we could read the clock. */
#define HOLD_SLACK_MS INT64_C(50)

int64_t supervise_now_ms(void)
{
    return dl_time_now_ns(CLOCK_BOOTTIME) / DL_NS_PER_MS;
}

/* The notice may come after the state. */
static enum dlock_reason reason_known(const struct supervise *s)
{
    if (s->reason != 0)
        return s->reason;
    if (s->hold_ends_first)
        return DLOCK_REASON_MAX_HOLD;
    if (held_state(s->held) == DLOCK_STATE_LOST && supervise_now_ms() < s->watch.valid_until_ms)
        return DLOCK_REASON_TAKEN;
    return DLOCK_REASON_EXPIRED;
}

void supervise_loss_write(struct outcome *outcome, enum dlock_reason reason)
{
    outcome_write(outcome, "lost", json_pack("{s:s}", "reason", loss_word(reason)));
}

static void loss_report(struct supervise *s, const char *consequence)
{
    enum dlock_reason reason = reason_known(s);

    if (s->lost)
        return;
    s->lost = true;
    cli_output_fail(s->cli, "%s: lock lost: %s; %s", s->name, loss_text(reason), consequence);
    supervise_loss_write(s->outcome, reason);
}

static void events_drain(struct supervise *s)
{
    struct dlock_notice event = DLOCK_NOTICE_INIT;

    while (dlock_client_next(s->client, &event, NULL) == 1)
        if (held_has(s->held, event.lock))
            s->reason = event.reason;
}

static struct watch_view lease_view(struct supervise *s)
{
    struct watch_view view = {.now_ms = supervise_now_ms()};
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
        loss_report(s, "ending the command");
        break;
    case WATCH_KILL:
        child_signal(s->child, SIGKILL);
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
        s->stop_passed_on = n == SIGTSTP;
        child_signal(s->child, n);
    }
    child_poll(s->child);
    if (s->child->stopped != 0)
        stop_handle(s);
}

/* The command has ended; after SIGTERM, its whole group has. */
static bool is_over(const struct supervise *s)
{
    return s->child->ended && !(s->watch.phase == WATCH_TERMED && child_group_lives(s->child));
}

static int64_t wake_at_ms(const struct supervise *s)
{
    int64_t soon_ms = supervise_now_ms() + GROUP_POLL_MS;

    /* No signal reports the end of the command's own children. */
    if (s->child->ended && (s->next_ms == WATCH_NEVER || soon_ms < s->next_ms))
        return soon_ms;
    return s->next_ms;
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
    if (error != 0)
        child_signal(s->child, SIGKILL);
    return error;
}
