/* SPDX-License-Identifier: MIT */
#include "watch.h"

#define KILL_AFTER_TAKEN_MS INT64_C(1000)
#define LEAD_MIN_MS         INT64_C(5)
#define LEAD_MAX_MS         INT64_C(500)

void watch_init(struct watch *watch, int64_t kill_after_ms, bool warn_only)
{
    *watch = (struct watch){.kill_after_ms = kill_after_ms, .warn_only = warn_only};
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* SIGKILL is sent this long before valid_until: the command ends, and its lock is unlocked, before
 * the timer ends this process (C25). */
static int64_t kill_lead_ms(const struct watch *watch)
{
    return smaller(larger(watch->ttl_ms / 10, LEAD_MIN_MS), LEAD_MAX_MS);
}

static int64_t term_lead_ms(const struct watch *watch)
{
    return larger(smaller(watch->kill_after_ms, watch->ttl_ms / 3), kill_lead_ms(watch));
}

static enum watch_action kill_now(struct watch *watch, int64_t *next_ms)
{
    watch->phase = WATCH_KILLED;
    *next_ms = WATCH_NEVER;
    return WATCH_KILL;
}

static enum watch_action step_lost(struct watch *watch, int64_t now_ms, int64_t *next_ms)
{
    enum watch_action action = WATCH_NONE;

    if (watch->warn_only) {
        watch->phase = WATCH_WARNED;
        *next_ms = WATCH_NEVER;
        return WATCH_WARN;
    }
    if (now_ms >= watch->valid_until_ms)
        return kill_now(watch, next_ms);
    if (watch->phase == WATCH_RUNNING) {
        watch->kill_at_ms = INT64_MAX;
        action = WATCH_TERM;
    }
    watch->phase = WATCH_TERMED;
    watch->kill_at_ms =
        smaller(watch->kill_at_ms, now_ms + smaller(watch->kill_after_ms, KILL_AFTER_TAKEN_MS));
    watch->kill_at_ms = smaller(watch->kill_at_ms, watch->valid_until_ms - kill_lead_ms(watch));
    if (now_ms >= watch->kill_at_ms)
        return kill_now(watch, next_ms);
    *next_ms = watch->kill_at_ms;
    return action;
}

static enum watch_action step_held(struct watch *watch, int64_t now_ms, int64_t *next_ms)
{
    int64_t kill_at_ms = watch->valid_until_ms - kill_lead_ms(watch);
    int64_t term_at_ms = watch->valid_until_ms - term_lead_ms(watch);
    enum watch_action action = WATCH_NONE;

    if (watch->warn_only) {
        *next_ms = larger(watch->valid_until_ms, now_ms + 1);
        return WATCH_NONE;
    }
    if (watch->phase == WATCH_RUNNING) {
        if (now_ms < term_at_ms) {
            *next_ms = term_at_ms;
            return WATCH_NONE;
        }
        watch->phase = WATCH_TERMED;
        watch->kill_at_ms = now_ms + watch->kill_after_ms;
        action = WATCH_TERM;
    }
    /* A renewal after SIGTERM gives more time, but does not revoke the signal. */
    kill_at_ms = smaller(kill_at_ms, watch->kill_at_ms);
    if (now_ms >= kill_at_ms)
        return kill_now(watch, next_ms);
    *next_ms = kill_at_ms;
    return action;
}

enum watch_action watch_step(struct watch *watch, const struct watch_view *view, int64_t *next_ms)
{
    if (watch->phase == WATCH_KILLED || watch->phase == WATCH_WARNED) {
        *next_ms = WATCH_NEVER;
        return WATCH_NONE;
    }
    if (view->lost)
        return step_lost(watch, view->now_ms, next_ms);
    watch->valid_until_ms = view->now_ms + view->remaining_ms;
    watch->ttl_ms = larger(watch->ttl_ms, view->remaining_ms);
    return step_held(watch, view->now_ms, next_ms);
}
