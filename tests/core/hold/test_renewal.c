/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/renewal.c */
/* Is a lease renewed when it should be (C14), and does an answer mean what it says (C3, C4, C5)? */
#include "hold/renewal.h"
#include "sys/clock.h"

#include <criterion/criterion.h>

#define MS INT64_C(1000000)

/* Of a lease of 30 s that was asked for at 1 s. */
#define UNTIL_MS (1000 + 30000 - 3000)

static struct dl_renewal renewal;
static struct dl_lease lease;
static bool gone, stale;

static void hold(bool automatic, int64_t max_hold_ms, bool soon)
{
    renewal = (struct dl_renewal){.automatic = automatic, .margin = 10, .hold_until_ns = DL_NEVER};
    if (max_hold_ms != 0)
        renewal.hold_until_ns = (1010 + max_hold_ms) * MS;
    dl_renewal_granted(&renewal, &lease, 1010 * MS, UNTIL_MS * MS, 30000, soon);
}

/* A third is not a whole number of nanoseconds. */
static int64_t at_ms(void)
{
    return (renewal.at_ns + MS - 1) / MS;
}

static enum dlock_status answered(int64_t sent_ms, int64_t now_ms, enum dlock_status status)
{
    struct dl_renewal_answer answer = {sent_ms * MS, now_ms * MS, status, 30000, 3000 * MS, 0};

    return dl_renewal_answered(&renewal, &lease, &answer, &gone, &stale);
}

static enum dl_due_step due(int64_t now_ms)
{
    return dl_renewal_due(&renewal, &lease, now_ms * MS, 0, false);
}

Test(renewal, C14_first_at_a_third_of_the_lease)
{
    hold(true, 0, false);
    cr_assert_eq(at_ms(), 11000);
    cr_assert_eq(dl_renewal_recheck_ns(&renewal, &lease), renewal.at_ns);
    cr_assert_eq(due(10999), DL_DUE_LATER);
    cr_assert_eq(due(11000), DL_DUE_RENEW);
}

Test(renewal, a_lease_shorter_than_asked_for_is_extended_soon)
{
    hold(true, 0, true);
    cr_assert_eq(renewal.at_ns, 1060 * MS);
}

Test(renewal, never_where_it_is_left_to_the_application)
{
    hold(false, 0, true);
    cr_assert_eq(renewal.at_ns, DL_NEVER);
    cr_assert_eq(dl_renewal_recheck_ns(&renewal, &lease), UNTIL_MS * MS);
    cr_assert_eq(answered(5000, 5001, DLOCK_UNKNOWN), DLOCK_UNKNOWN);
    cr_assert_eq(renewal.at_ns, DL_NEVER);
}

Test(renewal, C14_an_answer_counts_from_the_sending)
{
    hold(true, 0, false);
    cr_assert_eq(answered(11000, 12000, DLOCK_OK), DLOCK_OK);
    cr_assert_eq(dl_lease_until_ns(&lease), (11000 + 30000 - 3000) * MS);
    cr_assert_eq(at_ms(), 21000);
}

Test(renewal, C14_failures_are_repeated_and_the_old_validity_stands)
{
    hold(true, 0, false);
    cr_assert_eq(answered(11000, 12000, DLOCK_UNAVAILABLE), DLOCK_UNAVAILABLE);
    cr_assert_eq(dl_lease_state(&lease, 12000 * MS), DLOCK_STATE_DOUBTFUL);
    cr_assert_eq(dl_lease_until_ns(&lease), UNTIL_MS * MS);
    cr_assert_eq(renewal.at_ns, 12005 * MS);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(answered(13000, 13000, DLOCK_UNKNOWN), DLOCK_UNKNOWN);
    cr_assert_eq(renewal.at_ns, 14000 * MS, "no pause is longer than a second");
    cr_assert_eq(answered(14000, 14001, DLOCK_OK), DLOCK_OK);
    cr_assert_eq(dl_lease_state(&lease, 14001 * MS), DLOCK_STATE_HELD);
    cr_assert_eq(renewal.failures, 0);
}

Test(renewal, C23_a_lease_without_a_ttl_is_looked_at_each_ten_seconds)
{
    renewal.automatic = true;
    renewal.hold_until_ns = DL_NEVER;
    dl_renewal_granted(&renewal, &lease, 1000 * MS,
                       dl_lease_valid_until_ns(1000 * MS, DLOCK_TTL_NONE, renewal.margin),
                       DLOCK_TTL_NONE, false);
    cr_assert_eq(at_ms(), 11000);
    cr_assert_eq(dl_renewal_early_ns(&renewal), 100 * MS);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(answered(13000, 13000, DLOCK_UNKNOWN), DLOCK_UNKNOWN);
    cr_assert_eq(dl_lease_state(&lease, INT64_C(10000000000) * MS), DLOCK_STATE_DOUBTFUL);
    cr_assert_eq(at_ms(), 14000);
}

/* The store did extend it: not executed, as UNAVAILABLE says, would be wrong. */
Test(renewal, C3_an_answer_too_late_to_be_of_use_is_unknown)
{
    hold(true, 0, false);
    cr_assert_eq(answered(-29000, 12000, DLOCK_OK), DLOCK_UNKNOWN);
    cr_assert_not(stale);
    cr_assert_eq(dl_lease_until_ns(&lease), UNTIL_MS * MS);
    cr_assert_eq(dl_lease_state(&lease, 12000 * MS), DLOCK_STATE_DOUBTFUL);
    cr_assert_eq(renewal.at_ns, 12005 * MS);
}

Test(renewal, C5_an_answer_after_the_end_does_not_bring_it_back)
{
    hold(true, 0, false);
    cr_assert_eq(answered(30000, UNTIL_MS, DLOCK_OK), DLOCK_LOST);
    cr_assert_not(gone);
    cr_assert(stale);
    cr_assert_eq(due(UNTIL_MS), DL_DUE_EXPIRED);
    cr_assert_eq(answered(30000, UNTIL_MS, DLOCK_UNKNOWN), DLOCK_LOST);
    cr_assert_not(stale);
}

Test(renewal, C5_not_yours_is_final)
{
    hold(true, 0, false);
    cr_assert_eq(answered(11000, 11001, DLOCK_LOST), DLOCK_LOST);
    cr_assert(gone);
    cr_assert_not(stale);
}

Test(renewal, C5_gone_when_released)
{
    hold(true, 0, false);
    dl_lease_free(&lease);
    cr_assert_eq(due(11000), DL_DUE_GONE);
}

Test(renewal, while_the_application_renews_nobody_else_does)
{
    hold(true, 0, false);
    cr_assert_eq(dl_renewal_due(&renewal, &lease, 11000 * MS, 0, true), DL_DUE_BUSY);
    cr_assert_eq(due(11000), DL_DUE_RENEW, "and afterwards it is still due");
}

Test(renewal, C14_max_hold_ends_it)
{
    hold(true, 40000, false);
    cr_assert_eq(at_ms(), 11000);
    cr_assert_eq(answered(11000, 11001, DLOCK_OK), DLOCK_OK);
    cr_assert_eq(dl_lease_until_ns(&lease), (11000 + 30000 - 3000) * MS);
    cr_assert_eq(answered(21000, 21001, DLOCK_OK), DLOCK_OK);
    cr_assert_eq(dl_lease_until_ns(&lease), 41010 * MS);
    cr_assert_eq(renewal.at_ns, DL_NEVER, "the store keeps it for that long");
    cr_assert_eq(due(41010), DL_DUE_MAX_HOLD);
}

Test(renewal, C14_three_exchanges_fit_in_before_the_end)
{
    hold(true, 0, false);
    renewal.lease_ms = 300;
    cr_assert_eq(dl_renewal_exchange_ns(&renewal, 2000 * MS), 50 * MS);
    cr_assert_eq(dl_renewal_io_limit_ns(&renewal), 50 * MS);
}

Test(renewal, an_exchange_ends_with_its_op_timeout)
{
    hold(true, 0, false);
    cr_assert_eq(dl_renewal_exchange_ns(&renewal, 2000 * MS), 2000 * MS);
    cr_assert_eq(dl_renewal_exchange_ns(&renewal, 9000 * MS), 5000 * MS);
    cr_assert_eq(dl_renewal_io_limit_ns(&renewal), 5000 * MS, "of another one that is held");
}
