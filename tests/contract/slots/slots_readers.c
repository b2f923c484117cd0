/* SPDX-License-Identifier: MIT */
/* Do readers share a name, keep writers out, and let waiting ones in? (C12, C13) */
#include "calls.h"
#include "seen.h"
#include "slots.h"

#include <inttypes.h>

#define SHORT_MS 400

static void becomes(struct dlt_party *party, enum dlock_mode mode)
{
    dlt_party_anew(party, "job", mode, dlt_party_ttl_ms());
}

/* A letter a party: r of a reader, w of a writer. */
static void cast(struct dlt_party *parties, size_t n, struct dlt_run *run, const char *modes)
{
    dlt_parties_begin(parties, n, run);
    for (size_t i = 0; i < n; i++)
        becomes(&parties[i], modes[i] == 'r' ? DLOCK_SHARED : DLOCK_EXCLUSIVE);
}

static void must_end(const struct dlt_party *party)
{
    if (!dlt_party_is_leased(party))
        dlt_skip("not applicable: leases live in sessions");
}

void dlt_slots_reader_ends_its_own(struct dlt_run *run)
{
    struct dlt_party parties[4], *reader = &parties[0], *second = &parties[1], *third = &parties[2],
                                 *writer = &parties[3];

    cast(parties, 4, run, "rrrw");
    dlt_party_hold(reader);
    dlt_party_hold(second);
    if (!dlt_side_has(&third->side, DLOCK_CAP_SESSION)) {
        DLT_SAYS(third, dlt_party_unlock(third), DLOCK_LOST, "it holds nothing [UNL-1]");
        DLT_SAYS(writer, dlt_party_unlock(writer), DLOCK_LOST, "it holds nothing [UNL-1]");
        DLT_SAYS(third, dlt_party_renew(third), DLOCK_LOST, "it holds nothing [REN-2]");
    }
    (void)dlt_party_release(reader);
    if (!dlt_side_has(&reader->side, DLOCK_CAP_SESSION)) {
        DLT_SAYS(reader, dlt_party_unlock(reader), DLOCK_LOST,
                 "it has given its lease back [UNL-1]");
        DLT_SAYS(reader, dlt_party_renew(reader), DLOCK_LOST,
                 "it has given its lease back [REN-2]");
    }
    DLT_SAYS(second, dlt_party_renew(second), DLOCK_OK, "its lease is its own [UNL-1]");
    becomes(writer, DLOCK_EXCLUSIVE);
    DLT_SAYS(writer, dlt_party_try(writer), DLOCK_BUSY, "the second reads still");
    dlt_parties_end(parties, 4);
}

void dlt_slots_reader_again(struct dlt_run *run)
{
    struct dlt_party parties[2], *reader = &parties[0], *writer = &parties[1];
    uint64_t fence;

    cast(parties, 2, run, "rw");
    dlt_party_hold(reader);
    fence = reader->side.grant.fence;
    if (dlt_party_queues(writer))
        dlt_party_line_up(writer);
    DLT_SAYS(reader, dlt_party_try(reader), DLOCK_OK,
             "it reads already: who waits is not in its way [TRY-5]");
    DLT_CHECK(reader->side.grant.fence == fence, "its fence has changed [TRY-5]");
    if (dlt_party_is_leased(reader)) {
        int64_t start_ns = dlt_now_ns();

        reader->attempt.req.ttl_ms = run->grid_ms > SHORT_MS ? run->grid_ms : SHORT_MS;
        DLT_SAYS(reader, dlt_party_try(reader), DLOCK_OK, "it reads already [TRY-5]");
        DLT_CHECK(reader->side.grant.lease_ms <= reader->attempt.req.ttl_ms,
                  "more than the ttl that was asked for");
        DLT_SAYS(reader, dlt_party_renew(reader), DLOCK_OK, "it reads [REN-3]");
        while (dlt_ms_since(start_ns) <
               (double)dlt_party_ended_ms(reader, reader->attempt.req.ttl_ms))
            dlt_sleep_ms(20);
        DLT_SAYS(writer, dlt_party_try(writer), DLOCK_BUSY,
                 "a shorter ttl shortens nothing [TRY-5] [REN-3]");
    }
    dlt_parties_end(parties, 2);
}

void dlt_slots_reader_fences(struct dlt_run *run)
{
    struct dlt_party parties[4];
    uint64_t last = 0, fence;

    cast(parties, 4, run, "rrrw");
    for (int i = 0; i < 4; i++) {
        if (i == 3)
            for (int k = 0; k < 3; k++)
                (void)dlt_party_release(&parties[k]);
        dlt_party_hold(&parties[i]);
        fence = parties[i].side.grant.fence;
        DLT_CHECK(i == 3 ? fence > last : fence >= last,
                  "fence %" PRIu64 " of %s after %" PRIu64 " [TRY-6]", fence, parties[i].who, last);
        last = i == 2 ? dlt_party_fence(&parties[i]) : fence;
    }
    dlt_parties_end(parties, 4);
}

void dlt_slots_readers_are_granted_together(struct dlt_run *run)
{
    struct dlt_party parties[5], *holder = &parties[0], *first = &parties[1], *second = &parties[2],
                                 *writer = &parties[3], *last = &parties[4];
    int64_t freed_ns;

    cast(parties, 5, run, "wrrwr");
    dlt_party_hold(holder);
    for (int i = 1; i < 5; i++)
        dlt_party_settle(&parties[i]);
    freed_ns = dlt_party_release(holder);
    if (holder->side.plugin->ops.inspect != NULL)
        dlt_look_counts(holder, 2, "before either has asked [C13]");
    DLT_TOLD(first, freed_ns, "the writer released the name [C13]");
    DLT_TOLD(second, freed_ns, "the writer released the name [C13]");
    DLT_SAYS(first, dlt_party_renew(first), DLOCK_OK, "it reads");
    DLT_SAYS(second, dlt_party_renew(second), DLOCK_OK, "it reads");
    dlt_party_not_told(writer, "two read");
    dlt_party_not_told(last, "a writer came first [C13]");
    becomes(holder, DLOCK_SHARED);
    DLT_SAYS(holder, dlt_party_try(holder), DLOCK_BUSY, "a writer came first [C13]");
    DLT_SAYS(second, dlt_party_dequeue(second), DLOCK_OK, "it leaves what it was granted [DEQ-1]");
    dlt_party_not_told(writer, "one reads still");
    freed_ns = dlt_party_release(first);
    DLT_TOLD(writer, freed_ns, "the last reader has gone [C13]");
    dlt_party_not_told(last, "one writes");
    freed_ns = dlt_now_ns();
    DLT_SAYS(writer, dlt_party_dequeue(writer), DLOCK_OK, "it leaves what it was granted");
    DLT_TOLD(last, freed_ns, "the writer has left [DEQ-1]");
    dlt_parties_end(parties, 5);
}

void dlt_slots_reader_passes_no_writer(struct dlt_run *run)
{
    struct dlt_party parties[3], *reader = &parties[0], *writer = &parties[1],
                                 *second = &parties[2];
    int64_t freed_ns;

    cast(parties, 3, run, "rwr");
    dlt_party_hold(reader);
    DLT_SAYS(second, dlt_party_try_with(second, DLOCK_REQ_ENQUEUE), DLOCK_OK,
             "readers join readers [C13]");
    (void)dlt_party_release(second);
    becomes(second, DLOCK_SHARED);
    dlt_party_settle(writer);
    DLT_SAYS(second, dlt_party_try(second), DLOCK_BUSY, "a writer waits [C13]");
    dlt_party_settle(second);
    freed_ns = dlt_party_release(reader);
    dlt_party_not_told(second, "a writer came first [C13]");
    DLT_TOLD(writer, freed_ns, "the reader has gone [C13]");
    dlt_party_not_told(second, "one writes");
    freed_ns = dlt_party_release(writer);
    DLT_TOLD(second, freed_ns, "the writer has gone [C13]");
    dlt_parties_end(parties, 3);
}

void dlt_slots_writer_that_leaves(struct dlt_run *run)
{
    struct dlt_party parties[4], *reader = &parties[0], *writer = &parties[1],
                                 *second = &parties[2], *third = &parties[3];
    int64_t left_ns;

    cast(parties, 4, run, "rwrr");
    dlt_party_hold(reader);
    dlt_party_settle(writer);
    dlt_party_settle(second);
    dlt_party_settle(third);
    left_ns = dlt_now_ns();
    DLT_SAYS(writer, dlt_party_dequeue(writer), DLOCK_OK, "it is queued");
    DLT_TOLD(second, left_ns, "the writer before it has left [DEQ-1]");
    DLT_TOLD(third, left_ns, "the writer before it has left [DEQ-1]");
    DLT_SAYS(reader, dlt_party_renew(reader), DLOCK_OK, "it reads");
    dlt_parties_end(parties, 4);
}

void dlt_slots_writer_that_dies_in_the_queue(struct dlt_run *run)
{
    struct dlt_party writer, parties[3], *reader = &parties[0], *second = &parties[1],
                                         *third = &parties[2];
    int64_t start_ns, lease_ms;

    dlt_party_brief(&writer, run);
    cast(parties, 3, run, "rrr");
    dlt_party_hold(reader);
    start_ns = dlt_now_ns();
    dlt_party_line_up(&writer);
    lease_ms = writer.side.grant.lease_ms;
    dlt_party_settle(second);
    while (dlt_party_refresh(second) == DLOCK_BUSY) {
        DLT_WITHIN(start_ns, dlt_party_ended_ms(second, lease_ms) + DLT_TOLD_MS,
                   "a writer that died keeps readers out [C13]");
        dlt_sleep_ms(20);
    }
    DLT_SAYS(second, dlt_party_refresh(second), DLOCK_OK, "the writer before it died");
    DLT_CHECK(dlt_ms_since(start_ns) >= (double)lease_ms, "it passed a writer that waits [C13]");
    DLT_SAYS(third, dlt_party_try(third), DLOCK_OK, "nobody waits any more");
    DLT_SAYS(&writer, dlt_party_refresh(&writer), DLOCK_LOST, "its entry has ended [DEQ-3]");
    dlt_parties_end(parties, 3);
    dlt_party_end(&writer);
}

void dlt_slots_readers_that_died(struct dlt_run *run)
{
    struct dlt_party parties[3], *first = &parties[0], *second = &parties[1], *writer = &parties[2];
    int64_t start_ns, lease_ms;

    cast(parties, 3, run, "rrw");
    must_end(first);
    dlt_party_anew(first, "job", DLOCK_SHARED, SHORT_MS);
    dlt_party_anew(second, "job", DLOCK_SHARED, SHORT_MS + 300);
    dlt_party_hold(first);
    start_ns = dlt_now_ns();
    dlt_party_hold(second);
    lease_ms = second->side.grant.lease_ms;
    dlt_party_settle(writer);
    while (dlt_party_refresh(writer) == DLOCK_BUSY) {
        DLT_WITHIN(start_ns, dlt_party_ended_ms(writer, lease_ms) + DLT_TOLD_MS,
                   "readers that died keep a writer out [TRY-2]");
        dlt_sleep_ms(20);
    }
    DLT_SAYS(writer, dlt_party_refresh(writer), DLOCK_OK, "the readers died");
    DLT_CHECK(dlt_ms_since(start_ns) >= (double)lease_ms,
              "the lease of a reader ended early [TRY-2]");
    DLT_SAYS(first, dlt_party_renew(first), DLOCK_LOST, "it ran out [REN-2]");
    dlt_parties_end(parties, 3);
}

void dlt_slots_last_reader_wakes_a_writer(struct dlt_run *run)
{
    struct dlt_party parties[3], *first = &parties[0], *second = &parties[1], *writer = &parties[2];
    int64_t freed_ns;

    cast(parties, 3, run, "rrw");
    dlt_party_hold(first);
    dlt_party_hold(second);
    dlt_party_settle(writer);
    (void)dlt_party_release(first);
    dlt_party_not_told(writer, "one reads still");
    freed_ns = dlt_party_release(second);
    DLT_TOLD(writer, freed_ns, "the last reader has gone [WAT-1]");
    dlt_parties_end(parties, 3);
}

/* ---- the step from writer to reader ---- */

void dlt_slots_downgrade_wakes_readers(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[0], *reader = &parties[1],
                                 *writer = &parties[2], *last = &parties[3];
    bool queues;
    int64_t start_ns;

    cast(parties, 4, run, "wrwr");
    queues = dlt_party_queues(reader);
    dlt_party_hold(holder);
    dlt_party_settle(reader);
    if (queues) {
        dlt_party_settle(writer);
        dlt_party_settle(last);
    }
    start_ns = dlt_now_ns();
    DLT_SAYS(holder, dlt_party_downgrade(holder), DLOCK_OK, "it writes [C12]");
    DLT_CHECK(!queues || holder->side.grant.waiters == UINT32_MAX ||
                  holder->side.grant.waiters == 2,
              "%" PRIu32 " wait after the downgrade, want 2", holder->side.grant.waiters);
    DLT_TOLD(reader, start_ns, "who wrote reads now [C12] [C13]");
    if (queues) {
        dlt_party_not_told(writer, "two read");
        dlt_party_not_told(last, "a writer came first [C13]");
    }
    (void)dlt_party_release(holder);
    start_ns = dlt_party_release(reader);
    if (queues)
        DLT_TOLD(writer, start_ns, "the readers have gone [C13]");
    dlt_parties_end(parties, 4);
}
