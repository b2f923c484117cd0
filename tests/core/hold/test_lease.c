/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/lease.c */
/* Is the state of a lease a function of the clock (C2), and is a loss final (C5)? */
#include "hold/lease.h"

#include <criterion/criterion.h>

Test(lease, begins_free)
{
    struct dl_lease lease = {0};

    cr_assert_eq(dl_lease_state(&lease, 0), DLOCK_STATE_FREE);
    cr_assert_eq(dl_lease_left_ns(&lease, 0), 0);
    cr_assert_not(dl_lease_extend(&lease, 0, 100));
}

Test(lease, C2_held_until_its_end_and_not_at_it)
{
    struct dl_lease lease = {0};

    dl_lease_grant(&lease, 100);
    cr_assert_eq(dl_lease_state(&lease, 99), DLOCK_STATE_HELD);
    cr_assert_eq(dl_lease_left_ns(&lease, 99), 1);
    cr_assert_eq(dl_lease_state(&lease, 100), DLOCK_STATE_LOST);
    cr_assert_eq(dl_lease_left_ns(&lease, 100), 0);
}

Test(lease, C5_an_end_that_was_seen_is_final_even_for_an_earlier_clock)
{
    struct dl_lease lease = {0};

    dl_lease_grant(&lease, 100);
    cr_assert_eq(dl_lease_state(&lease, 100), DLOCK_STATE_LOST);
    cr_assert_not(dl_lease_extend(&lease, 90, 500), "a reader saw it lost at 100");
    cr_assert_eq(dl_lease_state(&lease, 90), DLOCK_STATE_LOST);
}

Test(lease, C5_an_extension_after_the_end_is_refused)
{
    struct dl_lease lease = {0};

    dl_lease_grant(&lease, 100);
    cr_assert_not(dl_lease_extend(&lease, 100, 500));
    cr_assert_eq(dl_lease_state(&lease, 50), DLOCK_STATE_LOST);
}

Test(lease, an_extension_never_shortens)
{
    struct dl_lease lease = {0};

    dl_lease_grant(&lease, 100);
    cr_assert(dl_lease_extend(&lease, 10, 60));
    cr_assert_eq(dl_lease_until_ns(&lease), 100);
    cr_assert(dl_lease_extend(&lease, 10, 160));
    cr_assert_eq(dl_lease_until_ns(&lease), 160);
}

Test(lease, C4_doubt_keeps_the_end_and_an_extension_ends_it)
{
    struct dl_lease lease = {0};

    dl_lease_grant(&lease, 100);
    cr_assert(dl_lease_doubt(&lease, 50));
    cr_assert_eq(dl_lease_state(&lease, 99), DLOCK_STATE_DOUBTFUL);
    cr_assert_eq(dl_lease_left_ns(&lease, 99), 1);
    cr_assert(dl_lease_extend(&lease, 99, 200));
    cr_assert_eq(dl_lease_state(&lease, 99), DLOCK_STATE_HELD);
    cr_assert(dl_lease_doubt(&lease, 150));
    cr_assert_eq(dl_lease_state(&lease, 200), DLOCK_STATE_LOST);
}

Test(lease, lost_until_it_is_freed)
{
    struct dl_lease lease = {0};

    dl_lease_grant(&lease, 100);
    dl_lease_lose(&lease);
    cr_assert_eq(dl_lease_state(&lease, 1), DLOCK_STATE_LOST);
    cr_assert_not(dl_lease_doubt(&lease, 1));
    dl_lease_free(&lease);
    cr_assert_eq(dl_lease_state(&lease, 1), DLOCK_STATE_FREE);
}
