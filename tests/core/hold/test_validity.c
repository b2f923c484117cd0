/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/lease.c */
/* Is a lease believed for less long than the store keeps it (C1), and refused when too short (C3)?
 */
#include "hold/lease.h"

#include <criterion/criterion.h>

#define MS INT64_C(1000000)

Test(validity, C1_ends_the_margin_before_the_store_may_forget)
{
    cr_assert_eq(dl_lease_margin_ns(30000, 10), 3000 * MS);
    cr_assert_eq(dl_lease_margin_ns(30000, 1), 300 * MS);
    cr_assert_eq(dl_lease_valid_until_ns(1000 * MS, 30000, 10), (1000 + 30000 - 3000) * MS);
}

Test(validity, C1_the_margin_is_ten_milliseconds_at_least)
{
    cr_assert_eq(dl_lease_margin_ns(100, 10), 10 * MS);
    cr_assert_eq(dl_lease_margin_ns(99, 10), 10 * MS);
    cr_assert_eq(dl_lease_margin_ns(101, 10), 10 * MS + MS / 10);
    cr_assert_eq(dl_lease_valid_until_ns(0, 50, 1), 40 * MS);
}

Test(validity, C3_least_is_ten_milliseconds_or_a_tenth)
{
    cr_assert_eq(dl_lease_least_ns(50), 10 * MS);
    cr_assert_eq(dl_lease_least_ns(100), 10 * MS);
    cr_assert_eq(dl_lease_least_ns(30000), 3000 * MS);
}

Test(validity, C3_exactly_the_least_is_not_enough)
{
    cr_assert_not(dl_lease_is_enough(0, 3000 * MS, 30000));
    cr_assert(dl_lease_is_enough(0, 3000 * MS + 1, 30000));
    cr_assert_not(dl_lease_is_enough(10, 5, 30000));
}

Test(validity, seven_days_do_not_overflow)
{
    int64_t week_ms = INT64_C(7) * 24 * 3600 * 1000;

    cr_assert_gt(dl_lease_valid_until_ns(INT64_C(1) << 61, week_ms, 50), INT64_C(1) << 61);
}
