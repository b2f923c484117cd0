/* SPDX-License-Identifier: MIT */
#include "report.h"

#include "standing.h"
#include "stopwatch.h"

#include <dlock/dlock.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define TEXT_SIZE 32

int bench_machine_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

const char *bench_machine_kernel(void)
{
    static struct utsname name;

    return uname(&name) == 0 ? name.release : "unknown";
}

/* Writes as many digits as have a meaning. */
static const char *number(char *text, double value)
{
    (void)snprintf(text, TEXT_SIZE, "%.*f", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
    return text;
}

static const char *range(char *text, size_t size, const struct bench_spread *spread)
{
    char min[TEXT_SIZE], max[TEXT_SIZE];

    (void)snprintf(text, size, "%s..%s", number(min, spread->min), number(max, spread->max));
    return text;
}

static void print_target(const struct bench_report *report, const struct bench_target *target,
                         FILE *out)
{
    struct bench_spread spread;
    struct bench_standing standing;
    char bound[TEXT_SIZE], median[TEXT_SIZE] = "-", between[2 * TEXT_SIZE + 4] = "";
    int measured = bench_target_spread(target, report->plan, &spread);

    if (measured) {
        (void)number(median, spread.median);
        (void)range(between, sizeof between, &spread);
    }
    (void)fprintf(out, "%-4s %-57s %2s %7s %-3s %9s  %-16s %-12s", target->id, target->text,
                  target->at_least ? ">=" : "<=", number(bound, target->bound), target->unit,
                  median, between,
                  !measured                           ? "not measured"
                  : bench_target_met(target, &spread) ? "met"
                                                      : "NOT MET");
    if (bench_standing_of(target, report->plan, &standing))
        (void)fprintf(out, " %s: %s x %s", standing.ahead ? "ahead" : "BEHIND",
                      number(median, standing.ratio.median), standing.rival->label);
    (void)fputc('\n', out);
}

static void print_targets(const struct bench_report *report, FILE *out)
{
    (void)fprintf(out, "\n%-62s %14s %9s  %-16s %-12s %s\n", "", "target    ", "median", "range",
                  "", "against the best other library");
    for (int i = 0; i < bench_target_count; i++)
        print_target(report, &bench_targets[i], out);
}

/* Prints the median, or a dash, as " %8s". */
static void print_median(const struct bench_figures *figures, enum bench_metric metric, int width,
                         FILE *out)
{
    struct bench_spread spread;
    char text[TEXT_SIZE];

    if (bench_figures_spread(figures, metric, &spread))
        (void)fprintf(out, " %*s", width, number(text, spread.median));
    else
        (void)fprintf(out, " %*s", width, "-");
}

/* The ratio to the limit of the same store: of the rates, or of the times of a hand-off. */
static int ratio_of(const struct bench_report *report, const struct bench_case *which,
                    struct bench_spread *spread)
{
    const struct bench_case *limit = bench_plan_limit_of(report->plan, which);
    enum bench_loop loop = which->workload->load.loop;

    return limit != NULL && limit != which &&
           bench_figures_ratio(&which->figures, &limit->figures,
                               loop == BENCH_PAIRS ? BENCH_RATE : BENCH_P50_US, spread);
}

static void print_speed(const struct bench_report *report, const struct bench_case *which,
                        FILE *out)
{
    static const enum bench_metric times[] = {BENCH_P50_US, BENCH_P90_US, BENCH_P99_US,
                                              BENCH_P999_US};
    const struct bench_figures *figures = &which->figures;
    struct bench_spread spread;
    char text[2 * TEXT_SIZE + 4] = "-", ratio[TEXT_SIZE] = "";

    if (figures->why[0] != '\0') {
        (void)fprintf(out, "  %-28s %s: %.100s\n", which->subject->label,
                      figures->absent ? "absent" : "FAILED", figures->why);
        return;
    }
    if (bench_figures_spread(figures, BENCH_RATE, &spread))
        (void)range(text, sizeof text, &spread);
    (void)fprintf(out, "  %-28s", which->subject->label);
    print_median(figures, BENCH_RATE, 8, out);
    if (ratio_of(report, which, &spread))
        (void)number(ratio, spread.median);
    (void)fprintf(out, " %-15s %5s", text, ratio);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        print_median(figures, times[i], 7, out);
    print_median(figures, BENCH_WORST_MS, 6, out);
    print_median(figures, BENCH_SHARE, 6, out);
    print_median(figures, BENCH_JAIN, 5, out);
    (void)fputc('\n', out);
}

static void print_cost(const struct bench_case *which, FILE *out)
{
    static const enum bench_metric costs[] = {BENCH_COMMANDS,    BENCH_SCRIPTS, BENCH_SCRIPT_US,
                                              BENCH_SERVER_US,   BENCH_OWN_US,  BENCH_CORE,
                                              BENCH_ALLOCATIONS, BENCH_SOCKETS, BENCH_MEMORY_MB};

    if (which->figures.rounds == 0)
        return;
    (void)fprintf(out, "  %-28s", which->subject->label);
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
        print_median(&which->figures, costs[i], 9, out);
    if (which->workload->load.loop == BENCH_LEASES) {
        print_median(&which->figures, BENCH_LEASE_BYTES, 6, out);
        print_median(&which->figures, BENCH_LOST, 4, out);
    }
    (void)fputc('\n', out);
}

/* Says what the times and the costs of an operation mean. */
static const char *meaning(const struct bench_load *load)
{
    switch (load->loop) {
    case BENCH_HANDOFF:
        return "times are from unlock to lock; ratio: of p50";
    case BENCH_WAITING:
        return "costs are a waiter's and second's";
    case BENCH_LEASES:
        return "times are of a lock; costs are a lease's and second's";
    case BENCH_OPENING:
        return "times are from open to close; ratio: of p50";
    case BENCH_RUNNING:
        return "times are of a whole process; ratio: of p50";
    case BENCH_KILLED:
        return "times are from the end of the holder";
    case BENCH_CLOSING:
        return "times are of a close";
    default:
        return "times and costs are of a pair";
    }
}

static void print_workload(const struct bench_report *report, const struct bench_case *cases,
                           int count, FILE *out)
{
    int leases = cases[0].workload->load.loop == BENCH_LEASES;

    (void)fprintf(out, "\n%s (%s)\n", cases[0].workload->name, meaning(&cases[0].workload->load));
    (void)fprintf(out, "  %-28s %8s %-15s %5s %7s %7s %7s %7s %6s %6s %5s\n", "", "pairs/s",
                  "range", "ratio", "p50 us", "p90", "p99", "p99.9", "max ms", "fair", "Jain");
    for (int i = 0; i < count; i++)
        print_speed(report, &cases[i], out);
    (void)fprintf(out, "  %-28s %9s %9s %9s %9s %9s %9s %9s %9s %9s%s\n", "", "commands", "scripts",
                  "script us", "server us", "own us", "cores", "allocs", "sockets", "MB",
                  leases ? "  bytes lost" : "");
    for (int i = 0; i < count; i++)
        print_cost(&cases[i], out);
}

void bench_report_print(const struct bench_report *report, FILE *out)
{
    const struct bench_plan *plan = report->plan;

    (void)fprintf(out, "dlock-bench %s: %d rounds of %lld ms a case, %d cores, Linux %s",
                  dlock_version(), report->options->rounds,
                  (long long)(report->options->duration_ns / BENCH_NS_PER_MS),
                  bench_machine_cores(), bench_machine_kernel());
    if (report->options->busy > 0)
        (void)fprintf(out, ", beside %d busy loops", report->options->busy);
    (void)fprintf(out, ", load average %.1f\nMedians of the rounds, and their range.\n",
                  report->options->load_average);
    if (report->with_targets)
        print_targets(report, out);
    for (int from = 0, to = 0; from < plan->case_count; from = to) {
        while (to < plan->case_count && plan->cases[to].workload == plan->cases[from].workload)
            to++;
        print_workload(report, &plan->cases[from], to - from, out);
    }
}
