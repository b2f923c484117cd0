/* SPDX-License-Identifier: MIT */
/* Many attempts in one call, on a good network: is each element a call of its own? BAT-1, BAT-4. */
#include "calls.h"
#include "many.h"
#include "seen.h"
#include "slots.h"

#include <string.h>

static struct dlt_many mine, theirs;

static void clients_begin(struct dlt_party *parties, const struct dlt_run *run)
{
    dlt_parties_begin(parties, 2, run);
    if (!dlt_many_applies(&parties[0].side)) {
        dlt_parties_end(parties, 2);
        dlt_skip("no trylock_batch");
    }
}

/* What stands in the way of each element, if the store has it; without it a holder does. Several
 * names are free: a plugin may have one statement for these and HELD. */
enum { FREE, HELD, FREE_TOO, READER, PERMIT, OTHER_LIMIT, KEPT, QUEUED, ALL };

static bool is_free(size_t i)
{
    return i == FREE || i == FREE_TOO || i == KEPT;
}

static void requests_vary(const struct dlt_side *side)
{
    if (dlt_side_has(side, DLOCK_CAP_RWLOCK))
        mine.attempts[READER].req.mode = theirs.attempts[READER].req.mode = DLOCK_SHARED;
    if (dlt_side_has(side, DLOCK_CAP_LIMIT)) {
        mine.attempts[PERMIT].req.limit = theirs.attempts[PERMIT].req.limit = 2;
        mine.attempts[OTHER_LIMIT].req.limit = 2;
        theirs.attempts[OTHER_LIMIT].req.limit = 3;
    }
    if (dlt_side_has(side, DLOCK_CAP_QUEUE))
        mine.attempts[QUEUED].req.flags = DLOCK_REQ_ENQUEUE;
}

static void answers_check(const struct dlt_side *side)
{
    bool permits = dlt_side_has(side, DLOCK_CAP_LIMIT);
    const struct dlock_grant *held = &mine.elements[HELD].grant;

    dlt_many_is(&mine, HELD, DLOCK_BUSY, "of a name that another one holds");
    DLT_CHECK(held->holder_ms == -1 || held->holder_ms > 1000, "BUSY, and the holder has %lld ms",
              (long long)held->holder_ms);
    dlt_many_is(&mine, READER, dlt_side_has(side, DLOCK_CAP_RWLOCK) ? DLOCK_OK : DLOCK_BUSY,
                "beside a reader");
    dlt_many_is(&mine, PERMIT, permits ? DLOCK_OK : DLOCK_BUSY, "with one permit free");
    DLT_CHECK(!permits || mine.elements[PERMIT].grant.permit == 1, "permit %u, want 1 [LIM-2]",
              mine.elements[PERMIT].grant.permit);
    dlt_many_is(&mine, OTHER_LIMIT, permits ? DLOCK_CONFIG : DLOCK_BUSY, "with another limit");
    DLT_CHECK(!permits || strstr(mine.errors[OTHER_LIMIT].message, " 3 ") != NULL,
              "\"%s\" does not have the limit 3 [LIM-1]", mine.errors[OTHER_LIMIT].message);
    for (size_t i = 0; i < ALL; i++)
        if (is_free(i))
            dlt_many_is(&mine, i, DLOCK_OK, "of a free name");
    dlt_many_is(&mine, QUEUED, DLOCK_BUSY, "of a name that another one holds");
    DLT_CHECK((mine.elements[QUEUED].grant.flags & DLOCK_GRANT_QUEUED) != 0 ||
                  !dlt_side_has(side, DLOCK_CAP_QUEUE),
              "BUSY with ENQUEUE is not QUEUED");
}

/* The entry of the batch, which the release of the holder has granted. */
static void queued_gets_it(struct dlt_side *side)
{
    struct dlt_attempt *attempt = &mine.attempts[QUEUED];
    enum dlock_status status = DLOCK_BUSY;
    int64_t start_ns = dlt_now_ns();

    attempt->req.flags = DLOCK_REQ_REFRESH;
    while (status == DLOCK_BUSY) {
        DLT_WITHIN(start_ns, DLT_TOLD_MS, "unlock_batch does not pass the name on [BAT-1]");
        status = dlt_side_try(side, attempt);
    }
    DLT_CHECK(status == DLOCK_OK, "the queue entry of a batch is %s", dlt_said(side, status));
    DLT_OK(dlt_side_unlock(side, attempt));
}

static void releases_check(struct dlt_side *side)
{
    bool permits = dlt_side_has(side, DLOCK_CAP_LIMIT), keeps = dlt_side_has(side, DLOCK_CAP_KEEP);

    mine.attempts[QUEUED].req.flags = 0;
    if (keeps)
        mine.attempts[KEPT].req.keep_ms = 60000;
    mine.n = QUEUED; /* unlock would keep the queue entry */
    dlt_many_unlock(&mine, side);
    mine.n = ALL;
    dlt_many_is(&mine, HELD, DLOCK_LOST, "unlock by another one than the holder");
    dlt_many_is(&mine, READER, dlt_side_has(side, DLOCK_CAP_RWLOCK) ? DLOCK_OK : DLOCK_LOST,
                "unlock by a reader");
    dlt_many_is(&mine, PERMIT, permits ? DLOCK_OK : DLOCK_LOST, "unlock of a permit");
    dlt_many_is(&mine, OTHER_LIMIT, DLOCK_LOST, "unlock by another one than the holder");
    for (size_t i = 0; i < QUEUED; i++)
        if (is_free(i))
            dlt_many_is(&mine, i, DLOCK_OK, "unlock by the holder");
    if (keeps) {
        mine.attempts[KEPT].req.flags = 0;
        DLT_CHECK(dlt_side_try(side, &mine.attempts[KEPT]) == DLOCK_BUSY,
                  "a name that unlock_batch keeps is free [BAT-1] [KEP-1]");
    }
}

void dlt_slots_batch_each_its_own(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];

    clients_begin(parties, run);
    dlt_many_begin(&theirs, run, &a->side, ALL, "m", false);
    dlt_many_begin(&mine, run, &b->side, ALL, "m", false);
    for (size_t i = 0; i < ALL; i++) {
        if (!is_free(i))
            continue;
        dlt_attempt_end(&theirs.attempts[i], &a->side, true);
        dlt_attempt_begin(&theirs.attempts[i], run, &a->side,
                          (const char *const[]){"x", "", "y", "", "", "", "z"}[i], 60000);
    }
    requests_vary(&b->side);
    dlt_many_try(&theirs, &a->side);
    dlt_many_are(&theirs, DLOCK_OK, "of a free name");
    for (size_t i = 0; i < ALL; i++) {
        const struct dlock_grant *grant = &theirs.elements[i].grant;

        DLT_CHECK(grant->lease_ms > 0 && grant->lease_ms <= theirs.attempts[i].req.ttl_ms &&
                      grant->permit == 0,
                  "element %zu: lease_ms is %lld, permit %u", i, (long long)grant->lease_ms,
                  grant->permit);
    }
    dlt_many_try(&mine, &b->side);
    answers_check(&b->side);
    releases_check(&b->side);
    dlt_many_unlock(&theirs, &a->side); /* what another one could not release */
    dlt_many_are(&theirs, DLOCK_OK, "unlock by the holder");
    if (dlt_party_queues(b))
        queued_gets_it(&b->side);
    dlt_many_end(&theirs, &a->side);
    dlt_many_end(&mine, &b->side);
    dlt_parties_end(parties, 2);
}

void dlt_slots_batch_of_one_name(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];

    clients_begin(parties, run);
    dlt_many_begin(&mine, run, &a->side, 8, "job", true);
    for (int i = 0; i < 2; i++) { /* the second time the holder is among them */
        dlt_many_try(&mine, &a->side);
        DLT_CHECK(dlt_many_count(&mine, DLOCK_OK) == 1 && dlt_many_count(&mine, DLOCK_BUSY) == 7,
                  "%zu of eight elements of one name have it [BAT-4]",
                  dlt_many_count(&mine, DLOCK_OK));
    }
    dlt_tries(b, DLOCK_BUSY, "of a name that an element holds");
    dlt_many_unlock(&mine, &a->side);
    DLT_CHECK(dlt_many_count(&mine, DLOCK_OK) == 1 && dlt_many_count(&mine, DLOCK_LOST) == 7,
              "unlock by %zu of eight elements of one name is OK [BAT-4]",
              dlt_many_count(&mine, DLOCK_OK));
    dlt_tries(b, DLOCK_OK, "of a name that was released");
    dlt_unlocks(b, DLOCK_OK, "by the holder");
    dlt_many_end(&mine, &a->side);
    dlt_parties_end(parties, 2);
}

/* What an element of the last dlt_many_try has, whose last number is in fences[i]. */
static void fences_rise(const struct dlt_side *side, uint64_t *fences)
{
    for (size_t i = 0; i < mine.n; i++) {
        const struct dlock_grant *grant = &mine.elements[i].grant;

        if (mine.attempts[i].req.mode == DLOCK_SHARED) /* these guard nothing */
            continue;
        DLT_CHECK(!dlt_side_has(side, DLOCK_CAP_FENCE) || grant->fence > fences[i],
                  "element %zu has fence %llu after %llu [TRY-6]", i,
                  (unsigned long long)grant->fence, (unsigned long long)fences[i]);
        fences[i] = grant->fence;
    }
}

/* The lease of this element is that of its own request. */
static void own_is_shown(struct dlt_party *asker, size_t i)
{
    struct dlt_seen seen;

    dlt_look(&seen, asker);
    DLT_CHECK(seen.count == 1 &&
                  strcmp(seen.holders[0].owner, dlt_token(mine.attempts[i].req.token)) == 0 &&
                  strcmp(seen.holders[0].label, mine.attempts[i].name.text) == 0,
              "element %zu is shown as %s with the label \"%s\" [BAT-1]", i, seen.holders[0].owner,
              seen.holders[0].label);
}

void dlt_slots_batch_of_many(struct dlt_run *run)
{
    static uint64_t fences[DLT_MANY_MOST];
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    bool reads;

    clients_begin(parties, run);
    reads = dlt_side_has(&a->side, DLOCK_CAP_RWLOCK);
    for (int round = 0; round < 2 + reads; round++) {
        dlt_many_begin(&mine, run, &a->side, DLT_MANY_MOST, "m", false);
        for (size_t i = 0; i < mine.n; i++) {
            mine.attempts[i].req.mode = round == 2 ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
            mine.attempts[i].req.label = mine.attempts[i].name.text;
        }
        dlt_many_try(&mine, &a->side);
        dlt_many_are(&mine, DLOCK_OK, "of a free name");
        fences_rise(&a->side, fences);
        dlt_many_try(&mine, &a->side);
        dlt_many_are(&mine, DLOCK_OK, "by a token that holds the name [TRY-5]");
        for (size_t i = 0; i < mine.n; i++) {
            if (round == 2)
                continue;
            DLT_CHECK(mine.elements[i].grant.fence >= fences[i],
                      "element %zu has a lower fence at the second time [TRY-6]", i);
            fences[i] = mine.elements[i].grant.fence + mine.elements[i].grant.fence_room;
        }
        for (size_t i = 0; i < mine.n; i += mine.n - 1) {
            dlt_party_anew(b, i == 0 ? "m0" : "m149", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
            dlt_tries(b, DLOCK_BUSY, "of a name that an element holds");
            own_is_shown(b, i);
        }
        dlt_many_unlock(&mine, &a->side);
        dlt_many_are(&mine, DLOCK_OK, "unlock by the holder");
        dlt_many_unlock(&mine, &a->side);
        dlt_many_are(&mine, DLOCK_LOST, "unlock of what was released");
        dlt_many_end(&mine, &a->side);
    }
    dlt_parties_end(parties, 2);
}

void dlt_slots_batch_tells_waiters(struct dlt_run *run)
{
    struct dlt_party parties[4], *holder = &parties[3];
    int64_t start_ns;

    dlt_parties_begin(parties, 4, run);
    if (!dlt_many_applies(&holder->side)) {
        dlt_parties_end(parties, 4);
        dlt_skip("no trylock_batch");
    }
    dlt_many_begin(&mine, run, &holder->side, 3, "m", false);
    dlt_many_try(&mine, &holder->side);
    dlt_many_are(&mine, DLOCK_OK, "of a free name");
    for (size_t i = 0; i < 3; i++) {
        char suffix[8];

        (void)snprintf(suffix, sizeof suffix, "m%zu", i);
        dlt_party_anew(&parties[i], suffix, DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_settle(&parties[i]);
    }
    for (size_t i = 0; i < 3; i++)
        dlt_party_sleep(&parties[i], 10 * DLT_TOLD_MS);
    start_ns = dlt_now_ns();
    dlt_many_unlock(&mine, &holder->side);
    dlt_many_are(&mine, DLOCK_OK, "unlock by the holder");
    for (size_t i = 0; i < 3; i++) {
        DLT_SAYS(&parties[i], dlt_party_wake(&parties[i]), DLOCK_OK,
                 "unlock_batch has released the name [BAT-1]");
        DLT_BETWEEN(start_ns, parties[i].awake_ns, DLT_TOLD_MS,
                    "unlock_batch tells a waiter of each name [BAT-1]");
        dlt_unlocks(&parties[i], DLOCK_OK, "by the waiter");
    }
    dlt_many_end(&mine, &holder->side);
    dlt_parties_end(parties, 4);
}
