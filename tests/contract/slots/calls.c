/* SPDX-License-Identifier: MIT */
#include "calls.h"

void dlt_parties_begin(struct dlt_party *parties, size_t n, const struct dlt_run *run)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

    for (size_t i = 0; i < n; i++)
        dlt_party_begin(&parties[i], run, names[i], NULL);
}

void dlt_parties_end(struct dlt_party *parties, size_t n)
{
    for (size_t i = n; i > 0; i--)
        dlt_party_end(&parties[i - 1]);
}

bool dlt_party_is_leased(const struct dlt_party *party)
{
    return !dlt_side_has(&party->side, DLOCK_CAP_SESSION) &&
           !dlt_side_has(&party->side, DLOCK_CAP_TETHERED);
}

static void check(struct dlt_party *party, const char *slot, enum dlock_status got,
                  enum dlock_status want, const char *when)
{
    struct dlt_side *side = &party->side;

    DLT_CHECK(got == want, "%s by %s, %s, is %s, want %s", slot, party->who, when,
              dlt_said(side, got), dlock_status_name((int)want));
    DLT_CHECK(got != DLOCK_BUSY || side->err.status != DLOCK_BUSY,
              "%s by %s, %s, is %s, and a holder is in the way, nothing else [TRY-8]", slot,
              party->who, when, dlt_said(side, got));
    DLT_CHECK(
        got == DLOCK_OK || got == DLOCK_BUSY || got == DLOCK_LOST || side->err.message[0] != '\0',
        "%s by %s, %s, is %s, without a text", slot, party->who, when, dlock_status_name((int)got));
    if (got == DLOCK_LOST && dlt_side_has(side, DLOCK_CAP_SESSION)) {
        dlt_party_over(party);
        dlt_side_close(side);
        DLT_SAYS(party, dlt_side_open(side), DLOCK_OK, "a session instead of the one before");
    }
}

/* A lease of its own is as long as was asked for. */
static void check_lease(const struct dlt_party *party, const char *slot, const char *when)
{
    int64_t most_ms = party->attempt.req.ttl_ms;
    int64_t least_ms = dlt_party_is_leased(party) ? most_ms : 1;

    DLT_CHECK(party->side.grant.lease_ms >= least_ms && party->side.grant.lease_ms <= most_ms,
              "%s by %s, %s: lease_ms is %lld, want %lld to %lld, the ttl", slot, party->who, when,
              (long long)party->side.grant.lease_ms, (long long)least_ms, (long long)most_ms);
}

void dlt_tries(struct dlt_party *party, enum dlock_status want, const char *when)
{
    enum dlock_status status = dlt_party_try(party);

    check(party, "trylock", status, want, when);
    if (status == DLOCK_OK)
        check_lease(party, "trylock", when);
    else
        DLT_CHECK((party->side.grant.flags & DLOCK_GRANT_QUEUED) == 0,
                  "trylock by %s, %s, is QUEUED without ENQUEUE", party->who, when);
}

void dlt_renews(struct dlt_party *party, enum dlock_status want, const char *when)
{
    enum dlock_status status = dlt_party_renew(party);

    check(party, "renew", status, want, when);
    if (status == DLOCK_OK)
        check_lease(party, "renew", when);
}

void dlt_unlocks(struct dlt_party *party, enum dlock_status want, const char *when)
{
    check(party, "unlock", dlt_party_unlock(party), want, when);
}

int64_t dlt_party_left_ms(struct dlt_party *asker)
{
    int64_t left_ms = -1;

    dlt_tries(asker, DLOCK_BUSY, "of a name that another one holds");
    if (asker->side.grant.holder_ms >= 0)
        return asker->side.grant.holder_ms;
    if (dlt_side_inspect(&asker->side, &asker->attempt, &left_ms) != DLOCK_OK)
        return -1;
    return left_ms;
}
