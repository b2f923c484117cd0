/* SPDX-License-Identifier: MIT */
/* Whose lease does break_lock end? BRK-1. */
#include "calls.h"
#include "seen.h"
#include "slots.h"

static void breaks(struct dlt_party *by, const char *owner, enum dlock_status want,
                   const char *when)
{
    enum dlock_status status = dlt_party_break(by, owner);

    if (status == DLOCK_UNSUPPORTED)
        dlt_skip("no break_lock");
    DLT_SAYS(by, status, want, "break_lock %s [BRK-1]", when);
}

void dlt_slots_break_ends_a_lease(struct dlt_run *run)
{
    static const char *const nobody[] = {"6161", "no token", "*"};
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    uint64_t fence;

    dlt_parties_begin(parties, 2, run);
    breaks(b, NULL, DLOCK_NOT_HELD, "of a free name");
    breaks(b, dlt_owner(a), DLOCK_NOT_HELD, "of an owner of a free name");
    for (int i = 0; i < 2; i++) {
        dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_tries(a, DLOCK_OK, "of a free name");
        fence = dlt_party_fence(a);
        breaks(b, dlt_owner(b), DLOCK_NOT_HELD, "of an owner that holds nothing");
        for (size_t j = 0; j < sizeof nobody / sizeof nobody[0]; j++)
            breaks(b, nobody[j], DLOCK_NOT_HELD, "of an owner that is none");
        dlt_renews(a, DLOCK_OK, "after a break of another owner");
        breaks(b, i == 0 ? dlt_owner(a) : NULL, DLOCK_OK, "of a holder");
        breaks(b, i == 0 ? dlt_owner(a) : NULL, DLOCK_NOT_HELD, "of a holder, again");
        dlt_look_counts(b, 0, "after a break");
        dlt_renews(a, DLOCK_LOST, "of a lease that was broken");
        if (!dlt_side_has(&a->side, DLOCK_CAP_SESSION))
            dlt_unlocks(a, DLOCK_LOST, "of a lease that was broken");
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_tries(b, DLOCK_OK, "after a break");
        DLT_CHECK(!dlt_side_has(&b->side, DLOCK_CAP_FENCE) || b->side.grant.fence > fence,
                  "fence %llu after %llu, whose lease was broken [BRK-1]",
                  (unsigned long long)b->side.grant.fence, (unsigned long long)fence);
        dlt_unlocks(b, DLOCK_OK, "by the holder after it");
    }
    dlt_parties_end(parties, 2);
}

/* Two holders of one name: readers, or permits. */
static void one_or_all(struct dlt_run *run, enum dlock_mode mode, uint32_t limit)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];

    dlt_parties_begin(parties, 3, run);
    for (int i = 0; i < 2; i++) {
        dlt_party_anew(&parties[i], "job", mode, dlt_party_ttl_ms());
        parties[i].attempt.req.limit = limit;
        dlt_tries(&parties[i], DLOCK_OK, "beside another one");
    }
    breaks(c, dlt_owner(b), DLOCK_OK, "of one of two");
    breaks(c, dlt_owner(b), DLOCK_NOT_HELD, "of one of two, again");
    dlt_renews(a, DLOCK_OK, "of the other one");
    dlt_renews(b, DLOCK_LOST, "of a lease that was broken");
    dlt_look_counts(c, 1, "after the break of one of two");
    dlt_party_anew(b, "job", mode, dlt_party_ttl_ms());
    b->attempt.req.limit = limit;
    dlt_tries(b, DLOCK_OK, "beside another one, again");
    breaks(c, NULL, DLOCK_OK, "of all");
    breaks(c, NULL, DLOCK_NOT_HELD, "of all, again");
    dlt_renews(a, DLOCK_LOST, "of a lease that was broken");
    dlt_renews(b, DLOCK_LOST, "of a lease that was broken");
    dlt_tries(c, DLOCK_OK, "after a break of all");
    dlt_unlocks(c, DLOCK_OK, "by the holder");
    dlt_parties_end(parties, 3);
}

void dlt_slots_break_one_reader_or_all(struct dlt_run *run)
{
    one_or_all(run, DLOCK_SHARED, 1);
}

void dlt_slots_break_one_permit_or_all(struct dlt_run *run)
{
    one_or_all(run, DLOCK_EXCLUSIVE, 2);
}

void dlt_slots_break_lets_a_waiter_in(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    int64_t start_ns;

    dlt_parties_begin(parties, 3, run);
    dlt_tries(a, DLOCK_OK, "of a free name");
    dlt_party_settle(b);
    breaks(c, dlt_owner(b), DLOCK_NOT_HELD, "of a waiter");
    start_ns = dlt_now_ns();
    breaks(c, NULL, DLOCK_OK, "of a holder");
    DLT_TOLD(b, start_ns, "the lease of the holder was broken [BRK-1]");
    dlt_renews(a, DLOCK_LOST, "of a lease that was broken");
    dlt_unlocks(b, DLOCK_OK, "by the waiter");
    dlt_parties_end(parties, 3);
}
