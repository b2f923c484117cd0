/* SPDX-License-Identifier: MIT */
#include "report.h"

#include "stopwatch.h"

#include <dlock/dlock.h>
#include <jansson.h>
#include <sched.h>
#include <sys/utsname.h>

static const char *const metric_names[BENCH_METRICS] = {
    [BENCH_RATE] = "pairs_per_s",  [BENCH_SHARE] = "least_over_most",
    [BENCH_P50_US] = "p50_us",     [BENCH_P99_US] = "p99_us",
    [BENCH_WORST_MS] = "worst_ms", [BENCH_ALLOCATIONS] = "allocations",
};

static int cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

static const char *kernel(struct utsname *name)
{
    return uname(name) == 0 ? name->release : "unknown";
}

/* As many digits as say something. */
static const char *number(char *text, size_t size, double value)
{
    (void)snprintf(text, size, "%.*f", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
    return text;
}

static void print_target(const struct bench_report *report, const struct bench_target *target,
                         FILE *out)
{
    struct bench_spread spread;
    char bound[32], median[32], min[32], max[32], range[72] = "";
    int measured = bench_target_spread(target, report->figures, &spread);

    if (report->figures[target->of].rounds == 0)
        return;
    if (measured) {
        (void)number(median, sizeof median, spread.median);
        (void)snprintf(range, sizeof range, "%s..%s", number(min, sizeof min, spread.min),
                       number(max, sizeof max, spread.max));
    }
    (void)fprintf(out, "%-4s %-52s %2s %7s %-5s %9s  %-17s %s\n", target->id, target->text,
                  target->at_least ? ">=" : "<=", number(bound, sizeof bound, target->bound),
                  target->unit, measured ? median : "-", range,
                  !measured                           ? "not measured"
                  : bench_target_met(target, &spread) ? "met"
                                                      : "not met");
}

static void print_figures(const struct bench_report *report, int i, FILE *out)
{
    const struct bench_figures *figures = &report->figures[i];
    struct bench_spread rate;
    char text[32], range[72], min[32], max[32];

    if (figures->rounds == 0)
        return;
    rate = bench_spread_of(figures->values[BENCH_RATE], figures->rounds);
    (void)snprintf(range, sizeof range, "%s..%s", number(min, sizeof min, rate.min),
                   number(max, sizeof max, rate.max));
    (void)fprintf(out, "%-52s %10s %-19s", report->cases[i].name,
                  number(text, sizeof text, rate.median), range);
    for (int metric = BENCH_SHARE; metric < BENCH_ALLOCATIONS; metric++) {
        struct bench_spread spread = bench_spread_of(figures->values[metric], figures->rounds);

        (void)fprintf(out, " %8s", number(text, sizeof text, spread.median));
    }
    (void)fputc('\n', out);
}

void bench_report_print(const struct bench_report *report, FILE *out)
{
    struct utsname name;

    (void)fprintf(out, "%s %s: %d rounds of %lld ms a case, %d cores, Linux %s", report->program,
                  dlock_version(), report->options->rounds,
                  (long long)(report->options->duration_ns / BENCH_NS_PER_MS), cores(),
                  kernel(&name));
    if (report->options->busy > 0)
        (void)fprintf(out, ", beside %d busy loops", report->options->busy);
    (void)fprintf(out, "\nMedians, and the range of the rounds.\n\n%-57s %16s %9s  %-17s\n", "",
                  "target     ", "median", "range");
    for (int i = 0; i < report->target_count; i++)
        print_target(report, &report->targets[i], out);
    (void)fprintf(out, "\n%-52s %10s %-19s %8s %8s %8s %8s\n", "", "pairs/s", "range", "share",
                  "p50 us", "p99 us", "worst ms");
    for (int i = 0; i < report->case_count; i++)
        print_figures(report, i, out);
}

static json_t *json_spread(const struct bench_spread *spread)
{
    return json_pack("{s:f, s:f, s:f}", "median", spread->median, "min", spread->min, "max",
                     spread->max);
}

static json_t *json_target(const struct bench_report *report, const struct bench_target *target)
{
    struct bench_spread spread;
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:f}", "id", target->id, "text", target->text,
                               "unit", target->unit, "bound", target->at_least ? "least" : "most",
                               "target", target->bound);

    if (bench_target_spread(target, report->figures, &spread)) {
        (void)json_object_set_new(object, "measured", json_spread(&spread));
        (void)json_object_set_new(object, "met", json_boolean(bench_target_met(target, &spread)));
    } else {
        (void)json_object_set_new(object, "measured", json_null());
        (void)json_object_set_new(object, "met", json_null());
    }
    return object;
}

static json_t *json_case(const struct bench_report *report, int i)
{
    const struct bench_figures *figures = &report->figures[i];
    json_t *object = json_pack("{s:s}", "name", report->cases[i].name);

    for (int metric = 0; metric < BENCH_METRICS; metric++) {
        struct bench_spread spread = bench_spread_of(figures->values[metric], figures->rounds);

        (void)json_object_set_new(object, metric_names[metric],
                                  spread.min < 0 ? json_null() : json_spread(&spread));
    }
    return object;
}

int bench_report_json(const struct bench_report *report, FILE *out)
{
    struct utsname name;
    json_t *targets = json_array(), *cases = json_array(), *all = NULL;
    int rc = -1;

    for (int i = 0; i < report->target_count; i++)
        (void)json_array_append_new(targets, json_target(report, &report->targets[i]));
    for (int i = 0; i < report->case_count; i++)
        if (report->figures[i].rounds != 0)
            (void)json_array_append_new(cases, json_case(report, i));
    all = json_pack("{s:s, s:s, s:i, s:s, s:i, s:I, s:i, s:o, s:o}", "program", report->program,
                    "version", dlock_version(), "cores", cores(), "kernel", kernel(&name), "rounds",
                    report->options->rounds, "duration_ms",
                    (json_int_t)(report->options->duration_ns / BENCH_NS_PER_MS), "busy",
                    report->options->busy, "targets", targets, "cases", cases);
    if (all != NULL)
        rc = json_dumpf(all, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF ? 0 : -1;
    json_decref(all);
    return rc;
}
