/* SPDX-License-Identifier: MIT */
#include "standing.h"

#include "subjects.h"

#include <string.h>

/* 1: more is better, -1: less is better, 0: a figure that says nothing of a rival: its program
 * counts its start, too. */
static int better(enum bench_metric metric)
{
    switch (metric) {
    case BENCH_RATE:
    case BENCH_SHARE:
        return 1;
    case BENCH_P50_US:
    case BENCH_P99_US:
        return -1;
    default:
        return 0;
    }
}

static const struct bench_case *case_of(const struct bench_side *side,
                                        const struct bench_plan *plan)
{
    for (int i = 0; i < plan->case_count; i++)
        if (side->workload != NULL && plan->cases[i].figures.rounds != 0 &&
            strcmp(plan->cases[i].subject->label, side->subject) == 0 &&
            strcmp(plan->cases[i].workload->name, side->workload) == 0)
            return &plan->cases[i];
    return NULL;
}

static const struct bench_case *best_rival(const struct bench_case *own, enum bench_metric metric,
                                           const struct bench_plan *plan)
{
    const struct bench_case *best = NULL;
    double best_median = 0;

    for (int i = 0; i < plan->case_count; i++) {
        const struct bench_case *rival = &plan->cases[i];
        struct bench_spread spread;

        if (rival->subject->role != BENCH_RIVAL || rival->workload != own->workload ||
            rival->figures.why[0] != '\0' ||
            !bench_subjects_same_store(own->subject, rival->subject) ||
            !bench_figures_spread(&rival->figures, metric, &spread))
            continue;
        if (best == NULL || spread.median * better(metric) > best_median * better(metric)) {
            best = rival;
            best_median = spread.median;
        }
    }
    return best;
}

int bench_standing_of(const struct bench_target *target, const struct bench_plan *plan,
                      struct bench_standing *standing)
{
    enum bench_metric metric = target->of.metric;
    const struct bench_case *own = case_of(&target->of, plan), *rival = NULL, *more = NULL;

    if (own == NULL || own->subject->role != BENCH_DLOCK || better(metric) == 0)
        return 0;
    rival = best_rival(own, metric, plan);
    if (rival == NULL)
        return 0;
    more = better(metric) > 0 ? own : rival;
    if (!bench_figures_ratio(&more->figures, more == own ? &rival->figures : &own->figures, metric,
                             &standing->ratio))
        return 0;
    standing->rival = rival->subject;
    standing->ahead = standing->ratio.median >= 1;
    return 1;
}
