/* SPDX-License-Identifier: MIT */
/* Who gets a name, and for how long: TRY-1 to TRY-3. */
#include "calls.h"
#include "slots.h"

#define POLL_MS 5

/* BUSY says how long, if it can: holder_ms of a lease of DLT_PARTY_TTL_MS. */
static void check_busy(const struct dlt_party *party, int64_t lease_ms)
{
    int64_t holder_ms = party->side.grant.holder_ms;

    DLT_CHECK(holder_ms == -1 || !dlt_party_is_leased(party) ||
                  (holder_ms > lease_ms / 2 && holder_ms <= lease_ms + 2000 + party->run->grid_ms),
              "BUSY says that the holder has %lld ms left, and its lease has %lld ms [TRY-3]",
              (long long)holder_ms, (long long)lease_ms);
}

void dlt_slots_one_of_two(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    int64_t lease_ms;

    dlt_parties_begin(parties, 2, run);
    for (int i = 0; i < 3; i++) {
        struct dlt_party *other = a;

        dlt_tries(a, DLOCK_OK, "of a free name");
        lease_ms = a->side.grant.lease_ms;
        for (int j = 0; j < 3; j++) { /* the second look may be another path */
            dlt_tries(b, DLOCK_BUSY, "of a name that another one holds");
            check_busy(b, lease_ms);
        }
        dlt_unlocks(a, DLOCK_OK, "by the holder");
        a = b;
        b = other;
        dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
    }
    dlt_parties_end(parties, 2);
}

void dlt_slots_readers_share(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *writer = &parties[2];
    int64_t lease_ms;

    dlt_parties_begin(parties, 3, run);
    dlt_party_anew(a, "job", DLOCK_SHARED, DLT_PARTY_TTL_MS);
    dlt_party_anew(b, "job", DLOCK_SHARED, DLT_PARTY_TTL_MS / 2);
    dlt_tries(a, DLOCK_OK, "(shared) of a free name");
    lease_ms = a->side.grant.lease_ms;
    dlt_tries(b, DLOCK_OK, "(shared) beside a reader");
    dlt_tries(writer, DLOCK_BUSY, "beside two readers");
    check_busy(writer, lease_ms); /* until the last of them is gone */
    dlt_unlocks(a, DLOCK_OK, "by a reader");
    dlt_unlocks(a, DLOCK_LOST, "by a reader, again");
    dlt_tries(writer, DLOCK_BUSY, "beside the other reader");
    dlt_unlocks(b, DLOCK_OK, "by the last reader");
    dlt_tries(writer, DLOCK_OK, "after the last reader");
    dlt_party_anew(a, "job", DLOCK_SHARED, DLT_PARTY_TTL_MS);
    for (int i = 0; i < 2; i++)
        dlt_tries(a, DLOCK_BUSY, "(shared) beside a writer");
    dlt_unlocks(writer, DLOCK_OK, "by the writer");
    dlt_tries(a, DLOCK_OK, "(shared) after the writer");
    dlt_unlocks(a, DLOCK_OK, "by a reader");
    dlt_parties_end(parties, 3);
}

/* Nobody renews it. The store counts from the execution, which is after start_ns. */
static void ends_by_itself(struct dlt_party *a, struct dlt_party *b, enum dlock_mode mode)
{
    int64_t ttl_ms, lease_ms, most_ms, start_ns, end_ns;
    enum dlock_status status = DLOCK_BUSY;

    dlt_party_anew(a, "job", mode, DLT_SHORT_MS);
    dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, DLT_PARTY_TTL_MS);
    start_ns = dlt_now_ns();
    dlt_tries(a, DLOCK_OK, "of a free name");
    end_ns = dlt_now_ns();
    ttl_ms = a->attempt.req.ttl_ms;
    lease_ms = a->side.grant.lease_ms;
    most_ms = lease_ms + (ttl_ms / 20 > 1000 ? ttl_ms / 20 : 1000) + a->run->grid_ms;
    while (status == DLOCK_BUSY) {
        dlt_sleep_ms(POLL_MS);
        status = dlt_party_try(b);
    }
    DLT_SAYS(b, status, DLOCK_OK, "the lease has ended");
    DLT_CHECK(dlt_ms_since(start_ns) >= (double)lease_ms,
              "a lease of %lld ms ended after %.1f ms [TRY-2]", (long long)lease_ms,
              dlt_ms_since(start_ns));
    DLT_WITHIN(end_ns, most_ms + a->run->slack_ms, "a lease of %lld ms has not ended [TRY-2]",
               (long long)lease_ms);
    dlt_renews(a, DLOCK_LOST, "of a lease that ended, of a name that another one holds");
    dlt_unlocks(a, DLOCK_LOST, "after a lease that ended, of a name that another one holds");
    dlt_renews(b, DLOCK_OK, "by the holder after it");
    dlt_unlocks(b, DLOCK_OK, "by the holder after it");
    dlt_renews(a, DLOCK_LOST, "of a lease that ended, with the name free");
    dlt_unlocks(a, DLOCK_LOST, "after a lease that ended, with the name free");
}

void dlt_slots_lease_ends(struct dlt_run *run)
{
    struct dlt_party parties[2];

    dlt_parties_begin(parties, 2, run);
    if (!dlt_party_is_leased(&parties[0]))
        dlt_skip("leases live in sessions");
    ends_by_itself(&parties[0], &parties[1], DLOCK_EXCLUSIVE);
    if (dlt_side_has(&parties[0].side, DLOCK_CAP_RWLOCK))
        ends_by_itself(&parties[0], &parties[1], DLOCK_SHARED);
    dlt_parties_end(parties, 2);
}
