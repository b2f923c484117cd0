/* SPDX-License-Identifier: MIT */
/* Does a plan run what it is told to, tell of failures, and compare rounds with each other? Do its
 * exact sleeps leave those of a store alone? */
#include "standing.h"
#include "stopwatch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static int worker; /* what a lock that is none needs */
static const struct bench_figures *figures[2];

static void *fine_open(const struct bench_config *config, char *text)
{
    (void)text;
    cr_assert_str_eq(config->uri, "");
    return &worker;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void *fine_begin(void *process, const struct bench_config *config, int index, char *text)
{
    (void)config;
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

/* A lock by operations: each worker has at most one under way, and a pair is two of them. */
#define MANY 3

static struct {
    int under_way[MANY], queue[MANY], first, count;
} operations;

static void *numbered_begin(void *process, const struct bench_config *config, int index, char *text)
{
    (void)process;
    (void)config;
    (void)text;
    return &operations.under_way[index % MANY];
}

static int operation_start(void *arg, int unlock, char *text)
{
    int *under_way = arg;

    cr_assert_eq(*under_way, 0, "one at a time");
    *under_way = unlock ? 2 : 1;
    operations.queue[(operations.first + operations.count++) % MANY] =
        (int)(under_way - operations.under_way);
    return fine(arg, text);
}

static int operation_next(void *process, char *text)
{
    int index = operations.queue[operations.first % MANY];

    (void)fine(process, text);
    operations.first = (operations.first + 1) % MANY;
    operations.count--;
    operations.under_way[index] = 0;
    return index;
}

static int operation_none(void *process, char *text)
{
    return broken(process, text);
}

static const struct bench_workload workloads[] = {
    {.name = "one", .load = {.processes = 1, .threads = 1}},
    {.name = "two", .load = {.processes = 2, .threads = 2}},
    {.name = "once",
     .load = {.processes = 1, .threads = 1, .one_name = 1},
     .once = 1,
     .variants = 1},
};

static const struct bench_workload many[] = {
    {.name = "many", .load = {.processes = 1, .threads = MANY}, .async = 1},
    {.name = "not by operations", .load = {.processes = 1, .threads = MANY}},
};

static struct bench_plan plan;
static struct bench_work work = {
    .open = fine_open, .close = nothing, .begin = fine_begin, .end = nothing, .unlock = fine};
static struct bench_subject subjects[] = {
    {.label = "store", .work = &work, .fits = BENCH_FITS_ALL},
    {.label = "bare", .role = BENCH_LIMIT, .work = &work, .fits = BENCH_FITS_ALONE},
    {.label = "other options", .work = &work, .fits = BENCH_FITS_ALL},
};

static int plan_run(int (*lock)(void *, char *), int rounds)
{
    struct bench_options options = {.rounds = rounds, .duration_ns = 20 * BENCH_NS_PER_MS};

    work.lock = lock;
    bench_plan_fini(&plan);
    plan = (struct bench_plan){
        .subjects = subjects, .subject_count = 3, .workloads = workloads, .workload_count = 3};
    cr_assert_eq(bench_plan_init(&plan, NULL), 0);
    int failed = bench_plan_run(&plan, &options);

    figures[0] = bench_plan_find(&plan, "store", "one");
    figures[1] = bench_plan_find(&plan, "store", "two");
    return failed;
}

Test(plan, as_many_rounds_as_asked_for)
{
    cr_assert_eq(plan_run(fine, 3), 0);
    cr_assert_eq(figures[0]->rounds, 3);
    cr_assert_eq(figures[1]->rounds, 3);
    for (int i = 0; i < 3; i++)
        cr_assert_gt(figures[1]->values[BENCH_RATE][i], 0);
    cr_assert_eq(bench_plan_find(&plan, "store", "once")->rounds, 1);
}

Test(plan, a_limit_is_asked_for_what_it_can_do)
{
    cr_assert_eq(plan_run(fine, 1), 0);
    cr_assert_not_null(bench_plan_find(&plan, "bare", "one"));
    cr_assert_null(bench_plan_find(&plan, "bare", "two"), "it is for one worker");
    cr_assert_str_eq(bench_plan_limit_of(&plan, &plan.cases[0])->subject->label, "bare");
}

Test(plan, a_store_is_measured_once_but_where_its_options_matter)
{
    cr_assert_eq(plan_run(fine, 1), 0);
    cr_assert_null(bench_plan_find(&plan, "other options", "one"));
    cr_assert_not_null(bench_plan_find(&plan, "other options", "once"));
}

Test(plan, a_time_is_that_of_the_lock)
{
    cr_assert_eq(plan_run(slow, 1), 0);
    cr_assert_geq(figures[0]->values[BENCH_P50_US][0], 2000);
    cr_assert_leq(figures[0]->values[BENCH_RATE][0], 500);
}

Test(plan, processor_time_is_that_of_the_processes)
{
    cr_assert_eq(plan_run(fine, 1), 0);
    cr_assert_gt(figures[0]->values[BENCH_CORE][0], 0);
    cr_assert_leq(figures[0]->values[BENCH_CORE][0], 1.5, "one thread");
    cr_assert_eq(plan_run(slow, 1), 0);
    cr_assert_leq(figures[0]->values[BENCH_CORE][0], 0.9, "it sleeps");
}

Test(plan, allocations_are_counted)
{
    cr_assert_eq(plan_run(wasteful, 1), 0);
    if (figures[0]->values[BENCH_ALLOCATIONS][0] < 0)
        cr_skip("not in a build with a sanitizer");
    cr_assert_float_eq(figures[0]->values[BENCH_ALLOCATIONS][0], 2, 0.01);
    cr_assert_eq(plan_run(fine, 1), 0);
    cr_assert_float_eq(figures[0]->values[BENCH_ALLOCATIONS][0], 0, 0.01);
}

static struct bench_work by_operations = {.open = fine_open,
                                          .close = nothing,
                                          .begin = numbered_begin,
                                          .end = nothing,
                                          .start = operation_start};

static int many_run(int (*next)(void *, char *))
{
    static const struct bench_subject subject = {
        .label = "store", .work = &by_operations, .fits = BENCH_FITS_OWN};
    struct bench_options options = {.rounds = 2, .duration_ns = 20 * BENCH_NS_PER_MS};

    by_operations.next = next;
    plan = (struct bench_plan){
        .subjects = &subject, .subject_count = 1, .workloads = many, .workload_count = 2};
    cr_assert_eq(bench_plan_init(&plan, NULL), 0);
    cr_assert_eq(plan.case_count, 1, "where the workload is for it");
    return bench_plan_run(&plan, &options);
}

Test(plan, one_thread_serves_all_workers_by_operations)
{
    const struct bench_figures *found;

    cr_assert_eq(many_run(operation_next), 0);
    found = bench_plan_find(&plan, "store", "many");
    cr_assert_not_null(found);
    for (int i = 0; i < found->rounds; i++) {
        cr_assert_gt(found->values[BENCH_RATE][i], 0);
        cr_assert_gt(found->values[BENCH_SHARE][i], 0.9, "in turn");
        cr_assert_gt(found->values[BENCH_P50_US][i], 0);
    }
    bench_plan_fini(&plan);
}

Test(plan, an_operation_that_does_not_end_is_a_failure)
{
    cr_assert_eq(many_run(operation_none), 1);
    cr_assert_str_eq(plan.cases[0].figures.why, "it is broken");
}

Test(plan, a_failure_says_why_and_is_not_tried_again)
{
    cr_assert_eq(plan_run(broken, 3), 6, "each case");
    cr_assert_null(figures[0]);
    cr_assert_str_eq(plan.cases[0].figures.why, "it is broken");
}

Test(plan, a_case_that_failed_in_a_later_round_gives_no_figures)
{
    cr_assert_eq(plan_run(fine, 2), 0);
    cr_assert_not_null(figures[0]);
    (void)snprintf(plan.cases[0].figures.why, sizeof plan.cases[0].figures.why, "it broke");
    cr_assert_null(bench_plan_find(&plan, "store", "one"));
}

Test(plan, a_process_that_dies_is_a_failure)
{
    cr_assert_eq(plan_run(deadly, 1), 6);
    cr_assert_not_null(strstr(plan.cases[0].figures.why, "a process"), "%s",
                       plan.cases[0].figures.why);
}

/* Three rounds of two cases, and a sum of two to divide by. */
Test(plan, ratios_are_those_of_the_same_round)
{
    static struct bench_case some[2];
    struct bench_target target = {"",
                                  "",
                                  "",
                                  1,
                                  2,
                                  {"store", "one", BENCH_RATE},
                                  {"bare", "one", BENCH_RATE},
                                  {NULL, NULL, 0},
                                  {NULL, NULL, 0}};
    struct bench_spread spread;

    plan = (struct bench_plan){.cases = some, .case_count = 2};
    for (int i = 0; i < 2; i++)
        some[i] = (struct bench_case){
            .subject = &subjects[i], .workload = &workloads[0], .figures = {.rounds = 3}};
    memcpy(some[0].figures.values[BENCH_RATE], (double[]){10, 200, 60}, 3 * sizeof(double));
    memcpy(some[1].figures.values[BENCH_RATE], (double[]){5, 50, 60}, 3 * sizeof(double));
    cr_assert(bench_target_spread(&target, &plan, &spread));
    cr_assert(spread.min == 1 && spread.median == 2 && spread.max == 4);
    cr_assert(bench_target_met(&target, &spread));
    target.bound = 2.1;
    cr_assert_not(bench_target_met(&target, &spread));
    target.at_least = 0;
    cr_assert(bench_target_met(&target, &spread));
    target.plus = target.over;
    cr_assert(bench_target_spread(&target, &plan, &spread));
    cr_assert_eq(spread.median, 1);
    target.plus.subject = NULL;
    target.less = target.over;
    cr_assert_not(bench_target_spread(&target, &plan, &spread), "nothing is left to divide by");
    target.over = (struct bench_side){NULL, NULL, 0};
    cr_assert(bench_target_spread(&target, &plan, &spread));
    cr_assert(spread.min == 0 && spread.median == 5 && spread.max == 150);
    target.over = target.less;
    target.less.subject = NULL;
    some[1].figures.rounds = 0;
    cr_assert_not(bench_target_spread(&target, &plan, &spread), "there is nothing to divide by");
}

/* Two other libraries on the store, one on another store, and one under another workload. */
Test(plan, a_target_says_which_other_library_is_ahead)
{
    static const char *const uris[] = {"redis://a", "redis://a", "redis://a", "redis://b",
                                       "redis://a"};
    static const char *const labels[] = {"store", "slow", "fast", "elsewhere", "idle"};
    static struct bench_subject some[5];
    static struct bench_case cases[5];
    static const double rates[] = {100, 50, 80, 900, 700};
    struct bench_target target = {
        .at_least = 1, .of = {"store", "one", BENCH_RATE}, .over = {"slow", "one", BENCH_RATE}};
    struct bench_standing standing;

    plan = (struct bench_plan){.cases = cases, .case_count = 5};
    for (int i = 0; i < 5; i++) {
        some[i] = (struct bench_subject){.role = i == 0 ? BENCH_DLOCK : BENCH_RIVAL};
        (void)snprintf(some[i].label, sizeof some[i].label, "%s", labels[i]);
        (void)snprintf(some[i].uri, sizeof some[i].uri, "%s", uris[i]);
        cases[i] = (struct bench_case){
            .subject = &some[i], .workload = &workloads[i == 4 ? 1 : 0], .figures = {.rounds = 1}};
        cases[i].figures.values[BENCH_RATE][0] = cases[i].figures.values[BENCH_P50_US][0] =
            cases[i].figures.values[BENCH_SERVER_US][0] = rates[i];
    }
    cr_assert(bench_standing_of(&target, &plan, &standing));
    cr_assert_str_eq(standing.rival->label, "fast");
    cr_assert(standing.ahead && standing.ratio.median == 1.25);
    target.of.metric = BENCH_P50_US;
    cr_assert(bench_standing_of(&target, &plan, &standing));
    cr_assert_str_eq(standing.rival->label, "slow", "its time is the shorter one");
    cr_assert(!standing.ahead && standing.ratio.median == 0.5);
    target.of.metric = BENCH_SERVER_US;
    cr_assert_not(bench_standing_of(&target, &plan, &standing),
                  "rivals' programs count their start");
    target.of.metric = BENCH_RATE;
    cases[1].figures.rounds = cases[2].figures.rounds = 0;
    cr_assert_not(bench_standing_of(&target, &plan, &standing), "nothing was measured there");
}

Test(stopwatch, who_sleeps_exactly_does_so_alone)
{
    int64_t before_ns = bench_now_ns();
    int slack = prctl(PR_GET_TIMERSLACK);

    bench_sleep_exactly_ns(2 * BENCH_NS_PER_MS);
    cr_assert_geq(bench_now_ns() - before_ns, 2 * BENCH_NS_PER_MS);
    cr_assert_eq(prctl(PR_GET_TIMERSLACK), slack); /* of a store that sleeps in this thread */
}
