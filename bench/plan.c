/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "rival.h"
#include "stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_NS (300 * BENCH_NS_PER_MS) /* beside the measured time; a first estimate */

const char *const bench_metric_names[BENCH_METRICS] = {
    [BENCH_RATE] = "pairs_per_s",
    [BENCH_SHARE] = "least_over_most",
    [BENCH_JAIN] = "jain",
    [BENCH_P50_US] = "p50_us",
    [BENCH_P90_US] = "p90_us",
    [BENCH_P99_US] = "p99_us",
    [BENCH_P999_US] = "p99_9_us",
    [BENCH_WORST_MS] = "worst_ms",
    [BENCH_COMMANDS] = "commands",
    [BENCH_SCRIPTS] = "script_calls",
    [BENCH_SCRIPT_US] = "script_us",
    [BENCH_UNREFRESHED] = "script_calls_but_refreshes",
    [BENCH_SERVER_US] = "server_cpu_us",
    [BENCH_OWN_US] = "own_cpu_us",
    [BENCH_CORE] = "share_of_a_core",
    [BENCH_ALLOCATIONS] = "allocations",
    [BENCH_SOCKETS] = "sockets",
    [BENCH_MEMORY_MB] = "memory_mb",
    [BENCH_LEASE_BYTES] = "bytes_a_lease",
    [BENCH_LOST] = "leases_lost",
};

static unsigned needed(const struct bench_load *load)
{
    int workers = load->processes * load->threads;

    if (load->loop == BENCH_OPENING)
        return BENCH_FITS_OPEN;
    if (load->loop == BENCH_RUNNING)
        return BENCH_FITS_RUN;
    if ((load->loop != BENCH_PAIRS && load->loop != BENCH_HANDOFF) || load->readers > 0)
        return 0;
    if (workers == 1)
        return BENCH_FITS_ALONE;
    if (!load->one_name)
        return BENCH_FITS_OWN;
    return load->processes == 1 ? BENCH_FITS_THREADS | BENCH_FITS_ONE : BENCH_FITS_ONE;
}

static int is_async(const struct bench_subject *subject)
{
    return subject->work != NULL && subject->work->start != NULL;
}

static int fits(const struct bench_plan *plan, const struct bench_subject *subject,
                const struct bench_workload *workload)
{
    const struct bench_load *load = &workload->load;
    int first = subject == &plan->subjects[subject->group];

    if ((subject->kind == BENCH_MYSQL_SESSION || subject->kind == BENCH_POSTGRESQL_SESSION) &&
        (load->loop == BENCH_LEASES || load->loop == BENCH_CLOSING))
        return 0; /* each of them would be a connection */
    if (workload->kinds != 0 && !(workload->kinds & 1u << subject->kind))
        return 0;
    if (is_async(subject))
        return workload->async && load->loop == BENCH_PAIRS && load->held_ns == 0 &&
               load->pause_ns == 0 && (subject->fits & needed(load)) != 0;
    if (subject->role == BENCH_DLOCK)
        return (first || workload->variants) &&
               (subject->kind != BENCH_MEMORY ||
                (load->processes == 1 && load->loop != BENCH_RUNNING));
    return (subject->role == BENCH_LIMIT || workload->rivals) &&
           (subject->fits & needed(load)) != 0;
}

static int chosen(const struct bench_plan *plan, const struct bench_subject *subject,
                  const struct bench_workload *workload, const char *only)
{
    char name[2 * BENCH_LABEL_SIZE + 4];

    (void)snprintf(name, sizeof name, "%s: %s", workload->name, subject->label);
    return fits(plan, subject, workload) && (only == NULL || strstr(name, only) != NULL);
}

int bench_plan_init(struct bench_plan *plan, const char *only)
{
    size_t most = (size_t)plan->subject_count * (size_t)plan->workload_count;

    plan->case_count = 0;
    plan->cases = calloc(most + 1, sizeof *plan->cases);
    if (plan->cases == NULL)
        return -1;
    for (int w = 0; w < plan->workload_count; w++) {
        for (int s = 0; s < plan->subject_count; s++) {
            if (chosen(plan, &plan->subjects[s], &plan->workloads[w], only))
                plan->cases[plan->case_count++] = (struct bench_case){
                    .subject = &plan->subjects[s], .workload = &plan->workloads[w]};
        }
    }
    return 0;
}

void bench_plan_fini(struct bench_plan *plan)
{
    free(plan->cases);
    plan->cases = NULL;
}

static double us(uint64_t ns)
{
    return (double)ns / (double)BENCH_NS_PER_US;
}

static double each(double total, const struct bench_result *result)
{
    return total < 0 || result->operations <= 0 ? -1 : total / result->operations;
}

static void figures_add(struct bench_figures *figures, const struct bench_result *result,
                        const struct bench_load *load)
{
    int round = figures->rounds++;
    const struct bench_histogram *times = &result->times;
    const struct bench_tally *tally = &result->tally;
    double refreshes = load->processes * result->seconds;
    double scripts = (double)tally->scripts;
    double own_us = result->own.cpu_ns < 0 ? -1 : (double)result->own.cpu_ns / 1000;
    const double values[BENCH_METRICS] = {
        [BENCH_RATE] = result->rate,
        [BENCH_SHARE] = result->share,
        [BENCH_JAIN] = result->jain,
        [BENCH_P50_US] = times->count == 0 ? -1 : us(bench_histogram_quantile(times, 0.5)),
        [BENCH_P90_US] = times->count == 0 ? -1 : us(bench_histogram_quantile(times, 0.9)),
        [BENCH_P99_US] = times->count == 0 ? -1 : us(bench_histogram_quantile(times, 0.99)),
        [BENCH_P999_US] = times->count == 0 ? -1 : us(bench_histogram_quantile(times, 0.999)),
        [BENCH_WORST_MS] = times->count == 0 ? -1 : us(times->max) / 1000,
        [BENCH_COMMANDS] = each((double)tally->commands, result),
        [BENCH_SCRIPTS] = each(scripts, result),
        [BENCH_SCRIPT_US] =
            each(tally->scripts_ns < 0 ? -1 : (double)tally->scripts_ns / 1000, result),
        [BENCH_UNREFRESHED] =
            scripts < 0 ? -1 : each(scripts > refreshes ? scripts - refreshes : 0, result),
        [BENCH_SERVER_US] = each(tally->cpu_ns < 0 ? -1 : (double)tally->cpu_ns / 1000, result),
        [BENCH_OWN_US] = each(own_us, result),
        [BENCH_CORE] = own_us / 1000000 / result->seconds,
        [BENCH_ALLOCATIONS] = result->allocations,
        [BENCH_SOCKETS] = result->own.sockets,
        [BENCH_MEMORY_MB] = (double)result->own.memory_kb / 1024,
        [BENCH_LEASE_BYTES] = result->lease_bytes,
        [BENCH_LOST] = result->lost,
    };

    for (int metric = 0; metric < BENCH_METRICS; metric++)
        figures->values[metric][round] = values[metric];
    bench_histogram_merge(&figures->times, times);
}

static int64_t nominal_ns(const struct bench_case *which, const struct bench_options *options)
{
    int64_t own_ns = which->workload->load.duration_ns;

    return own_ns != 0 ? own_ns : options->duration_ns;
}

static void case_run(struct bench_case *which, const struct bench_options *options, int number)
{
    static struct bench_result result; /* large */
    const struct bench_subject *subject = which->subject;
    const struct bench_load *load = &which->workload->load;
    struct bench_config config = {subject->uri, load->one_name, number};
    struct bench_figures *figures = &which->figures;

    if (subject->rival != NULL) {
        bench_rival_run(subject, options->rivals, load, nominal_ns(which, options), figures);
        return;
    }
    if (bench_workers_run(subject->work, &config, load, options->duration_ns, subject->meter,
                          &result) == 0)
        figures_add(figures, &result, load);
    else
        (void)snprintf(figures->why, sizeof figures->why, "%s", result.why);
}

static int due(const struct bench_case *which, int round)
{
    return which->figures.why[0] == '\0' && (round == 0 || !which->workload->once);
}

/* The rest takes longer than nominal by the same factor as the runs so far. */
struct outlook {
    int done, all;
    int64_t began_ns, done_ns, all_ns; /* nominal, the latter two */
};

static void tell(const struct outlook *outlook, const struct bench_case *which,
                 const struct bench_options *options)
{
    int64_t spent_ns = bench_now_ns() - outlook->began_ns;
    double slower = outlook->done == 0
                        ? 1
                        : (double)(spent_ns - outlook->done_ns) / outlook->done / (double)RUN_NS;
    int64_t left_ns = outlook->all_ns - outlook->done_ns +
                      (int64_t)(slower * (double)RUN_NS * (outlook->all - outlook->done));

    if (options->progress != NULL)
        options->progress(which, outlook->done, outlook->all, left_ns);
}

static struct outlook outlook_of(const struct bench_plan *plan, const struct bench_options *options)
{
    struct outlook outlook = {.began_ns = bench_now_ns()};

    for (int round = 0; round < options->rounds; round++) {
        for (int i = 0; i < plan->case_count; i++) {
            if (!due(&plan->cases[i], round))
                continue;
            outlook.all++;
            outlook.all_ns += nominal_ns(&plan->cases[i], options);
        }
    }
    return outlook;
}

/* Runs the cases of one workload; each round begins with another case. */
static void group_run(struct bench_case *cases, int count, int round,
                      const struct bench_options *options, struct outlook *outlook)
{
    static int number;

    for (int i = 0; i < count; i++) {
        struct bench_case *which = &cases[(i + round) % count];

        if (!due(which, round))
            continue;
        tell(outlook, which, options);
        case_run(which, options, (int)getpid() % 1000000 * 1000 + number++ % 1000);
        outlook->done++;
        outlook->done_ns += nominal_ns(which, options);
    }
}

int bench_plan_run(struct bench_plan *plan, const struct bench_options *options)
{
    struct outlook outlook = outlook_of(plan, options);
    struct bench_busy busy;
    int failed = 0;

    (void)bench_busy_start(&busy, options->busy);
    for (int round = 0; round < options->rounds; round++) {
        for (int from = 0, to = 0; from < plan->case_count; from = to) {
            while (to < plan->case_count && plan->cases[to].workload == plan->cases[from].workload)
                to++;
            group_run(&plan->cases[from], to - from, round, options, &outlook);
        }
    }
    bench_busy_stop(&busy);
    for (int i = 0; i < plan->case_count; i++)
        failed += plan->cases[i].figures.why[0] != '\0' && !plan->cases[i].figures.absent;
    return failed;
}

const struct bench_figures *bench_plan_find(const struct bench_plan *plan, const char *subject,
                                            const char *workload)
{
    for (int i = 0; i < plan->case_count; i++) {
        const struct bench_case *which = &plan->cases[i];

        if (which->figures.rounds != 0 && which->figures.why[0] == '\0' &&
            strcmp(which->subject->label, subject) == 0 &&
            strcmp(which->workload->name, workload) == 0)
            return &which->figures;
    }
    return NULL;
}

const struct bench_case *bench_plan_limit_of(const struct bench_plan *plan,
                                             const struct bench_case *which)
{
    for (int i = 0; i < plan->case_count; i++) {
        const struct bench_case *limit = &plan->cases[i];

        if (limit->workload == which->workload && limit->subject->role == BENCH_LIMIT &&
            limit->subject->group == which->subject->group && limit->figures.rounds != 0)
            return limit;
    }
    return NULL;
}

int bench_figures_spread(const struct bench_figures *figures, enum bench_metric metric,
                         struct bench_spread *spread)
{
    for (int i = 0; i < figures->rounds; i++)
        if (figures->values[metric][i] < 0)
            return 0;
    if (figures->rounds == 0)
        return 0;
    *spread = bench_spread_of(figures->values[metric], figures->rounds);
    return 1;
}

int bench_figures_ratio(const struct bench_figures *figures, const struct bench_figures *over,
                        enum bench_metric metric, struct bench_spread *spread)
{
    int rounds = figures->rounds < over->rounds ? figures->rounds : over->rounds;
    double values[BENCH_ROUNDS_MAX];

    for (int i = 0; i < rounds; i++) {
        values[i] = figures->values[metric][i] / over->values[metric][i];
        if (figures->values[metric][i] < 0 || over->values[metric][i] <= 0)
            return 0;
    }
    if (rounds == 0)
        return 0;
    *spread = bench_spread_of(values, rounds);
    return 1;
}
