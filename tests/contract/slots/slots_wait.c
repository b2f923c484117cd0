/* SPDX-License-Identifier: MIT */
/* Does `watch` wake whom it must, when it must, and nobody else? (WAT, C13) */
#include "calls.h"
#include "slots.h"

#include <string.h>

#define ROUNDS 3

/* A grant is worth what it says. */
static void grant_is_good(struct dlt_party *party, uint64_t before)
{
    const struct dlock_grant *grant = &party->side.grant;
    int64_t ttl_ms = party->attempt.req.ttl_ms;

    DLT_CHECK(grant->lease_ms > 0 && grant->lease_ms <= ttl_ms,
              "the lease of %s is %lld ms, want 1 to %lld, the ttl [WAT-1]", party->who,
              (long long)grant->lease_ms, (long long)ttl_ms);
    DLT_CHECK(!dlt_side_has(&party->side, DLOCK_CAP_FENCE) || grant->fence > before,
              "the fence of %s is %llu, and %llu was granted before [TRY-6]", party->who,
              (unsigned long long)grant->fence, (unsigned long long)before);
}

/* A wait that looks by itself once a second is told in all rounds, but in none so soon. */
#define SOON_MS 500

void dlt_slots_wait_is_told(struct dlt_run *run)
{
    struct dlt_party parties[2], *holder = &parties[0], *waiter = &parties[1];
    struct dlt_best best = {0};

    dlt_parties_begin(parties, 2, run);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t freed_ns;
        uint64_t fence;

        dlt_party_anew(holder, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_anew(waiter, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_hold(holder);
        fence = dlt_party_fence(holder);
        dlt_party_settle(waiter);
        dlt_party_sleep(waiter, 2 * DLT_TOLD_MS);
        dlt_sleep_ms(50); /* it sleeps now, mostly: what is right does not depend on it */
        freed_ns = dlt_party_release(holder);
        DLT_SAYS(waiter, dlt_party_wake(waiter), DLOCK_OK, "the name was released [WAT-1]");
        DLT_BETWEEN(freed_ns, waiter->awake_ns, DLT_TOLD_MS, "a release wakes a waiter [C13]");
        dlt_best_take(&best, freed_ns, waiter->awake_ns);
        grant_is_good(waiter, fence);
        DLT_SAYS(waiter, dlt_party_renew(waiter), DLOCK_OK, "it has the lock");
        (void)dlt_party_release(waiter);
    }
    DLT_BETWEEN(best.begin_ns, best.end_ns, SOON_MS, "the soonest of %d wake-ups [WAT-1]", ROUNDS);
    dlt_parties_end(parties, 2);
}

void dlt_slots_wait_misses_nothing(struct dlt_run *run)
{
    struct dlt_party parties[2], *holder = &parties[0], *waiter = &parties[1];

    dlt_parties_begin(parties, 2, run);
    for (int i = 0; i < ROUNDS; i++) { /* the first time nothing is set up yet */
        int64_t freed_ns;

        dlt_party_anew(holder, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_anew(waiter, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_hold(holder);
        dlt_party_line_up(waiter);
        freed_ns = dlt_party_release(holder);
        DLT_TOLD(waiter, freed_ns, "the release came before the watch [WAT-2]");
        (void)dlt_party_release(waiter);
    }
    dlt_parties_end(parties, 2);
}

void dlt_slots_wait_keeps_its_deadline(struct dlt_run *run)
{
    struct dlt_party parties[2], *holder = &parties[0], *waiter = &parties[1];
    enum dlock_status status = DLOCK_INTERNAL;
    int64_t start_ns;

    dlt_parties_begin(parties, 2, run);
    dlt_party_hold(holder);
    dlt_party_settle(waiter);
    start_ns = dlt_now_ns();
    DLT_SAYS(waiter, dlt_party_wait(waiter, 500), DLOCK_TIMEOUT, "the name is held [WAT-1]");
    DLT_CHECK(dlt_ms_since(start_ns) >= 499, "watch ended after %.0f ms, want 500 [WAT-1]",
              dlt_ms_since(start_ns));
    DLT_WITHIN(start_ns, 500 + DLT_TOLD_MS, "watch with a deadline in 500 ms [WAT-1]");
    start_ns = dlt_now_ns();
    status = dlt_party_watch(waiter, -5); /* UNAVAILABLE: there is no time to make a connection */
    DLT_CHECK(status == DLOCK_TIMEOUT || status == DLOCK_UNAVAILABLE,
              "watch with a deadline that is over is %s, want TIMEOUT [WAT-1]",
              dlt_said(&waiter->side, status));
    DLT_WITHIN(start_ns, DLT_TOLD_MS, "watch with a deadline that is over [WAT-1]");
    DLT_SAYS(waiter, dlt_party_refresh(waiter), DLOCK_BUSY, "a wait that ended keeps its place");
    start_ns = dlt_party_release(holder);
    DLT_TOLD(waiter, start_ns, "the release came between two waits [WAT-2]");
    dlt_parties_end(parties, 2);
}

void dlt_slots_any_session_watches(struct dlt_run *run)
{
    struct dlt_party parties[2], beside, *holder = &parties[0], *waiter = &parties[1];
    int64_t freed_ns;
    void *self;

    dlt_parties_begin(parties, 2, run);
    dlt_party_beside(&beside, waiter, "another session of the second");
    dlt_party_hold(holder);
    dlt_party_settle(waiter);
    self = waiter->side.self; /* the attempt stays where it is */
    waiter->side.self = beside.side.self;
    beside.side.self = self;
    freed_ns = dlt_party_release(holder);
    DLT_TOLD(waiter, freed_ns, "its attempt was tried in another session [WAT-5]");
    DLT_SAYS(waiter, dlt_party_renew(waiter), DLOCK_OK, "it has the lock");
    dlt_party_end(&beside);
    dlt_parties_end(parties, 2);
}

/* Either it cannot be told, or it is told; and it takes the name by itself. */
void dlt_slots_wait_without_an_entry(struct dlt_run *run)
{
    struct dlt_party parties[2], *holder = &parties[0], *waiter = &parties[1];
    enum dlock_status status;
    int64_t freed_ns;

    dlt_parties_begin(parties, 2, run);
    dlt_party_hold(holder);
    DLT_SAYS(waiter, dlt_party_try(waiter), DLOCK_BUSY, "the name is held");
    freed_ns = dlt_party_release(holder);
    status = dlt_party_watch(waiter, 2 * DLT_TOLD_MS);
    DLT_CHECK(status == DLOCK_BUSY || status == DLOCK_UNAVAILABLE,
              "watch without a queue entry of a name that was released is %s, want BUSY or "
              "UNAVAILABLE [WAT-1]",
              dlt_said(&waiter->side, status));
    DLT_WITHIN(freed_ns, DLT_TOLD_MS, "watch of a name that was released [WAT-2]");
    DLT_SAYS(waiter, dlt_party_try(waiter), DLOCK_OK, "the name is free");
    dlt_parties_end(parties, 2);
}

#define NAMES 6

/* One connection may hear for all: whoever reads, each is told its own, and nobody else's. */
void dlt_slots_each_hears_its_own(struct dlt_run *run)
{
    struct dlt_party holders[NAMES], waiters[NAMES];

    dlt_parties_begin(holders, NAMES, run);
    dlt_party_begin(&waiters[0], run, "a waiter", NULL);
    for (int i = 1; i < NAMES; i++)
        dlt_party_beside(&waiters[i], &waiters[0], "a waiter");
    for (int i = 0; i < NAMES; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "job-%d", i);
        dlt_party_anew(&holders[i], name, DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_anew(&waiters[i], name, DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_hold(&holders[i]);
        dlt_party_settle(&waiters[i]);
    }
    for (int i = 0; i < NAMES; i++)
        dlt_party_sleep(&waiters[i], 2 * DLT_TOLD_MS);
    dlt_sleep_ms(50); /* they sleep now, mostly: what is right does not depend on it */
    for (int half = 0; half < 2; half++) { /* those that read are among the first ones */
        int64_t freed_ns[NAMES];

        for (int i = half; i < NAMES; i += 2)
            freed_ns[i] = dlt_party_release(&holders[i]);
        for (int i = half; i < NAMES; i += 2) {
            DLT_SAYS(&waiters[i], dlt_party_wake(&waiters[i]), DLOCK_OK,
                     "name %d of the client was released [WAT-5]", i);
            DLT_BETWEEN(freed_ns[i], waiters[i].awake_ns, DLT_TOLD_MS,
                        "the release of name %d wakes its waiter", i);
            DLT_CHECK(waiters[i].awake_ns >= freed_ns[i],
                      "the waiter of name %d has it before it was released [TRY-1]", i);
        }
    }
    for (int i = NAMES - 1; i >= 0; i--)
        dlt_party_end(&waiters[i]);
    dlt_parties_end(holders, NAMES);
}
