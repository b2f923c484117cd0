/* SPDX-License-Identifier: MIT */
/* Does one thread hear of all attempts of a client? (ANY, INT-4, C19) */
#include "calls.h"
#include "session/slot.h"
#include "slots.h"

#include <string.h>

#define ROOM      4 /* numbers that one call takes */
#define LONG_MS   20000
#define QUIET_MS  50
#define LEAST_ONE 7 /* the number of the first attempt; the others follow */

/* A client that waits by one thread: `ear` is the session of wait_any, and each of the others has
 * an attempt at a name that the holder of the same number holds. */
struct choir {
    struct dlt_party ear, voices[3], holders[3];
    bool told[3];
};

static void name_is(struct dlt_party *party, int i)
{
    char name[16];

    (void)snprintf(name, sizeof name, "job-%d", i);
    dlt_party_anew(party, name, DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
}

static void choir_begin(struct choir *choir, struct dlt_run *run)
{
    memset(choir, 0, sizeof *choir);
    dlt_parties_begin(choir->holders, 3, run);
    dlt_party_begin(&choir->ear, run, "the thread of all", NULL);
    if (choir->ear.side.plugin->ops.wait_any == NULL)
        dlt_skip("not applicable: no wait_any");
    for (int i = 0; i < 3; i++) {
        dlt_party_beside(&choir->voices[i], &choir->ear, "an attempt");
        name_is(&choir->holders[i], i);
        name_is(&choir->voices[i], i);
        choir->voices[i].attempt.req.waiter = (uint32_t)(LEAST_ONE + i);
        dlt_party_hold(&choir->holders[i]);
    }
}

static void choir_end(struct choir *choir)
{
    for (int i = 2; i >= 0; i--)
        dlt_party_end(&choir->voices[i]);
    dlt_party_end(&choir->ear);
    dlt_parties_end(choir->holders, 3);
}

/* One call; marks who was told. */
static enum dlock_status wait_any(struct choir *choir, int64_t ms)
{
    struct dlt_side *side = &choir->ear.side;
    uint32_t numbers[ROOM];
    size_t count = ROOM;
    enum dlock_status status;

    side->err = (struct dlock_error)DLOCK_ERROR_INIT;
    status = dl_slot_wait_any(side->plugin, side->self, numbers, &count,
                              dlt_now_ns() + ms * DLT_NS_PER_MS, &side->err);
    if (status != DLOCK_OK)
        return status;
    DLT_CHECK(count >= 1 && count <= ROOM, "wait_any is OK with %zu numbers [ANY-1]", count);
    for (size_t i = 0; i < count; i++) {
        DLT_CHECK(numbers[i] >= LEAST_ONE && numbers[i] < LEAST_ONE + 3,
                  "wait_any has the number %u, of no attempt [ANY-1]", numbers[i]);
        choir->told[numbers[i] - LEAST_ONE] = true;
    }
    return DLOCK_OK;
}

/* As core does: who is told asks, and has to be refused, until nothing comes any more. A number may
 * come for no reason, but not all the time. */
static void quiet(struct choir *choir)
{
    int64_t start_ns = dlt_now_ns();
    enum dlock_status status;

    while ((status = wait_any(choir, QUIET_MS)) != DLOCK_TIMEOUT) {
        DLT_CHECK(status == DLOCK_OK || status == DLOCK_UNAVAILABLE,
                  "wait_any is %s, want TIMEOUT [ANY-1]", dlt_said(&choir->ear.side, status));
        DLT_WITHIN(start_ns, 15000, "wait_any of names that are held does not sleep [ANY-3]");
        for (int i = 0; i < 3; i++) {
            if (choir->told[i])
                DLT_SAYS(&choir->voices[i], dlt_party_refresh(&choir->voices[i]), DLOCK_BUSY,
                         "the name is held");
            choir->told[i] = false;
        }
        if (status == DLOCK_UNAVAILABLE)
            dlt_sleep_ms(QUIET_MS);
    }
}

/* All three wait, and would be told. */
static void all_wait(struct choir *choir)
{
    for (int i = 0; i < 3; i++)
        dlt_party_line_up(&choir->voices[i]);
    quiet(choir);
    for (int i = 0; i < 3; i++) {
        DLT_SAYS(&choir->voices[i], dlt_party_refresh(&choir->voices[i]), DLOCK_BUSY,
                 "the name is held");
        DLT_CHECK((choir->voices[i].side.grant.flags & DLOCK_GRANT_UNREPORTED) == 0,
                  "wait_any tells of no attempt that waits [ANY-4]");
    }
    quiet(choir);
}

/* Until this one is told, and no other one. ms: of each call. */
static void told(struct choir *choir, int i, int64_t since_ns, int64_t ms)
{
    while (!choir->told[i]) {
        enum dlock_status status = wait_any(choir, ms);

        DLT_CHECK(status == DLOCK_OK || status == DLOCK_TIMEOUT, "wait_any is %s, want OK [ANY-1]",
                  dlt_said(&choir->ear.side, status));
        DLT_WITHIN(since_ns, DLT_TOLD_MS, "attempt %d was granted, and is not told [ANY-1]", i);
        if (status == DLOCK_TIMEOUT)
            dlt_sleep_ms(10);
    }
    for (int k = 0; k < 3; k++) {
        if (k != i && choir->told[k]) /* for no reason, which is allowed now and then [ANY-3] */
            DLT_SAYS(&choir->voices[k], dlt_party_refresh(&choir->voices[k]), DLOCK_BUSY,
                     "the name is held");
        choir->told[k] = false;
    }
}

void dlt_slots_any_tells_who(struct dlt_run *run)
{
    struct choir choir;

    choir_begin(&choir, run);
    all_wait(&choir);
    for (int i = 0; i < 2; i++) {
        struct dlt_party *voice = &choir.voices[i];
        int64_t freed_ns = dlt_party_release(&choir.holders[i]);

        told(&choir, i, freed_ns, i == 0 ? DLT_TOLD_MS : -1); /* after the deadline, too */
        DLT_SAYS(voice, dlt_party_refresh(voice), DLOCK_OK, "it was told [ANY-1]");
        DLT_SAYS(voice, dlt_party_renew(voice), DLOCK_OK, "it has the lock");
        quiet(&choir); /* what happened is told once [ANY-2] */
    }
    choir_end(&choir);
}

void dlt_slots_any_misses_nothing(struct dlt_run *run)
{
    struct choir choir;

    choir_begin(&choir, run);
    for (int i = 0; i < 3; i++) { /* nobody has waited for them before */
        int64_t freed_ns;

        dlt_party_line_up(&choir.voices[i]);
        DLT_CHECK((choir.voices[i].side.grant.flags & DLOCK_GRANT_UNREPORTED) == 0,
                  "wait_any tells of no attempt that waits [ANY-4]");
        freed_ns = dlt_party_release(&choir.holders[i]);
        told(&choir, i, freed_ns, DLT_TOLD_MS);
        DLT_SAYS(&choir.voices[i], dlt_party_refresh(&choir.voices[i]), DLOCK_OK,
                 "it was told [ANY-2]");
        (void)dlt_party_release(&choir.voices[i]);
    }
    choir_end(&choir);
}

void dlt_slots_any_is_void_at_the_next_try(struct dlt_run *run)
{
    struct choir choir;

    choir_begin(&choir, run);
    all_wait(&choir);
    (void)dlt_party_release(&choir.holders[0]);
    DLT_SAYS(&choir.voices[0], dlt_party_refresh(&choir.voices[0]), DLOCK_OK, "it asks by itself");
    (void)dlt_party_release(&choir.holders[1]);
    if (choir.ear.side.plugin->ops.forget != NULL)
        dl_slot_forget(choir.ear.side.plugin, choir.voices[1].side.self,
                       &choir.voices[1].attempt.req);
    choir.voices[1].released = true;
    for (int i = 0; i < 6; i++) {
        enum dlock_status status = wait_any(&choir, QUIET_MS);

        DLT_CHECK(status == DLOCK_OK || status == DLOCK_TIMEOUT, "wait_any is %s",
                  dlt_said(&choir.ear.side, status));
        DLT_CHECK(!choir.told[0], "an attempt that has the lock is told of its grant [ANY-2]");
        DLT_CHECK(!choir.told[1], "an attempt that was forgotten is told of its grant [FGT-1]");
    }
    choir_end(&choir);
}

void dlt_slots_any_or_polled(struct dlt_run *run)
{
    struct choir choir;
    struct dlt_party *voice = &choir.voices[0];
    int64_t freed_ns;
    bool unreported;

    choir_begin(&choir, run);
    DLT_SAYS(voice, dlt_party_try(voice), DLOCK_BUSY, "the name is held");
    unreported = (voice->side.grant.flags & DLOCK_GRANT_UNREPORTED) != 0;
    freed_ns = dlt_party_release(&choir.holders[0]);
    if (!unreported)
        told(&choir, 0, freed_ns, DLT_TOLD_MS);
    DLT_SAYS(voice, dlt_party_try(voice), DLOCK_OK, "the name is free [ANY-4]");
    (void)dlt_party_release(voice);
    choir_end(&choir);
}

static void *any_sleeper(void *arg)
{
    struct choir *choir = arg;

    choir->ear.awake = wait_any(choir, LONG_MS);
    choir->ear.awake_ns = dlt_now_ns();
    return NULL;
}

/* Interrupts a wait_any that runs, mostly: what is right does not depend on it. Returns how it
 * ended; *start_ns: when it was interrupted. */
static enum dlock_status interrupted_amid(struct choir *choir, int64_t *start_ns)
{
    struct dlt_side *ear = &choir->ear.side;

    choir->ear.thread = dlt_thread(any_sleeper, choir);
    dlt_sleep_ms(50);
    *start_ns = dlt_now_ns();
    dl_slot_interrupt(ear->plugin, ear->self, NULL);
    return dlt_party_wake(&choir->ear);
}

void dlt_slots_any_is_interrupted(struct dlt_run *run)
{
    struct choir choir;
    struct dlt_side *ear = &choir.ear.side;
    enum dlock_status status = DLOCK_OK;
    int64_t start_ns;

    choir_begin(&choir, run);
    all_wait(&choir);
    start_ns = dlt_now_ns();
    dl_slot_interrupt(ear->plugin, ear->self, NULL);
    DLT_WITHIN(start_ns, 1000, "interrupt, which waits for nothing [INT-1]");
    DLT_SAYS(&choir.ear, wait_any(&choir, LONG_MS), DLOCK_CANCELED,
             "it was interrupted before [INT-4]");
    quiet(&choir); /* not the one after */
    for (int tries = 0; status == DLOCK_OK && tries < 3; tries++) {
        if (tries > 0) /* a number came for no reason [ANY-3], and the interrupt may be left */
            (void)wait_any(&choir, 0);
        status = interrupted_amid(&choir, &start_ns);
    }
    DLT_SAYS(&choir.ear, status, DLOCK_CANCELED, "it was interrupted [INT-4]");
    DLT_BETWEEN(start_ns, choir.ear.awake_ns, DLT_TOLD_MS, "an interrupt ends wait_any [INT-4]");
    quiet(&choir);
    choir_end(&choir);
}

/* A thread that watches, and one for all: each hears its own. */
void dlt_slots_any_beside_a_watch(struct dlt_run *run)
{
    struct choir choir;
    struct dlt_party *watcher = &choir.voices[2];
    int64_t freed_ns;

    choir_begin(&choir, run);
    all_wait(&choir);
    if (dlt_party_queues(watcher))
        DLT_SAYS(watcher, dlt_party_dequeue(watcher), DLOCK_OK, "it gives up [DEQ-2]");
    name_is(watcher, 2); /* without a number */
    dlt_party_settle(watcher);
    dlt_party_sleep(watcher, 2 * DLT_TOLD_MS);
    choir.ear.thread = dlt_thread(any_sleeper, &choir);
    dlt_sleep_ms(50); /* they sleep now, mostly: what is right does not depend on it */
    freed_ns = dlt_party_release(&choir.holders[2]);
    DLT_SAYS(watcher, dlt_party_wake(watcher), DLOCK_OK, "its name was released [WAT-1]");
    DLT_BETWEEN(freed_ns, watcher->awake_ns, DLT_TOLD_MS, "a release wakes who watches [WAT-1]");
    freed_ns = dlt_party_release(&choir.holders[0]);
    DLT_SAYS(&choir.ear, dlt_party_wake(&choir.ear), DLOCK_OK, "an attempt was granted [ANY-1]");
    DLT_CHECK(!choir.told[2], "wait_any has told of an attempt that watches");
    told(&choir, 0, freed_ns, DLT_TOLD_MS);
    DLT_SAYS(&choir.voices[0], dlt_party_refresh(&choir.voices[0]), DLOCK_OK,
             "it was told [ANY-1]");
    choir_end(&choir);
}

#define MANY 12

/* More than one call has room for. */
void dlt_slots_any_tells_many(struct dlt_run *run)
{
    static struct dlt_party holders[MANY], voices[MANY];
    struct dlt_party ear;
    bool told_of[MANY] = {false};
    int64_t freed_ns = 0;

    dlt_party_begin(&ear, run, "the thread of all", NULL);
    if (ear.side.plugin->ops.wait_any == NULL)
        dlt_skip("not applicable: no wait_any");
    for (int i = 0; i < MANY; i++) {
        dlt_party_begin(&holders[i], run, "a holder", NULL);
        dlt_party_beside(&voices[i], &ear, "an attempt");
        name_is(&holders[i], i);
        name_is(&voices[i], i);
        voices[i].attempt.req.waiter = (uint32_t)i + 1;
        dlt_party_hold(&holders[i]);
        dlt_party_line_up(&voices[i]);
        DLT_CHECK((voices[i].side.grant.flags & DLOCK_GRANT_UNREPORTED) == 0,
                  "wait_any tells of no attempt that waits [ANY-4]");
    }
    for (int i = 0; i < MANY; i++)
        freed_ns = dlt_party_release(&holders[i]);
    for (int left = MANY; left > 0;) {
        uint32_t numbers[ROOM];
        size_t count = ROOM;
        enum dlock_status status =
            dl_slot_wait_any(ear.side.plugin, ear.side.self, numbers, &count,
                             dlt_now_ns() + DLT_TOLD_MS * DLT_NS_PER_MS, &ear.side.err);

        DLT_WITHIN(freed_ns, DLT_TOLD_MS, "%d attempts of %d are not told [ANY-1]", left, MANY);
        DLT_SAYS(&ear, status, DLOCK_OK, "%d attempts of %d are not told [ANY-1]", left, MANY);
        for (size_t i = 0; i < count; i++) {
            int k = (int)numbers[i] - 1;

            DLT_CHECK(k >= 0 && k < MANY, "wait_any has the number %d of no attempt", k + 1);
            if (told_of[k]) /* for no reason [ANY-3] */
                continue;
            if (dlt_party_refresh(&voices[k]) != DLOCK_OK)
                continue;
            told_of[k] = true;
            left--;
            freed_ns = dlt_now_ns(); /* the exchange of each attempt took time, too */
        }
    }
    for (int i = MANY - 1; i >= 0; i--)
        dlt_party_end(&voices[i]);
    dlt_party_end(&ear);
    for (int i = 0; i < MANY; i++)
        dlt_party_end(&holders[i]);
}
