/* SPDX-License-Identifier: MIT */
/* Does an interrupt end the wait that it is for, and no other? (INT) */
#include "calls.h"
#include "slots.h"

#define LONG_MS 20000

static void must_wait(const struct dlt_party *party)
{
    if (!dlt_side_has(&party->side, DLOCK_CAP_WATCH) &&
        !dlt_side_has(&party->side, DLOCK_CAP_NATIVE_WAIT))
        dlt_skip("not applicable: no WATCH and no NATIVE_WAIT");
}

static bool watches(const struct dlt_party *party)
{
    return dlt_side_has(&party->side, DLOCK_CAP_WATCH);
}

/* It is where an interrupt finds it: in the queue, if there is one, and able to hear. */
static void ready(struct dlt_party *party)
{
    if (watches(party))
        dlt_party_settle(party);
}

/* It was interrupted, and gives up as core does. */
static void gives_up(struct dlt_party *party)
{
    if (dlt_party_queues(party))
        DLT_SAYS(party, dlt_party_dequeue(party), DLOCK_OK, "it gives up [DEQ-2]");
    dlt_party_over(party);
    if (dlt_side_has(&party->side, DLOCK_CAP_SESSION))
        dlt_side_close(&party->side); /* [SES-2] */
}

/* Nothing is left of those who gave up. */
static void released(struct dlt_party *holder, struct dlt_party *stranger)
{
    int64_t freed_ns = dlt_party_release(holder);
    enum dlock_status status;

    while ((status = dlt_party_try(stranger)) == DLOCK_BUSY) {
        DLT_CHECK(!dlt_party_queues(stranger), "who gave up has the name [DEQ-2]");
        DLT_WITHIN(freed_ns, DLT_TOLD_MS, "who was interrupted keeps others out [LCK-1]");
        dlt_sleep_ms(10);
    }
    DLT_SAYS(stranger, status, DLOCK_OK, "nobody holds the name, or waits for it [LCK-1]");
}

void dlt_slots_interrupt_ends_the_wait(struct dlt_run *run)
{
    struct dlt_party parties[2], stranger, beside, *holder = &parties[0], *waiter = &parties[1];
    bool together;

    dlt_parties_begin(parties, 2, run);
    must_wait(waiter);
    dlt_party_begin(&stranger, run, "the stranger", NULL);
    together = !dlt_side_has(&waiter->side, DLOCK_CAP_SESSION);
    dlt_party_hold(holder);
    ready(waiter);
    if (together) {
        dlt_party_beside(&beside, waiter, "the other thread of the second");
        ready(&beside);
        dlt_party_sleep(&beside, LONG_MS);
    }
    dlt_party_sleep(waiter, LONG_MS);
    dlt_sleep_ms(50); /* they sleep now, mostly: what is right does not depend on it */
    for (int i = 0; i < (together ? 2 : 1); i++) {
        struct dlt_party *party = i == 0 ? waiter : &beside;
        int64_t start_ns = dlt_now_ns();

        dlt_party_interrupt(party);
        dlt_party_interrupt(party);
        DLT_WITHIN(start_ns, 1000, "interrupt, which waits for nothing [INT-1]");
        DLT_SAYS(party, dlt_party_wake(party), DLOCK_CANCELED,
                 "it was interrupted [WAT-1] [LCK-1]");
        DLT_CHECK(party->awake_ns >= start_ns,
                  "the wait of %s ended before its interrupt, with that of another one [INT-1]",
                  party->who);
        DLT_BETWEEN(start_ns, party->awake_ns, DLT_TOLD_MS, "an interrupt ends the wait [INT-1]");
    }
    gives_up(waiter);
    if (together)
        gives_up(&beside);
    released(holder, &stranger);
    dlt_party_end(&stranger);
    if (together)
        dlt_party_end(&beside);
    dlt_parties_end(parties, 2);
}

void dlt_slots_interrupt_is_sticky(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[0], *waiter = &parties[1], *early = &parties[2],
                                 *stranger = &parties[3];

    dlt_parties_begin(parties, 4, run);
    must_wait(waiter);
    dlt_party_hold(holder);
    ready(waiter);
    dlt_party_interrupt(waiter);
    for (int i = 0; i < (watches(waiter) ? 2 : 1); i++) /* [FAI-1] */
        DLT_SAYS(waiter, dlt_party_watch(waiter, LONG_MS), DLOCK_CANCELED,
                 "it was interrupted before [INT-2]");
    if (watches(waiter)) {
        DLT_SAYS(waiter, dlt_party_refresh(waiter), DLOCK_BUSY, "the name is held");
        DLT_SAYS(waiter, dlt_party_watch(waiter, LONG_MS), DLOCK_CANCELED,
                 "it was interrupted before an answer [INT-2]");
    }
    dlt_party_interrupt(early);
    if (watches(early))
        dlt_party_line_up(early);
    DLT_SAYS(early, dlt_party_watch(early, LONG_MS), DLOCK_CANCELED,
             "it was interrupted before its first call [INT-2]");
    gives_up(waiter);
    gives_up(early);
    released(holder, stranger);
    dlt_parties_end(parties, 4);
}

/* Which of the two came first not every store can say. What the answer says is true. */
void dlt_slots_interrupt_at_the_grant(struct dlt_run *run)
{
    struct dlt_party parties[3], *holder = &parties[0], *waiter = &parties[1], *next = &parties[2];

    dlt_parties_begin(parties, 3, run);
    for (int grant_first = 0; grant_first < 2; grant_first++) {
        enum dlock_status status;
        int64_t left_ns;

        for (int i = 0; i < 3; i++)
            dlt_party_anew(&parties[i], "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_hold(holder);
        dlt_party_settle(waiter);
        dlt_party_settle(next);
        if (grant_first == 0)
            dlt_party_interrupt(waiter);
        (void)dlt_party_release(holder); /* to the one that is interrupted */
        dlt_party_interrupt(waiter);
        status = dlt_party_watch(waiter, LONG_MS);
        if (status == DLOCK_OK)
            DLT_SAYS(waiter, dlt_party_renew(waiter), DLOCK_OK, "it was granted the lock [INT-2]");
        else
            DLT_SAYS(waiter, status, DLOCK_CANCELED, "it was interrupted [INT-2]");
        DLT_SAYS(next, dlt_party_refresh(next), DLOCK_BUSY, "another one was granted the lock");
        left_ns = dlt_now_ns();
        DLT_SAYS(waiter, dlt_party_dequeue(waiter), DLOCK_OK, "it gives up [DEQ-1]");
        DLT_TOLD(next, left_ns, "the one before gave up what it was granted [DEQ-1]");
        (void)dlt_party_release(next);
    }
    dlt_parties_end(parties, 3);
}
