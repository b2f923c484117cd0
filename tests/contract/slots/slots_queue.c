/* SPDX-License-Identifier: MIT */
/* Is the queue first come, first served, and what are its entries worth? (C13, LEA, REFRESH) */
#include "calls.h"
#include "session/slot.h"
#include "slots.h"

#include <inttypes.h>

#define BRIEF_MS 400

/* What a refused call said of the queue. */
static void place_is(const struct dlt_party *party, uint32_t position, uint32_t waiters)
{
    const struct dlock_grant *grant = &party->side.grant;

    if (grant->waiters == UINT32_MAX)
        return; /* the store does not say */
    DLT_CHECK(grant->waiters == waiters, "%s hears of %" PRIu32 " others, want %" PRIu32,
              party->who, grant->waiters, waiters);
    DLT_CHECK(grant->queue_position == position, "%s is at %" PRIu32 ", want %" PRIu32, party->who,
              grant->queue_position, position);
}

static bool waiter_count(void *arg, const struct dlock_waiter *waiter)
{
    (void)waiter;
    ++*(uint32_t *)arg;
    return true;
}

/* list_waiters ends when its caller has enough. */
static void one_is_enough(struct dlt_party *asker)
{
    struct dlt_side *side = &asker->side;
    uint32_t count = 0;

    if (side->plugin->ops.list_waiters == NULL)
        return;
    DLT_SAYS(asker,
             dl_slot_list_waiters(
                 side->plugin, side->self, asker->attempt.req.name, asker->attempt.req.name_len,
                 dlt_now_ns() + side->call_ms * DLT_NS_PER_MS, waiter_count, &count, &side->err),
             DLOCK_OK, "on a good network");
    DLT_CHECK(count == 1, "list_waiters told of %" PRIu32 ", and one was enough", count);
}

void dlt_slots_queue_says_where(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[0], *first = &parties[1], *second = &parties[2],
                                 *stranger = &parties[3];
    uint64_t fence;

    dlt_parties_begin(parties, 4, run);
    DLT_SAYS(holder, dlt_party_try_with(holder, DLOCK_REQ_ENQUEUE), DLOCK_OK,
             "ENQUEUE of a free name takes it");
    DLT_CHECK(holder->side.grant.flags == 0, "a grant has flags");
    fence = holder->side.grant.fence;
    dlt_party_line_up(first);
    DLT_CHECK(first->side.grant.lease_ms > 0, "the queue entry lasts 0 ms");
    DLT_CHECK(first->side.grant.fence >= fence,
              "the counter of QUEUED is less than the last grant");
    place_is(first, 0, 0);
    dlt_party_line_up(second);
    place_is(second, 1, 1);
    dlt_party_line_up(first); /* again, after an answer that was lost */
    place_is(first, 0, 1);
    DLT_SAYS(second, dlt_party_refresh(second), DLOCK_BUSY, "it is queued");
    place_is(second, 1, 1);
    DLT_SAYS(stranger, dlt_party_try(stranger), DLOCK_BUSY, "the name is held");
    DLT_CHECK((stranger->side.grant.flags & DLOCK_GRANT_QUEUED) == 0,
              "trylock without ENQUEUE queued");
    DLT_SAYS(holder, dlt_party_renew(holder), DLOCK_OK, "it holds the name");
    DLT_CHECK(holder->side.grant.waiters == UINT32_MAX || holder->side.grant.waiters == 2,
              "renew says that %" PRIu32 " wait, want 2", holder->side.grant.waiters);
    one_is_enough(stranger);
    dlt_parties_end(parties, 4);
}

void dlt_slots_queue_is_fifo(struct dlt_run *run)
{
    struct dlt_party parties[5], *stranger = &parties[4];
    uint64_t fence = 0;

    dlt_parties_begin(parties, 5, run);
    dlt_party_hold(&parties[0]);
    for (int i = 1; i < 4; i++)
        dlt_party_settle(&parties[i]);
    for (int i = 1; i < 4; i++) {
        struct dlt_party *next = &parties[i];
        int64_t freed_ns;

        fence = dlt_party_fence(&parties[i - 1]) > fence ? dlt_party_fence(&parties[i - 1]) : fence;
        freed_ns = dlt_party_release(&parties[i - 1]);
        DLT_SAYS(stranger, dlt_party_try(stranger), DLOCK_BUSY, "the next one has the name [C13]");
        for (int k = i + 1; k < 4; k++)
            DLT_SAYS(&parties[k], dlt_party_refresh(&parties[k]), DLOCK_BUSY,
                     "others came first [C13]");
        DLT_TOLD(next, freed_ns, "the one before released the name [WAT-1]");
        DLT_CHECK(!dlt_side_has(&next->side, DLOCK_CAP_FENCE) || next->side.grant.fence > fence,
                  "fence %" PRIu64 " of %s after %" PRIu64 " [TRY-6]", next->side.grant.fence,
                  next->who, fence);
        DLT_SAYS(next, dlt_party_renew(next), DLOCK_OK, "it has the name");
    }
    (void)dlt_party_release(&parties[3]);
    DLT_SAYS(stranger, dlt_party_try(stranger), DLOCK_OK, "nobody waits any more");
    dlt_parties_end(parties, 5);
}

void dlt_slots_refresh_never_enqueues(struct dlt_run *run)
{
    struct dlt_party parties[2], *holder = &parties[0], *other = &parties[1];

    dlt_parties_begin(parties, 2, run);
    DLT_SAYS(other, dlt_party_refresh(other), DLOCK_LOST, "a name that nobody used");
    dlt_party_hold(holder);
    DLT_SAYS(other, dlt_party_refresh(other), DLOCK_LOST, "it has no queue entry");
    DLT_SAYS(other, dlt_party_try_with(other, DLOCK_REQ_REFRESH | DLOCK_REQ_ENQUEUE), DLOCK_BUSY,
             "it has no queue entry");
    DLT_CHECK((other->side.grant.flags & DLOCK_GRANT_QUEUED) == 0, "REFRESH made a queue entry");
    DLT_SAYS(other, dlt_party_refresh(other), DLOCK_LOST, "it has no queue entry still");
    (void)dlt_party_release(holder);
    DLT_SAYS(other, dlt_party_refresh(other), DLOCK_LOST, "REFRESH takes no free name");
    dlt_party_anew(holder, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_party_hold(holder);
    dlt_parties_end(parties, 2);
}

void dlt_slots_unlock_keeps_the_entry(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[0], *first = &parties[1], *second = &parties[2],
                                 *stranger = &parties[3];

    dlt_parties_begin(parties, 4, run);
    dlt_party_hold(holder);
    dlt_party_line_up(first);
    dlt_party_line_up(second);
    DLT_SAYS(stranger, dlt_party_unlock(stranger), DLOCK_LOST, "it holds nothing [UNL-1]");
    DLT_SAYS(second, dlt_party_unlock(second), DLOCK_LOST, "a queue entry is no lease [UNL-1]");
    DLT_SAYS(second, dlt_party_refresh(second), DLOCK_BUSY, "unlock leaves the entry [DEQ-2]");
    DLT_SAYS(first, dlt_party_renew(first), DLOCK_LOST, "a queue entry is no lease [REN-2]");
    DLT_SAYS(first, dlt_party_refresh(first), DLOCK_BUSY, "the holder has the name still [UNL-1]");
    DLT_SAYS(holder, dlt_party_renew(holder), DLOCK_OK, "others do not touch its lease [UNL-1]");
    (void)dlt_party_release(holder);
    DLT_SAYS(holder, dlt_party_unlock(holder), DLOCK_LOST, "it has given the name back [UNL-1]");
    DLT_SAYS(first, dlt_party_refresh(first), DLOCK_OK, "the holder released the name");
    DLT_SAYS(first, dlt_party_renew(first), DLOCK_OK, "it has the name [UNL-1]");
    dlt_parties_end(parties, 4);
}

void dlt_slots_dequeue_passes_on(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[0], *first = &parties[1], *second = &parties[2],
                                 *third = &parties[3];
    int64_t freed_ns;

    dlt_parties_begin(parties, 4, run);
    DLT_SAYS(first, dlt_party_dequeue(first), DLOCK_OK,
             "a token and a name that nobody used [DEQ-2]");
    dlt_party_hold(holder);
    dlt_party_line_up(first);
    dlt_party_settle(second);
    DLT_SAYS(third, dlt_party_dequeue(third), DLOCK_OK, "an unknown token [DEQ-2]");
    DLT_SAYS(first, dlt_party_refresh(first), DLOCK_BUSY, "others left [DEQ-2]");
    DLT_SAYS(holder, dlt_party_renew(holder), DLOCK_OK, "others left [DEQ-2]");
    for (int i = 0; i < 2; i++)
        DLT_SAYS(first, dlt_party_dequeue(first), DLOCK_OK, "it may be repeated [DEQ-3]");
    DLT_SAYS(first, dlt_party_refresh(first), DLOCK_LOST, "it has left the queue [DEQ-2]");
    dlt_party_not_told(second, "who left does not hold the name");
    freed_ns = dlt_party_release(holder);
    DLT_TOLD(second, freed_ns, "the one before has left the queue");

    dlt_party_anew(first, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_party_line_up(first);
    dlt_party_settle(third);
    (void)dlt_party_release(second); /* granted to the first, who does not look */
    freed_ns = dlt_now_ns();
    DLT_SAYS(first, dlt_party_dequeue(first), DLOCK_OK, "it was granted [DEQ-1]");
    DLT_TOLD(third, freed_ns, "the one before left what it was granted [DEQ-1]");
    DLT_SAYS(first, dlt_party_refresh(first), DLOCK_LOST, "it has left [DEQ-1]");
    DLT_SAYS(third, dlt_party_dequeue(third), DLOCK_OK, "it was granted [DEQ-2]");
    dlt_party_anew(holder, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    DLT_SAYS(holder, dlt_party_try(holder), DLOCK_OK, "all have left [DEQ-2]");
    dlt_parties_end(parties, 4);
}

void dlt_slots_dequeue_wakes_nobody(struct dlt_run *run)
{
    struct dlt_party parties[3], *holder = &parties[0], *first = &parties[1], *second = &parties[2];

    dlt_parties_begin(parties, 3, run);
    dlt_party_hold(holder);
    dlt_party_settle(first);
    dlt_party_settle(second);
    dlt_party_sleep(second, 2 * DLT_TOLD_MS);
    dlt_sleep_ms(50); /* it sleeps now, mostly: what is right does not depend on it */
    DLT_SAYS(first, dlt_party_dequeue(first), DLOCK_OK, "it is queued");
    DLT_SAYS(holder, dlt_party_renew(holder), DLOCK_OK, "it holds the name");
    {
        int64_t freed_ns = dlt_party_release(holder);

        DLT_SAYS(second, dlt_party_wake(second), DLOCK_OK, "it found the holder before it [DEQ-1]");
        DLT_CHECK(second->awake_ns >= freed_ns, "a waiter that left lets the next one in [DEQ-1]");
        DLT_BETWEEN(freed_ns, second->awake_ns, DLT_TOLD_MS, "the release wakes the next one");
    }
    dlt_parties_end(parties, 3);
}

/* ---- entries that end ---- */

/* Until so many wait, as the store tells; where it does not, until the entries must have ended. */
static void waiters_become(struct dlt_party *holder, uint32_t wanted, int64_t since_ns,
                           int64_t lease_ms)
{
    int64_t most_ms = dlt_party_ended_ms(holder, lease_ms);
    uint32_t waiters;

    while ((waiters = dlt_party_waiters(holder)) != wanted) {
        if (waiters == UINT32_MAX && dlt_ms_since(since_ns) > (double)most_ms)
            return;
        DLT_CHECK(waiters > wanted, "%" PRIu32 " wait, want %" PRIu32, waiters, wanted);
        if (waiters != UINT32_MAX)
            DLT_WITHIN(since_ns, most_ms, "a queue entry of %" PRId64 " ms has not ended [DEQ-3]",
                       lease_ms);
        dlt_sleep_ms(20);
    }
    DLT_CHECK(dlt_ms_since(since_ns) >= (double)lease_ms,
              "a queue entry of %" PRId64 " ms ended after %.0f ms", lease_ms,
              dlt_ms_since(since_ns));
}

void dlt_slots_entry_ends_by_itself(struct dlt_run *run)
{
    struct dlt_party brief, parties[3], *holder = &parties[0], *second = &parties[1],
                                        *stranger = &parties[2];
    int64_t start_ns, freed_ns;

    dlt_party_brief(&brief, run);
    dlt_parties_begin(parties, 3, run);
    dlt_party_hold(holder);
    start_ns = dlt_now_ns();
    dlt_party_line_up(&brief); /* and dies */
    dlt_party_line_up(second);
    waiters_become(holder, 1, start_ns, brief.side.grant.lease_ms);
    DLT_SAYS(second, dlt_party_refresh(second), DLOCK_BUSY, "its entry is longer");
    freed_ns = dlt_party_release(holder);
    DLT_TOLD(second, freed_ns, "the one before it is dead [C13]");
    DLT_SAYS(&brief, dlt_party_refresh(&brief), DLOCK_LOST, "its entry has ended [DEQ-3]");

    dlt_party_anew(&brief, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    start_ns = dlt_now_ns();
    dlt_party_line_up(&brief);
    waiters_become(second, 0, start_ns, brief.side.grant.lease_ms);
    (void)dlt_party_release(second);
    DLT_SAYS(stranger, dlt_party_try(stranger), DLOCK_OK, "all who waited are dead [C13]");
    dlt_parties_end(parties, 3);
    dlt_party_end(&brief);
}

void dlt_slots_refresh_keeps_the_entry(struct dlt_run *run)
{
    struct dlt_party brief, parties[2], *holder = &parties[0], *second = &parties[1];
    int64_t start_ns = dlt_now_ns(), asked_ns, freed_ns, lease_ms;

    dlt_party_brief(&brief, run);
    dlt_parties_begin(parties, 2, run);
    dlt_party_hold(holder);
    asked_ns = dlt_now_ns();
    dlt_party_line_up(&brief);
    dlt_party_line_up(second);
    lease_ms = brief.side.grant.lease_ms;
    while (dlt_ms_since(start_ns) < 3.0 * (double)dlt_party_ended_ms(&brief, lease_ms) / 2) {
        enum dlock_status status;

        dlt_sleep_ms(lease_ms / 4);
        status = dlt_party_refresh(&brief);
        if (status == DLOCK_LOST)
            DLT_WITHIN(asked_ns, lease_ms,
                       "an entry of %" PRId64 " ms that was refreshed has ended", lease_ms);
        DLT_SAYS(&brief, status, DLOCK_BUSY, "it refreshes its entry");
        asked_ns = dlt_now_ns();
        place_is(&brief, 0, 1);
        DLT_SAYS(second, dlt_party_refresh(second), DLOCK_BUSY, "it refreshes its entry");
    }
    freed_ns = dlt_party_release(holder);
    DLT_TOLD(&brief, freed_ns, "its entry is the first still");
    dlt_parties_end(parties, 2);
    dlt_party_end(&brief);
}

/* ---- holders that died ---- */

/* Whoever asks meanwhile, it is for the first, who does not ask: a stranger, the second, or nobody.
 */
static void first_follows(struct dlt_party *parties, int round, int64_t start_ns, int64_t lease_ms)
{
    int64_t over_ns = dlt_now_ns() + (lease_ms + parties->run->grid_ms) * DLT_NS_PER_MS;
    struct dlt_party *first = &parties[1], *second = &parties[2], *stranger = &parties[3];
    enum dlock_status status = DLOCK_TIMEOUT;

    while (status != DLOCK_OK) {
        bool over = dlt_now_ns() > over_ns; /* and the others ask first */

        if (round == 0)
            DLT_SAYS(stranger, dlt_party_try(stranger), DLOCK_BUSY, "others wait [C13]");
        else if (round == 1)
            DLT_SAYS(second, dlt_party_refresh(second), DLOCK_BUSY, "another came first [C13]");
        DLT_WITHIN(start_ns, dlt_party_ended_ms(first, lease_ms) + DLT_TOLD_MS,
                   "a lease of %" PRId64 " ms of a holder that died goes to the first [TRY-2]",
                   lease_ms);
        status = dlt_party_watch(first, 20);
        if (status != DLOCK_OK && over) /* as core does at the end of a lease */
            status = dlt_party_refresh(first);
    }
}

void dlt_slots_dead_holder_is_followed(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[0], *first = &parties[1], *second = &parties[2];

    dlt_parties_begin(parties, 4, run);
    if (dlt_side_has(&holder->side, DLOCK_CAP_TETHERED))
        dlt_skip("not applicable: leases live in the client's session");
    for (int round = 0; round < 3; round++) {
        int64_t start_ns = dlt_now_ns(), lease_ms;

        for (int i = 0; i < 3; i++)
            dlt_party_anew(&parties[i], "job", DLOCK_EXCLUSIVE,
                           i == 0 ? BRIEF_MS : dlt_party_ttl_ms());
        dlt_party_hold(holder); /* and dies */
        lease_ms = holder->side.grant.lease_ms;
        dlt_party_settle(first);
        dlt_party_line_up(second);
        first_follows(parties, round, start_ns, lease_ms);
        DLT_CHECK(dlt_ms_since(start_ns) >= (double)lease_ms,
                  "a lease of %" PRId64 " ms ended after %.0f ms [TRY-2]", lease_ms,
                  dlt_ms_since(start_ns));
        DLT_SAYS(holder, dlt_party_renew(holder), DLOCK_LOST, "its lease has run out [REN-2]");
        DLT_SAYS(first, dlt_party_renew(first), DLOCK_OK, "it has the name");
        start_ns = dlt_party_release(first);
        DLT_TOLD(second, start_ns, "the first has released the name");
        (void)dlt_party_release(second);
    }
    dlt_parties_end(parties, 4);
}

/* ---- grants ---- */

void dlt_slots_grant_of_the_queue(struct dlt_run *run)
{
    struct dlt_party parties[3], *holder = &parties[0], *first = &parties[1],
                                 *stranger = &parties[2];
    struct dlock_grant *grant = &first->side.grant;
    int64_t ttl_ms, freed_ns;
    uint64_t fence;

    dlt_parties_begin(parties, 3, run);
    ttl_ms = first->attempt.req.ttl_ms;
    dlt_party_hold(holder);
    dlt_party_settle(first);
    freed_ns = dlt_party_release(holder);
    DLT_TOLD(first, freed_ns, "the holder released the name");
    fence = grant->fence;
    DLT_CHECK(grant->lease_ms > 0 && grant->lease_ms <= ttl_ms, "the grant lasts %" PRId64 " ms",
              grant->lease_ms);
    DLT_SAYS(first, dlt_party_try_with(first, DLOCK_REQ_ENQUEUE), DLOCK_OK,
             "it has the name [TRY-5]");
    DLT_CHECK(grant->fence == fence, "its fence has changed [TRY-5]");
    DLT_SAYS(first, dlt_party_renew(first), DLOCK_OK, "it has the name");
    DLT_CHECK(grant->lease_ms == ttl_ms, "the first renewal gives %" PRId64 " ms, want the ttl",
              grant->lease_ms);
    if (!dlt_side_has(&first->side, DLOCK_CAP_TETHERED)) {
        first->attempt.req.ttl_ms = run->grid_ms > 0 ? run->grid_ms : BRIEF_MS;
        DLT_SAYS(first, dlt_party_refresh(first), DLOCK_OK, "it has the name");
        DLT_CHECK(grant->lease_ms <= first->attempt.req.ttl_ms,
                  "more than the ttl that was asked for");
        DLT_SAYS(first, dlt_party_renew(first), DLOCK_OK, "it has the name");
        DLT_CHECK(grant->lease_ms <= first->attempt.req.ttl_ms,
                  "more than the ttl that was asked for");
        dlt_sleep_ms(dlt_party_ended_ms(first, first->attempt.req.ttl_ms));
        DLT_SAYS(stranger, dlt_party_try(stranger), DLOCK_BUSY,
                 "a shorter ttl shortens nothing [TRY-5] [REN-3]");
    }
    dlt_parties_end(parties, 3);
}

void dlt_slots_old_grant_is_dropped(struct dlt_run *run)
{
    struct dlt_party parties[2], *holder = &parties[0], *waiter = &parties[1];
    int64_t freed_ns, most_ms;
    uint64_t counter;

    dlt_parties_begin(parties, 2, run);
    if (dlt_side_has(&holder->side, DLOCK_CAP_TETHERED))
        dlt_skip("not applicable: leases live in the client's session");
    dlt_party_anew(waiter, "job", DLOCK_EXCLUSIVE, BRIEF_MS); /* so long does a grant last */
    most_ms = dlt_party_ended_ms(waiter, waiter->attempt.req.ttl_ms);
    dlt_party_hold(holder);
    dlt_party_settle(waiter);
    freed_ns = dlt_party_release(holder);
    dlt_party_anew(holder, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    while (dlt_party_try(holder) == DLOCK_BUSY) { /* the waiter does not look */
        DLT_WITHIN(freed_ns, most_ms + DLT_TOLD_MS,
                   "the grant of a waiter that died has not ended [TRY-2]");
        dlt_sleep_ms(20);
    }
    DLT_SAYS(holder, dlt_party_try(holder), DLOCK_OK, "the grant before has ended");
    dlt_party_line_up(waiter);
    counter = waiter->side.grant.fence;
    DLT_SAYS(waiter, dlt_party_wait(waiter, 300), DLOCK_TIMEOUT,
             "its grant was an old one [WAT-4]");
    freed_ns = dlt_party_release(holder);
    DLT_TOLD(waiter, freed_ns, "the holder released the name");
    DLT_CHECK(waiter->side.grant.fence > counter,
              "fence %" PRIu64 " of a grant after QUEUED with %" PRIu64 " [WAT-4]",
              waiter->side.grant.fence, counter);
    dlt_parties_end(parties, 2);
}

void dlt_slots_each_name_its_queue(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[0], *first = &parties[1], *away = &parties[2],
                                 *second = &parties[3];
    int64_t freed_ns;

    dlt_parties_begin(parties, 4, run);
    dlt_party_anew(away, "jobs", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_party_anew(second, "jobs", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_party_hold(holder);
    dlt_party_hold(away);
    dlt_party_settle(first);
    dlt_party_settle(second);
    place_is(second, 0, 0);
    freed_ns = dlt_party_release(away);
    DLT_TOLD(second, freed_ns, "the name was released [TRY-7]");
    dlt_party_not_told(first, "another name was released [TRY-7]");
    DLT_SAYS(first, dlt_party_refresh(first), DLOCK_BUSY, "another name was released [TRY-7]");
    dlt_parties_end(parties, 4);
}
