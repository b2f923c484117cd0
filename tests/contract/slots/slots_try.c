/* SPDX-License-Identifier: MIT */
/* Who gets a name, and for how long. */
#include "calls.h"
#include "slots.h"

#include <string.h>

#define POLL_MS 5

/* BUSY says how long, if it can: holder_ms of a lease of dlt_party_ttl_ms(). */
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
        dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    }
    dlt_parties_end(parties, 2);
}

void dlt_slots_readers_share(struct dlt_run *run)
{
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *writer = &parties[2];
    int64_t lease_ms;

    dlt_parties_begin(parties, 3, run);
    dlt_party_anew(a, "job", DLOCK_SHARED, dlt_party_ttl_ms());
    dlt_party_anew(b, "job", DLOCK_SHARED, dlt_party_ttl_ms() / 2);
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
    dlt_party_anew(a, "job", DLOCK_SHARED, dlt_party_ttl_ms());
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
    dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    start_ns = dlt_now_ns();
    dlt_tries(a, DLOCK_OK, "of a free name");
    end_ns = dlt_now_ns();
    ttl_ms = a->attempt.req.ttl_ms;
    lease_ms = a->side.grant.lease_ms;
    most_ms = lease_ms + (ttl_ms / 20 > 1000 ? ttl_ms / 20 : 1000) + a->run->grid_ms;
    while (status == DLOCK_BUSY) {
        dlt_sleep_ms(POLL_MS);
        status = dlt_party_try(b);
        DLT_WITHIN(end_ns, most_ms + a->run->slack_ms, "a lease of %lld ms has not ended [TRY-2]",
                   (long long)lease_ms);
    }
    DLT_SAYS(b, status, DLOCK_OK, "the lease has ended");
    DLT_CHECK(dlt_ms_since(start_ns) >= (double)lease_ms,
              "a lease of %lld ms ended after %.1f ms [TRY-2]", (long long)lease_ms,
              dlt_ms_since(start_ns));
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
        dlt_skip("not applicable: leases live in sessions");
    ends_by_itself(&parties[0], &parties[1], DLOCK_EXCLUSIVE);
    if (dlt_side_has(&parties[0].side, DLOCK_CAP_RWLOCK))
        ends_by_itself(&parties[0], &parties[1], DLOCK_SHARED);
    dlt_parties_end(parties, 2);
}

void dlt_slots_reader_by_itself(struct dlt_run *run)
{
    struct dlt_party parties[3], *brief = &parties[0], *other = &parties[1], *writer = &parties[2];

    dlt_parties_begin(parties, 3, run);
    if (!dlt_party_is_leased(brief))
        dlt_skip("not applicable: leases live in sessions");
    dlt_party_anew(brief, "job", DLOCK_SHARED, DLT_SHORT_MS);
    dlt_party_anew(other, "job", DLOCK_SHARED, dlt_party_ttl_ms());
    dlt_tries(brief, DLOCK_OK, "shared, of a free name");
    dlt_tries(other, DLOCK_OK, "shared, beside a reader");
    dlt_sleep_ms(brief->side.grant.lease_ms + 1000 + run->grid_ms);
    dlt_renews(other, DLOCK_OK, "a reader beside one whose lease has ended");
    dlt_renews(brief, DLOCK_LOST, "whose lease ended beside a reader");
    dlt_unlocks(brief, DLOCK_LOST, "whose lease ended beside a reader");
    dlt_tries(writer, DLOCK_BUSY, "beside the reader that is left");
    dlt_unlocks(other, DLOCK_OK, "the last reader");
    dlt_tries(writer, DLOCK_OK, "after the last reader");
    dlt_unlocks(writer, DLOCK_OK, "the writer");
    dlt_parties_end(parties, 3);
}

/* The store has the whole lease still: a repetition, or a renewal, with a shorter ttl shortened
 * nothing. */
static void not_shortened(struct dlt_party *asker, int64_t start_ns, int64_t lease_ms)
{
    int64_t left_ms = dlt_party_left_ms(asker);

    while (left_ms == -1 && dlt_ms_since(start_ns) < (double)(lease_ms - 500)) {
        dlt_sleep_ms(50);
        dlt_tries(asker, DLOCK_BUSY, "while the first lease of the holder lasts [TRY-5] [REN-3]");
    }
    DLT_CHECK(left_ms == -1 || (double)left_ms + dlt_ms_since(start_ns) + 2 >= (double)lease_ms,
              "%.0f ms after a lease of %lld ms began, %lld ms are left "
              "[TRY-5] [REN-3]",
              dlt_ms_since(start_ns), (long long)lease_ms, (long long)left_ms);
}

/* The store says what is left, or else the lease has to be waited for. */
static int64_t long_ms(struct dlt_party *holder, struct dlt_party *asker)
{
    bool tells;

    dlt_tries(holder, DLOCK_OK, "of a free name");
    tells = dlt_party_left_ms(asker) != -1;
    dlt_unlocks(holder, DLOCK_OK, "the holder");
    return tells ? dlt_party_ttl_ms() : 3000 + holder->run->slack_ms;
}

static void again(struct dlt_party *a, struct dlt_party *b, struct dlt_party *second,
                  int64_t ttl_ms)
{
    int64_t least_ms = a->side.info.ttl_least_ms, start_ns = dlt_now_ns(), lease_ms;
    uint64_t fence;

    dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_tries(a, DLOCK_OK, "of a free name");
    lease_ms = a->side.grant.lease_ms;
    fence = a->side.grant.fence;
    a->attempt.req.ttl_ms = least_ms > 200 ? least_ms : 200;
    for (int i = 0; i < 2; i++) {
        dlt_tries(a, DLOCK_OK, "with the token that holds the name [TRY-5]");
        DLT_CHECK(a->side.grant.fence >= fence, "the same token again: fence %llu after %llu",
                  (unsigned long long)a->side.grant.fence, (unsigned long long)fence);
        if (dlt_party_is_leased(a))
            not_shortened(b, start_ns, lease_ms);
    }
    if (second != NULL)
        DLT_SAYS(second, dlt_side_try(&second->side, &a->attempt), DLOCK_OK,
                 "the token that holds the name, in another session [TRY-5] [SES-1]");
    dlt_renews(a, DLOCK_OK, "with a shorter ttl");
    if (dlt_party_is_leased(a))
        not_shortened(b, start_ns, lease_ms);
    a->attempt.req.ttl_ms = dlt_ttl_within(2 * ttl_ms);
    start_ns = dlt_now_ns();
    dlt_renews(a, DLOCK_OK, "with a longer ttl");
    if (dlt_party_is_leased(a))
        not_shortened(b, start_ns, a->side.grant.lease_ms);
    dlt_unlocks(a, DLOCK_OK, "the holder");
    dlt_tries(b, DLOCK_OK, "after the unlock of a token that asked several times");
    dlt_unlocks(b, DLOCK_OK, "the holder");
}

void dlt_slots_same_token(struct dlt_run *run)
{
    struct dlt_party parties[2], second, *a = &parties[0], *b = &parties[1];
    bool one_session; /* has the lock */
    int64_t ttl_ms;

    dlt_parties_begin(parties, 2, run);
    one_session = !dlt_party_is_leased(a);
    if (!one_session)
        dlt_party_join(&second, a, "another session of a");
    ttl_ms = long_ms(a, b);
    for (int mode = DLOCK_EXCLUSIVE; mode <= DLOCK_SHARED; mode++) {
        if (mode == DLOCK_SHARED && !dlt_side_has(&a->side, DLOCK_CAP_RWLOCK))
            continue;
        dlt_party_anew(a, "job", (enum dlock_mode)mode, ttl_ms);
        again(a, b, one_session ? NULL : &second, a->attempt.req.ttl_ms);
    }
    if (!one_session)
        dlt_party_end(&second);
    dlt_parties_end(parties, 2);
}

/* ---- fences ---- */

/* Ends what the party holds, in the way of that round. */
static void end_somehow(struct dlt_party *a, struct dlt_party *b, int round)
{
    enum dlock_status status = DLOCK_UNSUPPORTED;

    if (round == 1 && dlt_party_is_leased(a)) {
        dlt_sleep_ms(a->side.grant.lease_ms + 1000 + a->run->grid_ms);
        return;
    }
    if (round == 2)
        status = dlt_party_break(b, NULL);
    if (status != DLOCK_UNSUPPORTED)
        DLT_SAYS(b, status, DLOCK_OK, "a holder that is broken");
    else
        dlt_unlocks(a, DLOCK_OK, "the holder");
    if (round != 3)
        return;
    dlt_side_close(&a->side);
    DLT_SAYS(a, dlt_side_open(&a->side), DLOCK_OK, "a new session");
}

void dlt_slots_fence_rises(struct dlt_run *run)
{
    struct dlt_party parties[2];
    bool reads;
    uint64_t last = 0;

    dlt_parties_begin(parties, 2, run);
    reads = dlt_side_has(&parties[0].side, DLOCK_CAP_RWLOCK);
    for (int i = 0; i < 12; i++) {
        struct dlt_party *a = &parties[i % 2], *b = &parties[(i + 1) % 2];
        enum dlock_mode mode = reads && i % 4 == 3 ? DLOCK_SHARED : DLOCK_EXCLUSIVE;

        dlt_party_anew(a, "job", mode, i == 1 ? DLT_SHORT_MS : dlt_party_ttl_ms());
        dlt_tries(a, DLOCK_OK, "of a free name");
        DLT_CHECK(mode == DLOCK_SHARED || a->side.grant.fence > last,
                  "grant %d: the fence is %llu, and %llu was granted before [TRY-6] [UNL-3]", i,
                  (unsigned long long)a->side.grant.fence, (unsigned long long)last);
        if (dlt_party_fence(a) > last)
            last = dlt_party_fence(a);
        end_somehow(a, b, i);
    }
    dlt_parties_end(parties, 2);
}

/* ---- names ---- */

static void named(struct dlt_party *party, const char *bytes, size_t len)
{
    dlt_party_anew(party, "", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    memcpy(party->attempt.name.text + party->attempt.name.len, bytes, len);
    party->attempt.name.len += len;
    party->attempt.req.name_len = (uint32_t)party->attempt.name.len;
}

/* Each is another name than those before it, and than what a plugin may make of them. */
void dlt_slots_names_are_bytes(struct dlt_run *run)
{
    static const struct {
        const char *bytes;
        size_t len;
    } names[] = {{"job", 3},           {"Job", 3},     {"JOB", 3},    {"job ", 4},     {" job", 4},
                 {"job\0", 4},         {"job\0x", 5},  {"job\0y", 5}, {"jo", 2},       {"jo_", 3},
                 {"jo%", 3},           {"jo\xc3", 3},  {"\xff", 1},   {"\xff\xfe", 2}, {"\n", 1},
                 {"job\r\nDEL x", 10}, {"'\"`;--", 6}, {"\\", 1},     {"\\x6a", 4},    {"?", 1},
                 {"%s%n", 4},          {"*", 1},       {"{job}", 5},  {"job}:m", 6},   {"job:m", 5},
                 {"%6A%6F%62", 9},     {"job/x", 5},   {"..", 2},     {".", 1},        {"/", 1}};
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    char longest[DLOCK_NAME_MAX];
    size_t rest = DLOCK_NAME_MAX - strlen(run->prefix);

    dlt_parties_begin(parties, 2, run);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        named(a, names[i].bytes, names[i].len);
        dlt_tries(a, DLOCK_OK, "of one name of many [TRY-7]");
        named(b, names[i].bytes, names[i].len);
        dlt_tries(b, DLOCK_BUSY, "of the same bytes [TRY-7]");
        for (size_t j = i == 0 ? 1 : (i - 1) % 5; j < sizeof names / sizeof names[0];
             j += i == 0 ? 1 : 5) { /* among them the one before */
            if (j == i)
                continue;
            named(b, names[j].bytes, names[j].len);
            dlt_tries(b, DLOCK_OK, "of other bytes [TRY-7]");
            dlt_unlocks(b, DLOCK_OK, "of other bytes [TRY-7]");
            if (dlt_side_has(&a->side, DLOCK_CAP_SESSION)) /* a server ends idle sessions */
                dlt_renews(a, DLOCK_OK, "while others come and go");
        }
        dlt_unlocks(a, DLOCK_OK, "of one name of many [TRY-7]");
    }
    memset(longest, '%', sizeof longest);
    named(a, longest, rest);
    dlt_tries(a, DLOCK_OK, "of a name of 255 bytes [TRY-7]");
    longest[rest - 1] = 'x';
    named(b, longest, rest);
    dlt_tries(b, DLOCK_OK, "of another name of 255 bytes [TRY-7]");
    dlt_unlocks(b, DLOCK_OK, "of a name of 255 bytes");
    dlt_unlocks(a, DLOCK_OK, "of a name of 255 bytes");
    dlt_parties_end(parties, 2);
}
