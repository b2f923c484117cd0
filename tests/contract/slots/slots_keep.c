/* SPDX-License-Identifier: MIT */
/* What a release keeps is nobody's, until its time: KEP-1, C22. */
#include "calls.h"
#include "seen.h"
#include "slots.h"

#include <string.h>

#define KEPT_MS 400 /* what ends during a case */

static void keeps(struct dlt_party *party, int64_t keep_ms, enum dlock_status want,
                  const char *when)
{
    party->attempt.req.keep_ms = keep_ms;
    dlt_unlocks(party, want, when);
    party->attempt.req.keep_ms = 0;
}

static void broken(struct dlt_party *by, const char *owner, enum dlock_status want)
{
    DLT_SAYS(by, dlt_party_break(by, owner), want, "break_lock of a kept name [KEP-1]");
}

void dlt_slots_kept_is_nobodys(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    const struct dlt_seen_holder *kept;
    struct dlt_seen seen;

    dlt_parties_begin(parties, 3, run);
    a->attempt.req.label = "slots:2@space:who kept";
    dlt_tries(a, DLOCK_OK, "of a free name");
    keeps(a, dlt_party_ttl_ms(), DLOCK_OK, "by the holder, who keeps the name");
    keeps(a, dlt_party_ttl_ms(), DLOCK_LOST, "of a name that is kept, to keep it again");
    dlt_unlocks(a, DLOCK_LOST, "of a name that is kept");
    dlt_renews(a, DLOCK_LOST, "of a name that is kept");
    dlt_look(&seen, b);
    DLT_CHECK(seen.count == 1, "%zu holders of a kept name are shown [KEP-1]", seen.count);
    kept = dlt_seen_kept(&seen, 0);
    DLT_CHECK(kept->owner[0] == '\0' && kept->told.limit == 0 && kept->told.mode == DLOCK_EXCLUSIVE,
              "a kept lock is shown with the owner \"%s\" and the limit %u [KEP-1]", kept->owner,
              kept->told.limit);
    DLT_CHECK(strcmp(kept->label, a->attempt.req.label) == 0,
              "a kept name is shown with the label \"%s\" [KEP-1]", kept->label);
    DLT_CHECK(kept->told.remaining_ms > dlt_party_ttl_ms() / 2 &&
                  kept->told.remaining_ms <= dlt_party_ttl_ms() + 2000 + run->grid_ms,
              "a name that is kept for %d ms is shown with %lld ms", dlt_party_ttl_ms(),
              (long long)kept->told.remaining_ms);
    for (int i = 0; i < 2; i++) /* the second look may be another path */
        dlt_tries(b, DLOCK_BUSY, "of a name that is kept");
    dlt_party_anew(c, "job", DLOCK_SHARED, dlt_party_ttl_ms());
    if (dlt_side_has(&c->side, DLOCK_CAP_RWLOCK))
        dlt_tries(c, DLOCK_BUSY, "(shared) of a name that is kept");
    if (dlt_side_has(&a->side, DLOCK_CAP_LIMIT)) {
        dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        a->attempt.req.limit = 2;
        DLT_SAYS(a, dlt_party_try(a), DLOCK_CONFIG, "a lock is kept [KEP-1] [LIM-1]");
    }
    broken(b, dlt_owner(a), DLOCK_NOT_HELD);
    if (dlt_party_queues(c))
        dlt_party_line_up(c);
    broken(b, NULL, DLOCK_OK);
    if (dlt_party_queues(c)) {
        DLT_SAYS(c, dlt_party_wait(c, DLT_TOLD_MS), DLOCK_OK, "what was kept was broken [KEP-1]");
        dlt_unlocks(c, DLOCK_OK, "by the waiter");
    }
    broken(b, NULL, DLOCK_NOT_HELD);
    dlt_tries(b, DLOCK_OK, "of a name that was kept");
    dlt_unlocks(b, DLOCK_OK, "by the holder");
    dlt_parties_end(parties, 3);
}

/* From the execution on: never shorter, and no longer than a lease. */
void dlt_slots_kept_until_its_time(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    enum dlock_status status = DLOCK_BUSY;
    int64_t start_ns, end_ns;

    dlt_parties_begin(parties, 2, run);
    dlt_tries(a, DLOCK_OK, "of a free name");
    if (dlt_party_queues(b))
        dlt_party_line_up(b);
    start_ns = dlt_now_ns();
    keeps(a, KEPT_MS, DLOCK_OK, "by the holder, who keeps the name");
    end_ns = dlt_now_ns();
    while (status == DLOCK_BUSY) {
        dlt_sleep_ms(5);
        status = dlt_party_refresh(b);
    }
    DLT_SAYS(b, status, DLOCK_OK, "the time of what was kept is over [KEP-1]");
    DLT_CHECK(dlt_ms_since(start_ns) >= KEPT_MS,
              "what was kept for %d ms was free after %.1f ms [KEP-1]", KEPT_MS,
              dlt_ms_since(start_ns));
    DLT_WITHIN(end_ns,
               (b->side.info.ttl_least_ms > KEPT_MS ? b->side.info.ttl_least_ms : KEPT_MS) + 1000 +
                   run->grid_ms + run->slack_ms,
               "what was kept for %d ms is not free [KEP-1]", KEPT_MS);
    dlt_unlocks(a, DLOCK_LOST, "of what was kept before, of a name that another one holds");
    dlt_look_counts(a, 1, "after the time of what was kept");
    dlt_unlocks(b, DLOCK_OK, "by the holder");
    dlt_parties_end(parties, 2);
}

void dlt_slots_kept_permit_counts(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    struct dlt_seen seen;

    dlt_parties_begin(parties, 3, run);
    for (size_t i = 0; i < 3; i++)
        parties[i].attempt.req.limit = 2;
    dlt_tries(a, DLOCK_OK, "with two permits free");
    dlt_tries(b, DLOCK_OK, "with one permit free");
    keeps(a, dlt_party_ttl_ms(), DLOCK_OK, "by a holder, who keeps the permit");
    keeps(a, dlt_party_ttl_ms(), DLOCK_LOST, "of a permit that is kept");
    dlt_tries(c, DLOCK_BUSY, "with one permit held and one kept");
    dlt_look(&seen, c);
    DLT_CHECK(seen.count == 2 && dlt_seen_kept(&seen, 0)->told.limit == 2 &&
                  dlt_seen_of(&seen, b)->told.permit == 1,
              "permit 1 is held and permit 0 is kept, and %zu are shown [KEP-1]", seen.count);
    dlt_unlocks(b, DLOCK_OK, "by a holder");
    dlt_tries(c, DLOCK_OK, "with one permit kept");
    DLT_CHECK(c->side.grant.permit == 1, "permit %u is granted, and permit 0 is kept [LIM-2]",
              c->side.grant.permit);
    dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    DLT_SAYS(b, dlt_party_try(b), DLOCK_CONFIG, "a permit is kept, and a lock is wanted [LIM-1]");
    broken(a, NULL, DLOCK_OK);
    dlt_renews(c, DLOCK_LOST, "of a permit that was broken");
    dlt_tries(b, DLOCK_OK, "of a name that is free again");
    dlt_unlocks(b, DLOCK_OK, "by the holder");
    dlt_parties_end(parties, 3);
}
