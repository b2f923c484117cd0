/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/backoff.c */
/* Does a delay grow, stay in its bounds, and differ from the neighbour's? */
#include "sys/backoff.h"
#include "sys/random.h"

#include <criterion/criterion.h>

Test(backoff, grows_to_its_bound_and_not_beyond)
{
    for (unsigned n = 0; n < 80; n++) {
        int64_t whole = n < 9 ? INT64_C(2) << n : 1000;

        if (whole > 1000)
            whole = 1000;
        cr_assert_eq(dl_backoff_delay(n, 2, 1000, 0), whole, "n %u", n);
    }
}

Test(backoff, half_of_it_is_random)
{
    uint64_t state = 42;
    int64_t least = INT64_MAX, most = 0;

    for (int i = 0; i < 1000; i++) {
        int64_t delay = dl_backoff_delay(20, 2, 1000, dl_random_jitter(&state));

        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
    }
    cr_assert_geq(least, 500);
    cr_assert_leq(most, 1000);
    cr_assert_lt(least, 520);
    cr_assert_gt(most, 980);
}

Test(backoff, does_not_overflow)
{
    cr_assert_gt(dl_backoff_delay(UINT32_MAX, 1, INT64_MAX - 1, 7), 0);
}

Test(backoff, spread_takes_an_eighth_at_most)
{
    uint64_t state = 7;

    for (int i = 0; i < 1000; i++) {
        int64_t spread = dl_backoff_spread(800, dl_random_jitter(&state));

        cr_assert(spread >= 700 && spread <= 800, "%lld", (long long)spread);
    }
}
