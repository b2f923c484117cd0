/* SPDX-License-Identifier: MIT */
/* Does a plan run what it is told to, tell of failures, and compare rounds with each other? */
#include "plan.h"
#include "stopwatch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int worker; /* what a lock that is none needs */
static char why[BENCH_WHY_SIZE];
static struct bench_figures figures[2];

static void *fine_open(const struct bench_place *place, char *text)
{
    (void)text;
    cr_assert_str_eq(place->uri, "");
    return &worker;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void *fine_join(void *process, const struct bench_place *place, int index, char *text)
{
    (void)place;
    (void)index;
    (void)text;
    return process;
}

static int fine(void *arg, char *text)
{
    (void)arg;
    (void)text;
    return 0;
}

static int slow(void *arg, char *text)
{
    bench_sleep_ns(2 * BENCH_NS_PER_MS);
    return fine(arg, text);
}

static int wasteful(void *arg, char *text)
{
    void *volatile block = malloc(100); /* the optimiser leaves it in */

    free(block);
    block = calloc(2, 100);
    free(block);
    return fine(arg, text);
}

static int broken(void *arg, char *text)
{
    (void)arg;
    (void)snprintf(text, BENCH_WHY_SIZE, "it is broken");
    return -1;
}

static int deadly(void *arg, char *text)
{
    (void)arg;
    (void)text;
    abort();
}

static int plan_run(int (*lock)(void *, char *), int rounds)
{
    struct bench_work work = {fine_open, nothing, fine_join, nothing, lock, fine};
    struct bench_case cases[2] = {
        {"one", &work, BENCH_NO_STORE, {.processes = 1, .threads = 1}},
        {"two", &work, BENCH_NO_STORE, {.processes = 2, .threads = 2}},
    };
    struct bench_options options = {.rounds = rounds, .duration_ns = 20 * BENCH_NS_PER_MS};

    return bench_plan_run(cases, 2, &options, figures, why);
}

Test(plan, as_many_rounds_as_asked_for)
{
    cr_assert_eq(plan_run(fine, 3), 0, "%s", why);
    cr_assert_eq(figures[0].rounds, 3);
    cr_assert_eq(figures[1].rounds, 3);
    for (int i = 0; i < 3; i++)
        cr_assert_gt(figures[1].values[BENCH_RATE][i], 0);
}

Test(plan, a_time_is_that_of_the_lock)
{
    cr_assert_eq(plan_run(slow, 1), 0, "%s", why);
    cr_assert_geq(figures[0].values[BENCH_P50_US][0], 2000);
    cr_assert_leq(figures[0].values[BENCH_RATE][0], 500);
}

Test(plan, allocations_are_counted)
{
    cr_assert_eq(plan_run(wasteful, 1), 0, "%s", why);
    if (figures[0].values[BENCH_ALLOCATIONS][0] < 0)
        cr_skip("not in a build with a sanitizer");
    cr_assert_float_eq(figures[0].values[BENCH_ALLOCATIONS][0], 2, 0.01);
    cr_assert_eq(plan_run(fine, 1), 0, "%s", why);
    cr_assert_float_eq(figures[0].values[BENCH_ALLOCATIONS][0], 0, 0.01);
}

Test(plan, a_failure_says_where_and_why)
{
    cr_assert_eq(plan_run(broken, 1), -1);
    cr_assert_str_eq(why, "one: it is broken");
}

Test(plan, a_process_that_dies_is_a_failure)
{
    cr_assert_eq(plan_run(deadly, 1), -1);
    cr_assert_not_null(strstr(why, "one: a process"), "%s", why);
}

Test(plan, ratios_are_those_of_the_same_round)
{
    struct bench_target target = {"", "", "", BENCH_RATE, 1, 2, 0, 1};
    struct bench_figures some[2] = {
        {.rounds = 3, .values = {[BENCH_RATE] = {10, 200, 60}}},
        {.rounds = 3, .values = {[BENCH_RATE] = {5, 50, 60}}},
    };
    struct bench_spread spread;

    cr_assert(bench_target_spread(&target, some, &spread));
    cr_assert(spread.min == 1 && spread.median == 2 && spread.max == 4);
    cr_assert(bench_target_met(&target, &spread));
    target.bound = 2.1;
    cr_assert_not(bench_target_met(&target, &spread));
    target.at_least = 0;
    cr_assert(bench_target_met(&target, &spread));
    some[1].rounds = 0;
    cr_assert_not(bench_target_spread(&target, some, &spread), "there is nothing to divide by");
}
