/* SPDX-License-Identifier: MIT */
/* Does `watch` wake whom it must, when it must, and nobody else? (WAT, C13) */
#include "party.h"
#include "slots.h"

#include <string.h>

#define ROUNDS 3

static void trio_begin(struct dlt_party *parties, struct dlt_run *run)
{
    static const char *const names[] = {"the holder", "the first waiter", "the second waiter"};

    for (int i = 0; i < 3; i++)
        dlt_party_begin(&parties[i], run, names[i], NULL);
}

static void trio_end(struct dlt_party *parties)
{
    for (int i = 2; i >= 0; i--)
        dlt_party_end(&parties[i]);
}

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

void dlt_slots_wait_is_told(struct dlt_run *run)
{
    struct dlt_party parties[3], *holder = &parties[0], *waiter = &parties[1];

    trio_begin(parties, run);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t freed_ns;
        uint64_t fence;

        dlt_party_anew(holder, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
        dlt_party_anew(waiter, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
        DLT_SAYS(holder, dlt_party_try(holder), DLOCK_OK, "the name is free");
        fence = dlt_party_fence(holder);
        dlt_party_settle(waiter);
        dlt_party_sleep(waiter, 2 * DLT_TOLD_MS);
        dlt_sleep_ms(50); /* it sleeps now, mostly: what is right does not depend on it */
        freed_ns = dlt_now_ns();
        DLT_SAYS(holder, dlt_party_unlock(holder), DLOCK_OK, "it holds the name");
        DLT_SAYS(waiter, dlt_party_wake(waiter), DLOCK_OK, "the name was released [WAT-1]");
        DLT_BETWEEN(freed_ns, waiter->awake_ns, DLT_TOLD_MS, "a release wakes a waiter [C13]");
        grant_is_good(waiter, fence);
        DLT_SAYS(waiter, dlt_party_renew(waiter), DLOCK_OK, "it has the lock");
        DLT_SAYS(waiter, dlt_party_unlock(waiter), DLOCK_OK, "it has the lock");
    }
    trio_end(parties);
}

void dlt_slots_wait_misses_nothing(struct dlt_run *run)
{
    struct dlt_party parties[3], *holder = &parties[0], *waiter = &parties[1];

    trio_begin(parties, run);
    for (int i = 0; i < ROUNDS; i++) { /* the first time nothing is set up yet */
        int64_t freed_ns;

        dlt_party_anew(holder, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
        dlt_party_anew(waiter, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
        DLT_SAYS(holder, dlt_party_try(holder), DLOCK_OK, "the name is free");
        dlt_party_line_up(waiter);
        DLT_SAYS(holder, dlt_party_unlock(holder), DLOCK_OK, "it holds the name");
        freed_ns = dlt_now_ns();
        DLT_TOLD(waiter, freed_ns, "the release came before the watch [WAT-2]");
        DLT_SAYS(waiter, dlt_party_unlock(waiter), DLOCK_OK, "it has the lock");
    }
    trio_end(parties);
}

void dlt_slots_wait_keeps_its_deadline(struct dlt_run *run)
{
    struct dlt_party parties[3], *holder = &parties[0], *waiter = &parties[1];
    int64_t start_ns;

    trio_begin(parties, run);
    DLT_SAYS(holder, dlt_party_try(holder), DLOCK_OK, "the name is free");
    dlt_party_settle(waiter);
    start_ns = dlt_now_ns();
    DLT_SAYS(waiter, dlt_party_wait(waiter, 500), DLOCK_TIMEOUT, "the name is held [WAT-1]");
    DLT_CHECK(dlt_ms_since(start_ns) >= 499, "watch ended after %.0f ms, want 500 [WAT-1]",
              dlt_ms_since(start_ns));
    DLT_WITHIN(start_ns, 500 + DLT_TOLD_MS, "watch with a deadline in 500 ms [WAT-1]");
    start_ns = dlt_now_ns();
    DLT_SAYS(waiter, dlt_party_watch(waiter, -5), DLOCK_TIMEOUT, "the deadline is over [WAT-1]");
    DLT_WITHIN(start_ns, DLT_TOLD_MS, "watch with a deadline that is over [WAT-1]");
    DLT_SAYS(waiter, dlt_party_refresh(waiter), DLOCK_BUSY, "a wait that ended keeps its place");
    start_ns = dlt_now_ns();
    DLT_SAYS(holder, dlt_party_unlock(holder), DLOCK_OK, "it holds the name");
    DLT_TOLD(waiter, start_ns, "the release came between two waits [WAT-2]");
    trio_end(parties);
}
