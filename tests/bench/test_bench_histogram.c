/* SPDX-License-Identifier: MIT */
/* Are the figures of the benchmarks those of what was put in? */
#include "histogram.h"
#include "spread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static struct bench_histogram h, other;

static void empty(void)
{
    memset(&h, 0, sizeof h);
    memset(&other, 0, sizeof other);
}

TestSuite(histogram, .init = empty);

Test(histogram, an_empty_one_is_zero)
{
    cr_assert_eq(bench_histogram_quantile(&h, 0.5), 0u);
    cr_assert_eq(h.max, 0u);
}

Test(histogram, small_values_are_exact)
{
    for (uint64_t i = 1; i <= 100; i++)
        bench_histogram_add(&h, i);
    cr_assert_eq(bench_histogram_quantile(&h, 0), 1u);
    cr_assert_eq(bench_histogram_quantile(&h, 0.5), 50u);
    cr_assert_eq(bench_histogram_quantile(&h, 0.99), 99u);
    cr_assert_eq(bench_histogram_quantile(&h, 1), 100u);
}

Test(histogram, any_value_is_at_most_a_64th_too_large)
{
    for (uint32_t bit = 0; bit < 64; bit++) {
        for (uint64_t value = UINT64_C(1) << bit, i = 0; i < 3; i++, value += value / 3) {
            uint64_t found = 0;

            empty();
            bench_histogram_add(&h, value);
            bench_histogram_add(&h, UINT64_MAX);
            found = bench_histogram_quantile(&h, 0.5);
            cr_assert(found >= value && found - value <= value / 64, "%lu for %lu",
                      (unsigned long)found, (unsigned long)value);
        }
    }
}

Test(histogram, the_largest_is_exact)
{
    bench_histogram_add(&h, 1000003);
    cr_assert_eq(bench_histogram_quantile(&h, 1), 1000003u);
    cr_assert_eq(bench_histogram_quantile(&h, 0.5), 1000003u, "no more than there was");
}

Test(histogram, two_together)
{
    for (uint64_t i = 0; i < 10; i++) {
        bench_histogram_add(&h, 10);
        bench_histogram_add(&other, 20);
    }
    bench_histogram_add(&other, 30);
    bench_histogram_merge(&h, &other);
    cr_assert_eq(h.count, 21u);
    cr_assert_eq(h.max, 30u);
    cr_assert_eq(bench_histogram_quantile(&h, 0.4), 10u);
    cr_assert_eq(bench_histogram_quantile(&h, 0.9), 20u);
}

Test(spread, of_an_odd_and_an_even_number_of_rounds)
{
    static const double values[] = {5, 1, 4, 1, 2};
    struct bench_spread spread = bench_spread_of(values, 5);

    cr_assert(spread.median == 2 && spread.min == 1 && spread.max == 5);
    spread = bench_spread_of(values, 4);
    cr_assert_float_eq(spread.median, 2.5, 1e-9);
    spread = bench_spread_of(values, 1);
    cr_assert(spread.median == 5 && spread.min == 5 && spread.max == 5);
}
