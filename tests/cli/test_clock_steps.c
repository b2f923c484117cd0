/* SPDX-License-Identifier: MIT */
/* Tests: cli/clock_steps.c */
/* Which moves of the wall clock are steps? */
#include "clock_steps.h"

#include <criterion/criterion.h>

#define MS INT64_C(1000000)
#define S  (1000 * MS)

Test(clock_steps, slewing_is_none_and_a_step_is_one_either_way)
{
    struct clock_steps steps = {0};
    const int64_t wall_ns = 1700000000 * S, boot_ns = 100 * S;

    cr_assert_eq(clock_steps_read(&steps, wall_ns, boot_ns), 0, "the first reading");
    cr_assert_eq(clock_steps_read(&steps, wall_ns + 30 * S, boot_ns + 30 * S), 0);
    cr_assert_eq(clock_steps_read(&steps, wall_ns + 60 * S + 49 * MS, boot_ns + 60 * S), 0,
                 "30 s may be slewed by 30 ms, and the reading takes 20 ms");
    cr_assert_eq(clock_steps_read(&steps, wall_ns + 90 * S, boot_ns + 90 * S), 0);
    cr_assert_eq(steps.count, 0);
    cr_assert_eq(clock_steps_read(&steps, wall_ns + 121 * S, boot_ns + 120 * S), 1 * S);
    cr_assert_eq(clock_steps_read(&steps, wall_ns + 151 * S, boot_ns + 150 * S), 0, "once");
    cr_assert_eq(clock_steps_read(&steps, wall_ns + 180 * S - 500 * MS, boot_ns + 180 * S),
                 -1500 * MS);
    cr_assert_eq(steps.count, 2);
    cr_assert_eq(steps.step_ns, -1500 * MS);
}
