/* SPDX-License-Identifier: MIT */
/* What inspect, list and list_waiters show: live holders and waiters, and nothing else (C20). */
#include "calls.h"
#include "seen.h"
#include "session/slot.h"
#include "slots.h"

#include <string.h>

#define HELD_MS 20 /* what held_ms has to show */

static void shown_check(const struct dlt_seen *seen, struct dlt_party *party, enum dlock_mode mode)
{
    const struct dlt_seen_holder *holder = dlt_seen_of(seen, party);
    const struct dlock_holder *told = &holder->told;
    int64_t ttl_ms = party->attempt.req.ttl_ms;

    DLT_CHECK(strcmp(holder->name, party->attempt.name.text) == 0, "the name \"%s\" is shown",
              holder->name);
    DLT_CHECK(strcmp(holder->label, party->attempt.req.label) == 0, "the label \"%s\" is shown",
              holder->label);
    DLT_CHECK(told->mode == mode, "the mode %d of %s is shown, want %d", (int)told->mode,
              party->who, (int)mode);
    DLT_CHECK(told->limit == 0 && told->kept == 0 && told->permit == 0,
              "a lock is shown with limit %u, permit %u, kept %u", told->limit, told->permit,
              told->kept);
    DLT_CHECK(told->remaining_ms <= ttl_ms + 2000 + party->run->grid_ms &&
                  (told->remaining_ms == -1 || !dlt_party_is_leased(party) ||
                   told->remaining_ms > ttl_ms / 2),
              "%lld ms of a lease of %lld ms are shown", (long long)told->remaining_ms,
              (long long)ttl_ms);
    DLT_CHECK(told->waiters == 0 || told->waiters == UINT32_MAX, "%u waiters are shown, want none",
              told->waiters);
}

void dlt_slots_look_at_a_holder(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    struct dlt_seen seen;
    int64_t start_ns;
    uint64_t fence;

    dlt_parties_begin(parties, 2, run);
    a->attempt.req.label = "slots:7@space:with spaces, and \"signs\"";
    dlt_look(&seen, b);
    DLT_CHECK(seen.count == 0, "%zu holders of a free name are shown", seen.count);
    dlt_tries(a, DLOCK_OK, "of a free name");
    start_ns = dlt_now_ns();
    fence = a->side.grant.fence;
    while (dlt_ms_since(start_ns) < HELD_MS)
        dlt_sleep_ms(1);
    for (int i = 0; i < 2; i++) {
        dlt_look(&seen, b);
        DLT_CHECK(seen.count == 1, "%zu holders are shown, want 1", seen.count);
        shown_check(&seen, a, DLOCK_EXCLUSIVE);
        DLT_CHECK(seen.holders[0].told.fence == 0 || fence == 0 ||
                      seen.holders[0].told.fence == fence,
                  "the fence %llu is shown, want %llu",
                  (unsigned long long)seen.holders[0].told.fence, (unsigned long long)fence);
        DLT_CHECK(seen.holders[0].told.held_ms == -1 ||
                      seen.holders[0].told.held_ms + run->grid_ms + 1 >= HELD_MS,
                  "it is held for %lld ms, want %d", (long long)seen.holders[0].told.held_ms,
                  HELD_MS);
        dlt_renews(a, DLOCK_OK, "by the holder"); /* and is shown as before */
    }
    dlt_unlocks(a, DLOCK_OK, "by the holder");
    dlt_look_counts(b, 0, "after the unlock");
    dlt_parties_end(parties, 2);
}

void dlt_slots_look_at_readers(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    bool downgrades;
    uint64_t fence;
    struct dlt_seen seen;

    dlt_parties_begin(parties, 3, run);
    downgrades = dlt_side_has(&a->side, DLOCK_CAP_DOWNGRADE);
    dlt_party_anew(a, "job", downgrades ? DLOCK_EXCLUSIVE : DLOCK_SHARED, dlt_party_ttl_ms());
    dlt_party_anew(b, "job", DLOCK_SHARED, dlt_party_ttl_ms());
    b->attempt.req.label = "slots:2";
    dlt_tries(a, DLOCK_OK, "of a free name");
    fence = a->side.grant.fence;
    if (downgrades)
        DLT_SAYS(a, dlt_party_downgrade(a), DLOCK_OK, "a writer becomes a reader");
    dlt_tries(b, DLOCK_OK, "beside a reader");
    dlt_look(&seen, c);
    DLT_CHECK(seen.count == 2, "%zu readers are shown, want 2", seen.count);
    shown_check(&seen, a, DLOCK_SHARED);
    shown_check(&seen, b, DLOCK_SHARED);
    DLT_CHECK(!downgrades || dlt_seen_of(&seen, a)->told.fence == 0 ||
                  dlt_seen_of(&seen, a)->told.fence == fence,
              "a downgrade has changed the fence that is shown");
    dlt_unlocks(a, DLOCK_OK, "by a reader");
    dlt_look(&seen, c);
    DLT_CHECK(seen.count == 1, "%zu readers are shown, want 1", seen.count);
    shown_check(&seen, b, DLOCK_SHARED);
    dlt_unlocks(b, DLOCK_OK, "by a reader");
    dlt_parties_end(parties, 3);
}

static bool first_ends(void *arg, const struct dlock_holder *holder)
{
    (void)holder;
    ++*(int *)arg;
    return true;
}

static size_t listed(struct dlt_party *asker, const char *text)
{
    struct dlt_seen seen;

    dlt_look_list(&seen, asker, text);
    return seen.count;
}

void dlt_slots_look_by_prefix(struct dlt_run *run)
{
    static const char *const suffixes[] = {"a", "b1", "b[*%_", "b\xff{}"};
    struct dlt_party parties[4], asker, *a = &asker;
    struct dlt_name prefix = dlt_name(run, "");
    int64_t start_ns, most_ms;
    int told = 0;

    dlt_parties_begin(parties, 4, run);
    dlt_party_begin(&asker, run, "the asker", NULL);
    for (size_t i = 0; i < 4; i++) {
        dlt_party_anew(&parties[i], suffixes[i], DLOCK_EXCLUSIVE,
                       i == 1 && dlt_party_is_leased(a) ? DLT_SHORT_MS : dlt_party_ttl_ms());
        dlt_tries(&parties[i], DLOCK_OK, "of a free name");
    }
    start_ns = dlt_now_ns();
    DLT_CHECK(listed(a, "b[") == 1 && listed(a, "b\xff") == 1 && listed(a, "c") == 0,
              "a prefix is not compared byte by byte [TRY-7]");
    DLT_CHECK(listed(a, "a") == 1, "a name is not among those that begin with it");
    DLT_OK(dl_slot_list(a->side.plugin, a->side.self, (const unsigned char *)prefix.text,
                        (uint32_t)prefix.len, dlt_now_ns() + 10000 * DLT_NS_PER_MS, first_ends,
                        &told, &a->side.err));
    DLT_CHECK(told == 1, "%d holders are told after the callback has ended the list", told);
    most_ms = parties[1].attempt.req.ttl_ms + 1000 + run->grid_ms + run->slack_ms;
    while (dlt_party_is_leased(a) && listed(a, "b") != 2) {
        DLT_WITHIN(start_ns, most_ms, "a lease that ended is shown");
        dlt_sleep_ms(10);
    }
    for (size_t i = 0; i < 4; i++)
        if (i != 1 || !dlt_party_is_leased(a))
            dlt_unlocks(&parties[i], DLOCK_OK, "by the holder");
    DLT_CHECK(listed(a, "") == 0, "%zu holders are shown after all unlocks", listed(a, ""));
    dlt_party_end(&asker);
    dlt_parties_end(parties, 4);
}

struct line {
    unsigned count;
    const struct dlt_party *want[2];
};

static bool waiter_check(void *arg, const struct dlock_waiter *waiter)
{
    struct line *line = arg;
    unsigned at = line->count++;

    DLT_CHECK(at < 2 && line->want[at] != NULL, "a waiter more than there are: %s", waiter->owner);
    DLT_CHECK(strcmp(waiter->owner, dlt_owner(line->want[at])) == 0 && waiter->position == at,
              "waiter %u is %s at position %u, want %s", at, waiter->owner, waiter->position,
              dlt_owner(line->want[at]));
    DLT_CHECK(strcmp(waiter->label, line->want[at]->attempt.req.label) == 0 &&
                  waiter->mode == line->want[at]->attempt.req.mode,
              "waiter %u is shown with the label \"%s\" and mode %d", at, waiter->label,
              (int)waiter->mode);
    return false;
}

static void line_check(struct dlt_party *asker, const struct dlt_party *first,
                       const struct dlt_party *second)
{
    struct line line = {.want = {first, second}};
    struct dlt_side *side = &asker->side;

    DLT_OK(dl_slot_list_waiters(
        side->plugin, side->self, asker->attempt.req.name, asker->attempt.req.name_len,
        dlt_now_ns() + side->call_ms * DLT_NS_PER_MS, waiter_check, &line, &side->err));
    DLT_CHECK(line.count == (first != NULL) + (unsigned)(second != NULL), "%u waiters are shown",
              line.count);
}

void dlt_slots_look_at_waiters(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    struct dlt_seen seen;

    dlt_parties_begin(parties, 3, run);
    if (a->side.plugin->ops.list_waiters == NULL) {
        dlt_parties_end(parties, 3);
        dlt_skip("no list_waiters");
    }
    b->attempt.req.label = "slots:2";
    dlt_tries(a, DLOCK_OK, "of a free name");
    line_check(a, NULL, NULL);
    dlt_party_line_up(b);
    dlt_party_line_up(c);
    line_check(a, b, c);
    dlt_look(&seen, a);
    DLT_CHECK(seen.count == 1 && seen.holders[0].told.waiters == 2,
              "%zu holders are shown, with %u waiters, want 1 with 2", seen.count,
              seen.holders[0].told.waiters);
    DLT_SAYS(b, dlt_party_dequeue(b), DLOCK_OK, "it is queued");
    line_check(a, c, NULL);
    dlt_unlocks(a, DLOCK_OK, "by the holder");
    DLT_SAYS(c, dlt_party_wait(c, DLT_TOLD_MS), DLOCK_OK, "it is the first");
    line_check(a, NULL, NULL);
    dlt_unlocks(c, DLOCK_OK, "by the waiter");
    dlt_parties_end(parties, 3);
}
