/* SPDX-License-Identifier: MIT */
/* What a renewal does, and what it leaves alone. */
#include "calls.h"
#include "session/slot.h"
#include "slots.h"

#include <string.h>

void dlt_slots_renew_makes_nothing(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];

    dlt_parties_begin(parties, 2, run);
    for (int mode = DLOCK_EXCLUSIVE; mode <= DLOCK_SHARED; mode++) {
        if (mode == DLOCK_SHARED && !dlt_side_has(&a->side, DLOCK_CAP_RWLOCK))
            continue;
        dlt_party_anew(a, "job", (enum dlock_mode)mode, dlt_party_ttl_ms());
        dlt_renews(a, DLOCK_LOST, "of a free name that it never held [REN-2]");
        dlt_tries(b, DLOCK_OK, "after a renewal of nothing [REN-2]");
        dlt_renews(a, DLOCK_LOST, "of a name that another one holds [REN-2]");
        dlt_renews(b, DLOCK_OK, "the holder");
        dlt_unlocks(b, DLOCK_OK, "the holder");
        dlt_party_anew(a, "job", (enum dlock_mode)mode, dlt_party_ttl_ms());
        dlt_tries(a, DLOCK_OK, "of a free name");
        dlt_unlocks(a, DLOCK_OK, "the holder");
        dlt_renews(a, DLOCK_LOST, "of what it has unlocked [REN-2]");
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    }
    dlt_tries(b, DLOCK_OK, "after renewals of nothing [REN-2]");
    dlt_unlocks(b, DLOCK_OK, "the holder");
    dlt_parties_end(parties, 2);
}

/* ---- many in one call ---- */

#define MANY 250 /* more than any plugin sends at once */

static struct dlt_attempt attempts[MANY];
static struct dlock_lease_op elements[MANY], *ops[MANY];

static bool is_held(int i)
{
    return i % 7 != 0;
}

static void take_many(struct dlt_party *a)
{
    bool reads = dlt_side_has(&a->side, DLOCK_CAP_RWLOCK);

    for (int i = 0; i < MANY; i++) {
        char suffix[16];

        (void)snprintf(suffix, sizeof suffix, "n%d", MANY - i);
        dlt_attempt_begin(&attempts[i], a->run, &a->side, suffix, dlt_party_ttl_ms());
        attempts[i].req.name = (const unsigned char *)attempts[i].name.text;
        attempts[i].req.mode = reads && i % 3 == 0 ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        if (is_held(i))
            DLT_SAYS(a, dlt_side_try(&a->side, &attempts[i]), DLOCK_OK, "a free name, %s", suffix);
        attempts[i].req.deadline_ns = dlt_now_ns() - DLT_NS_PER_MS; /* over [REN-5] */
        elements[i] = (struct dlock_lease_op){
            .struct_size = sizeof elements[i], .status = DLOCK_INTERNAL, .req = &attempts[i].req};
        elements[i].grant =
            (struct dlock_grant){.struct_size = sizeof elements[i].grant, .waiters = UINT32_MAX};
        ops[i] = &elements[i];
    }
}

void dlt_slots_renew_many(struct dlt_run *run)
{
    struct dlt_party a;
    struct dlt_side *side = &a.side;

    dlt_party_begin(&a, run, "a", NULL);
    if (dlt_side_has(side, DLOCK_CAP_SESSION))
        dlt_skip("not applicable: a session has one lock");
    take_many(&a);
    DLT_SAYS(&a,
             dl_slot_renew(side->plugin, side->self, ops, MANY,
                           dlt_now_ns() + 10000 * DLT_NS_PER_MS, &side->err),
             DLOCK_OK, "a renewal of %d", MANY);
    for (int i = 0; i < MANY; i++) {
        enum dlock_status want = is_held(i) ? DLOCK_OK : DLOCK_LOST;
        int64_t left_ms = -1;

        DLT_CHECK(ops[i]->status == want, "element %d of %d is %s, want %s [REN-1] [REN-2]", i,
                  MANY, dlock_status_name((int)ops[i]->status), dlock_status_name((int)want));
        DLT_CHECK(!is_held(i) || (ops[i]->grant.lease_ms > 0 &&
                                  ops[i]->grant.lease_ms <= attempts[i].req.ttl_ms),
                  "element %d: lease_ms is %lld", i, (long long)ops[i]->grant.lease_ms);
        if (!is_held(i) && dlt_side_inspect(side, &attempts[i], &left_ms) == DLOCK_OK)
            DLT_CHECK(left_ms == -1, "element %d is held: a renewal made it [REN-2]", i);
        DLT_SAYS(&a, dlt_side_unlock(side, &attempts[i]), want, "element %d", i);
        dlt_attempt_end(&attempts[i], side, true);
    }
    dlt_party_end(&a);
}

/* ---- by the token ---- */

static enum dlock_status adopt(struct dlt_party *party)
{
    enum dlock_status status;

    party->attempt.req.flags = DLOCK_REQ_ADOPT;
    status = dlt_party_renew(party);
    party->attempt.req.flags = 0;
    return status;
}

/* A store that may have forgotten an unlock says UNAVAILABLE [REN-6]. */
static void adopts_nothing(struct dlt_party *party, const char *when)
{
    enum dlock_status status = adopt(party);

    DLT_CHECK(status == DLOCK_LOST || status == DLOCK_UNAVAILABLE,
              "adoption of %s is %s, want LOST [REN-2] [REN-6]", when,
              dlt_said(&party->side, status));
}

void dlt_slots_adopted_by_token(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    enum dlock_status status;

    dlt_parties_begin(parties, 3, run);
    if (!dlt_party_is_leased(a))
        dlt_skip("not applicable: leases live in sessions");
    memcpy(b->attempt.req.token, a->attempt.req.token, DLOCK_TOKEN_SIZE);
    adopts_nothing(b, "a token that never held the name");
    dlt_tries(a, DLOCK_OK, "of a free name");
    DLT_SAYS(b, adopt(b), DLOCK_OK, "the token that holds the name, and nothing else is known");
    status = dlt_party_renew(a);
    DLT_CHECK(status == DLOCK_OK || status == DLOCK_UNAVAILABLE,
              "renew beside an adopter is %s, want OK", dlt_said(&a->side, status));
    dlt_tries(c, DLOCK_BUSY, "of a name that was adopted");
    dlt_unlocks(b, DLOCK_OK, "the adopter");
    dlt_renews(a, DLOCK_LOST, "after the unlock of its adopter");
    dlt_unlocks(a, DLOCK_LOST, "after the unlock of its adopter");
    adopts_nothing(b, "what was unlocked, of a free name");
    dlt_tries(c, DLOCK_OK, "after the unlock of an adopter");
    adopts_nothing(b, "what was unlocked, of a name that another one holds");
    dlt_unlocks(c, DLOCK_OK, "the holder");
    dlt_parties_end(parties, 3);
}

/* ---- from writer to reader ---- */

void dlt_slots_downgraded(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *writer = &parties[2];
    int64_t left_ms, start_ns = dlt_now_ns(), lease_ms;
    uint64_t fence;

    dlt_parties_begin(parties, 3, run);
    dlt_party_anew(b, "job", DLOCK_SHARED, dlt_party_ttl_ms());
    dlt_tries(a, DLOCK_OK, "of a free name");
    lease_ms = a->side.grant.lease_ms;
    fence = a->side.grant.fence;
    dlt_tries(b, DLOCK_BUSY, "shared, beside a writer");
    a->attempt.req.ttl_ms = a->side.info.ttl_least_ms > 1000 ? a->side.info.ttl_least_ms : 1000;
    for (int i = 0; i < 2; i++) { /* again, as after an unknown answer */
        DLT_SAYS(a, dlt_party_downgrade(a), DLOCK_OK, "from writer to reader");
        DLT_CHECK(a->side.grant.fence == 0 || a->side.grant.fence == fence,
                  "a downgrade changed the fence from %llu to %llu", (unsigned long long)fence,
                  (unsigned long long)a->side.grant.fence);
    }
    left_ms = dlt_party_left_ms(writer);
    DLT_CHECK(left_ms == -1 || !dlt_party_is_leased(a) ||
                  (double)left_ms + dlt_ms_since(start_ns) + 2 >= (double)lease_ms,
              "%lld of %lld ms are left: a downgrade shortened the lease [REN-3]",
              (long long)left_ms, (long long)lease_ms);
    dlt_tries(b, DLOCK_OK, "shared, beside a writer that became a reader");
    dlt_renews(a, DLOCK_OK, "a reader that was a writer");
    dlt_unlocks(a, DLOCK_OK, "a reader that was a writer");
    dlt_tries(writer, DLOCK_BUSY, "beside the other reader");
    dlt_unlocks(b, DLOCK_OK, "the last reader");
    DLT_SAYS(a, dlt_party_downgrade(a), DLOCK_LOST, "a downgrade of nothing [REN-2]");
    dlt_tries(writer, DLOCK_OK, "after the last reader");
    DLT_SAYS(a, dlt_party_downgrade(a), DLOCK_LOST, "a downgrade of another one's lock [REN-2]");
    dlt_tries(b, DLOCK_BUSY, "shared, beside a writer that was not downgraded");
    dlt_unlocks(writer, DLOCK_OK, "the writer");
    dlt_parties_end(parties, 3);
}

/* The caller has to believe that it was: one unlock ends it in either mode. */
void dlt_slots_downgrade_in_doubt(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];

    dlt_parties_begin(parties, 3, run);
    dlt_tries(a, DLOCK_OK, "of a free name");
    a->attempt.req.mode = b->attempt.req.mode = DLOCK_SHARED;
    dlt_unlocks(b, DLOCK_LOST, "of another one's lock, shared");
    dlt_tries(c, DLOCK_BUSY, "beside a writer");
    dlt_unlocks(a, DLOCK_OK, "a writer whose downgrade never arrived [UNL-1]");
    dlt_unlocks(a, DLOCK_LOST, "a writer whose downgrade never arrived, again");
    dlt_tries(c, DLOCK_OK, "after the unlock");
    dlt_unlocks(a, DLOCK_LOST, "a writer of before");
    dlt_tries(b, DLOCK_BUSY, "beside a writer");
    dlt_unlocks(c, DLOCK_OK, "the holder");
    dlt_parties_end(parties, 3);
}
