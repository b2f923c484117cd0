/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "stopwatch.h"

#include <stdio.h>
#include <string.h>

static void uri_of(char *uri, size_t size, const struct bench_case *which,
                   const struct bench_options *options, int number)
{
    switch (which->store) {
    case BENCH_MEMORY:
        (void)snprintf(uri, size, "memory://bench-%d", number);
        break;
    case BENCH_SQLITE:
        (void)snprintf(uri, size, "sqlite://%s/%d.db", options->directory, number);
        break;
    case BENCH_FILE:
        (void)snprintf(uri, size, "%s/%d-raw.db", options->directory, number);
        break;
    default:
        uri[0] = '\0';
    }
}

static double us(uint64_t ns)
{
    return (double)ns / (double)BENCH_NS_PER_US;
}

static void figures_add(struct bench_figures *figures, const struct bench_result *result)
{
    int round = figures->rounds++;

    figures->values[BENCH_RATE][round] = result->rate;
    figures->values[BENCH_SHARE][round] = result->share;
    figures->values[BENCH_P50_US][round] = us(bench_histogram_quantile(&result->times, 0.5));
    figures->values[BENCH_P99_US][round] = us(bench_histogram_quantile(&result->times, 0.99));
    figures->values[BENCH_WORST_MS][round] = us(result->times.max) / 1000;
    figures->values[BENCH_ALLOCATIONS][round] = result->allocations;
}

static int case_run(const struct bench_case *which, const struct bench_options *options, int number,
                    struct bench_figures *figures, char *why)
{
    static struct bench_result result; /* large */
    char uri[512];

    uri_of(uri, sizeof uri, which, options, number);
    if (bench_crew_run(which->work, uri, &which->load, options->duration_ns, &result) == 0) {
        figures_add(figures, &result);
        return 0;
    }
    (void)snprintf(why, BENCH_WHY_SIZE, "%s: %.150s", which->name, result.why);
    return -1;
}

int bench_plan_run(const struct bench_case *cases, int count, const struct bench_options *options,
                   struct bench_figures *figures, char *why)
{
    struct bench_busy busy;
    int rc = bench_busy_start(&busy, options->busy);

    if (rc != 0)
        (void)snprintf(why, BENCH_WHY_SIZE, "cannot start %d processes", options->busy);
    memset(figures, 0, (size_t)count * sizeof *figures);
    for (int round = 0; round < options->rounds; round++) {
        for (int i = 0; rc == 0 && i < count; i++) {
            if (options->only != NULL && strstr(cases[i].name, options->only) == NULL)
                continue;
            if (options->progress != NULL)
                options->progress(&cases[i], round);
            rc = case_run(&cases[i], options, round * count + i, &figures[i], why);
        }
    }
    bench_busy_stop(&busy);
    return rc;
}

int bench_target_spread(const struct bench_target *target, const struct bench_figures *figures,
                        struct bench_spread *spread)
{
    const struct bench_figures *of = &figures[target->of];
    const struct bench_figures *over = target->over < 0 ? NULL : &figures[target->over];
    double values[BENCH_ROUNDS_MAX];

    if (of->rounds == 0 || (over != NULL && over->rounds == 0))
        return 0;
    for (int i = 0; i < of->rounds; i++) {
        values[i] = of->values[target->metric][i];
        if (values[i] < 0)
            return 0;
        if (over != NULL)
            values[i] /= over->values[target->metric][i];
    }
    *spread = bench_spread_of(values, of->rounds);
    return 1;
}

int bench_target_met(const struct bench_target *target, const struct bench_spread *spread)
{
    return target->at_least ? spread->median >= target->bound : spread->median <= target->bound;
}
