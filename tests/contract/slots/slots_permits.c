/* SPDX-License-Identifier: MIT */
/* Permits of a semaphore: LIM-1 and LIM-2. */
#include "calls.h"
#include "seen.h"
#include "slots.h"

#include <stdlib.h>
#include <string.h>

static void permits_begin(struct dlt_party *parties, size_t n, const struct dlt_run *run,
                          uint32_t limit)
{
    dlt_parties_begin(parties, n, run);
    for (size_t i = 0; i < n; i++)
        parties[i].attempt.req.limit = limit;
}

static void anew(struct dlt_party *party, int64_t ttl_ms)
{
    uint32_t limit = party->attempt.req.limit;

    dlt_party_anew(party, "job", DLOCK_EXCLUSIVE, ttl_ms);
    party->attempt.req.limit = limit;
}

static void has_permit(const struct dlt_party *party, uint32_t want)
{
    DLT_CHECK(party->side.grant.permit == want, "%s has permit %u, want %u, the lowest [LIM-2]",
              party->who, party->side.grant.permit, want);
}

/* A grant, with a fence above *fence, which becomes its last number. */
static void takes(struct dlt_party *party, uint32_t permit, uint64_t *fence)
{
    dlt_tries(party, DLOCK_OK, "with a permit free");
    has_permit(party, permit);
    DLT_CHECK(!dlt_side_has(&party->side, DLOCK_CAP_FENCE) || party->side.grant.fence > *fence,
              "%s has fence %llu after %llu [LIM-2] [TRY-6]", party->who,
              (unsigned long long)party->side.grant.fence, (unsigned long long)*fence);
    *fence = dlt_party_fence(party);
}

void dlt_slots_permits_lowest(struct dlt_run *run)
{
    struct dlt_party parties[4], *a = &parties[0], *b = &parties[1], *c = &parties[2],
                                 *d = &parties[3];
    struct dlt_seen seen;
    uint64_t fence = 0, first;

    permits_begin(parties, 4, run, 3);
    takes(a, 0, &fence);
    takes(b, 1, &fence);
    takes(c, 2, &fence);
    for (int i = 0; i < 2; i++) /* the second look may be another path */
        dlt_tries(d, DLOCK_BUSY, "of a semaphore without a free permit");
    dlt_unlocks(b, DLOCK_OK, "by a holder");
    takes(d, 1, &fence);
    first = d->side.grant.fence;
    d->attempt.req.ttl_ms = dlt_party_ttl_ms() / 2;
    dlt_tries(d, DLOCK_OK, "by a token that holds a permit [TRY-5]");
    d->attempt.req.ttl_ms = dlt_party_ttl_ms();
    has_permit(d, 1);
    DLT_CHECK(d->side.grant.fence == first, "the same token has fence %llu, and then %llu [TRY-5]",
              (unsigned long long)first, (unsigned long long)d->side.grant.fence);
    dlt_renews(d, DLOCK_OK, "of a permit");
    dlt_renews(c, DLOCK_OK, "of another permit");
    dlt_unlocks(a, DLOCK_OK, "by a holder");
    dlt_unlocks(a, DLOCK_LOST, "of a permit that was released");
    dlt_renews(b, DLOCK_LOST, "of a permit that was released");
    dlt_look(&seen, a);
    DLT_CHECK(seen.count == 2, "%zu of two holders are shown", seen.count);
    DLT_CHECK(dlt_seen_of(&seen, d)->told.remaining_ms == -1 || !dlt_party_is_leased(d) ||
                  dlt_seen_of(&seen, d)->told.remaining_ms > dlt_party_ttl_ms() * 3 / 4,
              "a shorter ttl has shortened the lease to %lld ms [TRY-5]",
              (long long)dlt_seen_of(&seen, d)->told.remaining_ms);
    DLT_CHECK(dlt_seen_of(&seen, d)->told.permit == 1 && dlt_seen_of(&seen, c)->told.permit == 2 &&
                  dlt_seen_of(&seen, c)->told.limit == 3,
              "the permits 1 and 2 of 3 are shown as others [LIM-2]");
    anew(a, dlt_party_ttl_ms());
    takes(a, 0, &fence);
    dlt_unlocks(a, DLOCK_OK, "by a holder");
    dlt_unlocks(c, DLOCK_OK, "by a holder");
    dlt_unlocks(d, DLOCK_OK, "by the last holder");
    dlt_look_counts(a, 0, "of a semaphore that nobody holds");
    dlt_parties_end(parties, 4);
}

/* The text has the number as a word. */
static bool has_number(const char *text, uint32_t number)
{
    for (const char *at = text; (at = strpbrk(at, "0123456789")) != NULL;) {
        char *end = NULL;

        if (strtoul(at, &end, 10) == number)
            return true;
        at = end;
    }
    return false;
}

/* Also with a queue entry. */
static void refused(struct dlt_party *party, uint32_t now)
{
    uint32_t most = dlt_party_queues(party) ? DLOCK_REQ_ENQUEUE : 0;

    for (uint32_t flags = 0; flags <= most; flags += DLOCK_REQ_ENQUEUE) {
        const char *text = party->side.err.message;

        DLT_SAYS(party, dlt_party_try_with(party, flags), DLOCK_CONFIG, "another limit [LIM-1]");
        DLT_CHECK(has_number(text, now) && has_number(text, party->attempt.req.limit),
                  "\"%s\" does not have both numbers, %u and %u [LIM-1]", text, now,
                  party->attempt.req.limit);
    }
}

static void asks_for(struct dlt_party *party, uint32_t limit, enum dlock_mode mode)
{
    dlt_party_anew(party, "job", mode, dlt_party_ttl_ms());
    party->attempt.req.limit = limit;
}

void dlt_slots_permits_one_number(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];

    permits_begin(parties, 3, run, 7);
    dlt_tries(a, DLOCK_OK, "of a free name");
    asks_for(b, 29, DLOCK_EXCLUSIVE);
    refused(b, 7);
    asks_for(b, 1, DLOCK_EXCLUSIVE);
    refused(b, 7);
    if (dlt_side_has(&b->side, DLOCK_CAP_RWLOCK)) {
        asks_for(b, 1, DLOCK_SHARED);
        refused(b, 7);
    }
    dlt_tries(c, DLOCK_OK, "with the same limit");
    dlt_unlocks(a, DLOCK_OK, "by a holder");
    asks_for(b, 29, DLOCK_EXCLUSIVE);
    refused(b, 7);
    dlt_unlocks(c, DLOCK_OK, "by the last holder");
    dlt_tries(b, DLOCK_OK, "with another limit, of a free name");
    has_permit(b, 0);
    asks_for(a, 7, DLOCK_EXCLUSIVE);
    refused(a, 29);
    dlt_unlocks(b, DLOCK_OK, "by the holder");
    asks_for(b, 1, DLOCK_EXCLUSIVE);
    dlt_tries(b, DLOCK_OK, "as a lock, of a free name");
    refused(a, 1);
    dlt_unlocks(b, DLOCK_OK, "by the holder");
    dlt_tries(a, DLOCK_OK, "as a semaphore, of a free name");
    dlt_unlocks(a, DLOCK_OK, "by the holder");
    dlt_parties_end(parties, 3);
}

void dlt_slots_permits_in_order(struct dlt_run *run)
{
    struct dlt_party parties[4], *a = &parties[0], *b = &parties[1], *c = &parties[2],
                                 *d = &parties[3];
    uint64_t fence = 0;

    permits_begin(parties, 4, run, 2);
    takes(a, 0, &fence);
    takes(b, 1, &fence);
    dlt_party_line_up(c);
    dlt_party_line_up(d);
    DLT_CHECK(d->side.grant.queue_position == 1, "the second waiter is at position %u [LIM-1]",
              d->side.grant.queue_position);
    dlt_unlocks(b, DLOCK_OK, "by a holder");
    DLT_SAYS(d, dlt_party_refresh(d), DLOCK_BUSY, "the waiter before it has the right to it");
    anew(b, dlt_party_ttl_ms());
    dlt_tries(b, DLOCK_BUSY, "while others wait");
    DLT_SAYS(c, dlt_party_wait(c, DLT_TOLD_MS), DLOCK_OK, "a permit came back");
    has_permit(c, 1);
    dlt_unlocks(a, DLOCK_OK, "by a holder");
    DLT_SAYS(d, dlt_party_dequeue(d), DLOCK_OK, "it may have been granted [DEQ-1]");
    DLT_SAYS(d, dlt_party_dequeue(d), DLOCK_OK, "an unknown token [DEQ-2]");
    dlt_tries(b, DLOCK_OK, "after the last waiter left");
    has_permit(b, 0);
    dlt_unlocks(b, DLOCK_OK, "by a holder");
    dlt_unlocks(c, DLOCK_OK, "by a holder");
    dlt_parties_end(parties, 4);
}

/* One lease ends by itself: the other one, and its permit, stay. */
void dlt_slots_permit_ends(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    enum dlock_status status = DLOCK_BUSY;
    uint64_t fence = 0;

    permits_begin(parties, 3, run, 2);
    if (!dlt_party_is_leased(a))
        dlt_skip("leases live in sessions");
    anew(a, DLT_SHORT_MS);
    takes(a, 0, &fence);
    takes(b, 1, &fence);
    if (dlt_party_queues(c))
        dlt_party_line_up(c);
    else
        dlt_tries(c, DLOCK_BUSY, "of a semaphore without a free permit");
    DLT_CHECK(c->side.grant.holder_ms <= a->attempt.req.ttl_ms + run->grid_ms + 1000,
              "the first permit to come back has %lld ms left [TRY-3]",
              (long long)c->side.grant.holder_ms);
    while (status == DLOCK_BUSY) {
        dlt_sleep_ms(10);
        status = dlt_party_refresh(c);
    }
    DLT_SAYS(c, status, DLOCK_OK, "the lease of a permit has ended [LIM-1] [TRY-2]");
    has_permit(c, 0);
    dlt_renews(a, DLOCK_LOST, "of a lease that ended");
    dlt_unlocks(a, DLOCK_LOST, "after a lease that ended");
    dlt_renews(b, DLOCK_OK, "of the other permit");
    dlt_look_counts(a, 2, "of two");
    dlt_unlocks(b, DLOCK_OK, "by a holder");
    dlt_unlocks(c, DLOCK_OK, "by a holder");
    dlt_parties_end(parties, 3);
}
