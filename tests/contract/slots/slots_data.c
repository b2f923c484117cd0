/* SPDX-License-Identifier: MIT */
/* What a holder publishes belongs to its lease: DAT-1, C24. */
#include "calls.h"
#include "seen.h"
#include "slots.h"

#include <string.h>

static void publishes(struct dlt_party *party, const void *data, uint32_t len)
{
    party->attempt.req.data = data;
    party->attempt.req.data_len = len;
}

/* Of this holder; text NULL: none. */
static void shows(struct dlt_party *asker, struct dlt_party *holder, const void *data, uint32_t len)
{
    const struct dlt_seen_holder *shown;
    struct dlt_seen seen;

    dlt_look(&seen, asker);
    shown = dlt_seen_of(&seen, holder);
    DLT_CHECK(shown->told.data_len == len && memcmp(shown->data, data, len) == 0,
              "%u bytes of data of %s are shown, want the %u that it published [DAT-1]",
              shown->told.data_len, holder->who, len);
}

void dlt_slots_data_are_bytes(struct dlt_run *run)
{
    static unsigned char bytes[DLOCK_DATA_MAX];
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    dlt_parties_begin(parties, 2, run);
    for (uint32_t len = 1; len <= DLOCK_DATA_MAX; len *= 32) {
        dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        a->attempt.req.label = "slots:3@space:a label, with = and \\";
        publishes(a, bytes, len);
        dlt_tries(a, DLOCK_OK, "of a free name");
        shows(b, a, bytes, len);
        dlt_renews(a, DLOCK_OK, "by the holder");
        shows(b, a, bytes, len);
        dlt_tries(a, DLOCK_OK, "by the token that holds the name");
        shows(b, a, bytes, len);
        dlt_unlocks(a, DLOCK_OK, "by the holder");
    }
    dlt_parties_end(parties, 2);
}

/* Whatever ended the lease: nobody has the data of the holder before. */
void dlt_slots_data_end_with_the_lease(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    enum dlock_status status;
    struct dlt_seen seen;

    dlt_parties_begin(parties, 2, run);
    for (int how = 0; how < 4; how++) {
        bool ends = how == 2 && dlt_party_is_leased(a);

        dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, ends ? DLT_SHORT_MS : dlt_party_ttl_ms());
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        publishes(a, "published", 9);
        publishes(b, "others", how == 1 ? 6 : 0);
        dlt_tries(a, DLOCK_OK, "of a free name");
        if (how == 1)
            DLT_SAYS(b, dlt_party_break(b, NULL), DLOCK_OK, "a holder");
        else if (how == 3 && dlt_side_has(&a->side, DLOCK_CAP_KEEP)) {
            a->attempt.req.keep_ms = dlt_party_ttl_ms();
            dlt_unlocks(a, DLOCK_OK, "by the holder, who keeps the name");
            dlt_look(&seen, b);
            DLT_CHECK(dlt_seen_kept(&seen, 0)->told.data_len == 0,
                      "a kept name shows data [DAT-1] [KEP-1]");
            DLT_SAYS(b, dlt_party_break(b, NULL), DLOCK_OK, "what is kept");
        } else if (!ends)
            dlt_unlocks(a, DLOCK_OK, "by the holder");
        do {
            status = dlt_party_try(b);
            dlt_sleep_ms(10);
        } while (ends && status == DLOCK_BUSY);
        DLT_SAYS(b, status, DLOCK_OK, "the name is free");
        shows(a, b, "others", how == 1 ? 6 : 0);
        dlt_unlocks(b, DLOCK_OK, "by the holder");
        dlt_look_counts(b, 0, "of a free name");
    }
    dlt_parties_end(parties, 2);
}

void dlt_slots_data_of_each(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];
    bool downgrades;

    dlt_parties_begin(parties, 3, run);
    downgrades = dlt_side_has(&a->side, DLOCK_CAP_DOWNGRADE);
    for (int permits = !dlt_side_has(&a->side, DLOCK_CAP_RWLOCK);
         permits <= dlt_side_has(&a->side, DLOCK_CAP_LIMIT); permits++) {
        for (size_t i = 0; i < 2; i++) {
            dlt_party_anew(&parties[i], "job",
                           permits || (i == 0 && downgrades) ? DLOCK_EXCLUSIVE : DLOCK_SHARED,
                           dlt_party_ttl_ms());
            parties[i].attempt.req.limit = permits ? 2 : 1;
        }
        publishes(a, "one", 3);
        publishes(b, "the other\0", 10);
        dlt_tries(a, DLOCK_OK, "of a free name");
        if (!permits && downgrades)
            DLT_SAYS(a, dlt_party_downgrade(a), DLOCK_OK, "a writer becomes a reader");
        dlt_tries(b, DLOCK_OK, "beside another one");
        shows(c, a, "one", 3);
        shows(c, b, "the other\0", 10);
        dlt_unlocks(a, DLOCK_OK, "by a holder");
        shows(c, b, "the other\0", 10);
        dlt_unlocks(b, DLOCK_OK, "by the last holder");
    }
    dlt_parties_end(parties, 3);
}

void dlt_slots_data_of_a_waiter(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];

    dlt_parties_begin(parties, 3, run);
    publishes(a, "before", 6);
    publishes(b, "queued", 6);
    dlt_tries(a, DLOCK_OK, "of a free name");
    dlt_party_line_up(b);
    dlt_party_line_up(c);
    shows(c, a, "before", 6);
    dlt_unlocks(a, DLOCK_OK, "by the holder");
    DLT_SAYS(b, dlt_party_wait(b, DLT_TOLD_MS), DLOCK_OK, "it is the first");
    shows(a, b, "queued", 6);
    dlt_unlocks(b, DLOCK_OK, "by the waiter");
    DLT_SAYS(c, dlt_party_wait(c, DLT_TOLD_MS), DLOCK_OK, "it is the first");
    shows(a, c, "", 0);
    dlt_unlocks(c, DLOCK_OK, "by the waiter");
    dlt_parties_end(parties, 3);
}
