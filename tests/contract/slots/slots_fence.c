/* SPDX-License-Identifier: MIT */
/* A trylock that is stopped between any two of its messages, while another client has the name. */
#include "slots.h"
#include "strike.h"

#include <stdatomic.h>

#define MESSAGES 12 /* in one direction: no trylock needs more */
#define CALL_MS  10000
#define LOOK_MS  2

struct stopped {
    struct dlt_side *side;
    struct dlt_attempt attempt;
    enum dlock_status status;
    atomic_bool over;
};

static void *stopped_main(void *arg)
{
    struct stopped *stopped = arg;

    stopped->status = dlt_side_try(stopped->side, &stopped->attempt);
    atomic_store(&stopped->over, true);
    return NULL;
}

/* False: the trylock was over before that message. */
static bool is_held(struct dlt_subject *subject, struct stopped *stopped, const char *direction)
{
    char counter[16];

    (void)snprintf(counter, sizeof counter, "%s.held", direction);
    while (!atomic_load(&stopped->over)) {
        if (dlt_proxy_count(&subject->proxy, 0, counter) > 0)
            return true;
        dlt_sleep_ms(LOOK_MS);
    }
    return false;
}

struct other {
    struct dlt_attempt attempt;
    bool had, released;
    uint64_t fence; /* 0: the name was not to be had */
};

/* Comes and goes; the trylock that is stopped may keep it from going. */
static void comes_and_goes(struct dlt_side *side, struct other *other)
{
    enum dlock_status status;

    other->had = dlt_side_try(side, &other->attempt) == DLOCK_OK;
    if (!other->had)
        return;
    other->fence = side->grant.fence + side->grant.fence_room;
    status = dlt_side_unlock(side, &other->attempt);
    DLT_CHECK(status == DLOCK_OK || status == DLOCK_UNAVAILABLE || status == DLOCK_UNKNOWN,
              "unlock beside a trylock that is stopped is %s", dlt_said(side, status));
    other->released = status == DLOCK_OK;
}

static void is_gone(struct dlt_side *side, struct other *other)
{
    if (other->had && !other->released)
        DLT_CHECK(dlt_side_unlock(side, &other->attempt) != DLOCK_UNAVAILABLE,
                  "unlock, repeated: %s", dlt_said(side, DLOCK_UNAVAILABLE));
    dlt_attempt_end(&other->attempt, side, other->had);
}

/* False: the trylock has fewer messages. */
static bool stop_at(struct dlt_subject *subject, const char *direction, int number)
{
    struct stopped stopped = {.side = &subject->far, .status = DLOCK_INTERNAL};
    struct other other = {.fence = 0};
    pthread_t thread;
    bool held;

    dlt_strike_recover(subject);
    dlt_strike_warm_up(subject);
    dlt_attempt_begin(&stopped.attempt, subject->run, &subject->far, "job", 3 * CALL_MS);
    dlt_attempt_begin(&other.attempt, subject->run, &subject->direct, "job", CALL_MS);
    subject->far.call_ms = CALL_MS;
    dlt_subject_tell(subject, "hold %s +%d", direction, number);
    thread = dlt_thread(stopped_main, &stopped);
    held = is_held(subject, &stopped, direction);
    if (held)
        comes_and_goes(&subject->direct, &other);
    dlt_subject_tell(subject, "deliver");
    dlt_subject_tell(subject, "pass");
    (void)pthread_join(thread, NULL);
    is_gone(&subject->direct, &other);
    DLT_CHECK(stopped.status != DLOCK_OK || subject->far.grant.fence > other.fence,
              "trylock, stopped at its message %d (%s), has fence %llu, and a holder before it had "
              "%llu [TRY-6]",
              number, direction, (unsigned long long)subject->far.grant.fence,
              (unsigned long long)other.fence);
    if (stopped.status == DLOCK_OK)
        DLT_OK(dlt_side_unlock(&subject->far, &stopped.attempt));
    dlt_attempt_end(&stopped.attempt, &subject->far, stopped.status == DLOCK_OK);
    return held;
}

void dlt_slots_fence_of_the_step(struct dlt_run *run)
{
    static const char *const directions[] = {"c2s", "s2c"};
    struct dlt_subject subject;

    dlt_subject_begin(&subject, run);
    for (int i = 0; i < 2; i++)
        for (int number = 1; stop_at(&subject, directions[i], number); number++)
            DLT_CHECK(number < MESSAGES, "trylock has more than %d messages", MESSAGES);
    dlt_subject_end(&subject);
}
