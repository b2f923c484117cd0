/* SPDX-License-Identifier: MIT */
#include "report.h"

#include "standing.h"
#include "stopwatch.h"

#include <dlock/dlock.h>
#include <jansson.h>

static json_t *json_spread(const struct bench_spread *spread)
{
    return json_pack("{s:f, s:f, s:f}", "median", spread->median, "min", spread->min, "max",
                     spread->max);
}

static json_t *json_target(const struct bench_report *report, const struct bench_target *target)
{
    struct bench_spread spread;
    struct bench_standing standing;
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:f}", "id", target->id, "text", target->text,
                               "unit", target->unit, "bound", target->at_least ? "least" : "most",
                               "target", target->bound);

    if (bench_target_spread(target, report->plan, &spread)) {
        (void)json_object_set_new(object, "measured", json_spread(&spread));
        (void)json_object_set_new(object, "met", json_boolean(bench_target_met(target, &spread)));
    } else {
        (void)json_object_set_new(object, "measured", json_null());
        (void)json_object_set_new(object, "met", json_null());
    }
    (void)json_object_set_new(object, "rival",
                              bench_standing_of(target, report->plan, &standing)
                                  ? json_pack("{s:s, s:o, s:b}", "subject", standing.rival->label,
                                              "ratio", json_spread(&standing.ratio), "ahead",
                                              standing.ahead)
                                  : json_null());
    return object;
}

/* Pairs of a quantile and microseconds, denser towards the largest. */
static json_t *json_percentiles(const struct bench_histogram *times)
{
    json_t *list = json_array();

    for (double rest = 1; rest * (double)times->count >= 1 && rest >= 0.0001; rest *= 0.8) {
        uint64_t ns = bench_histogram_quantile(times, 1 - rest);

        (void)json_array_append_new(
            list, json_pack("[f, f]", 1 - rest, (double)ns / (double)BENCH_NS_PER_US));
    }
    return list;
}

static json_t *json_load(const struct bench_load *load)
{
    static const char *const loops[] = {
        [BENCH_PAIRS] = "pairs",   [BENCH_HANDOFF] = "hand-off", [BENCH_WAITING] = "waiting",
        [BENCH_LEASES] = "leases", [BENCH_OPENING] = "opening",  [BENCH_RUNNING] = "running",
        [BENCH_KILLED] = "killed", [BENCH_CLOSING] = "closing",
    };

    return json_pack("{s:s, s:i, s:i, s:b, s:I, s:I, s:i, s:i}", "loop", loops[load->loop],
                     "processes", load->processes, "threads", load->threads, "one_name",
                     load->one_name, "held_us", (json_int_t)(load->held_ns / BENCH_NS_PER_US),
                     "pause_us", (json_int_t)(load->pause_ns / BENCH_NS_PER_US), "readers",
                     load->readers, "leases", load->leases);
}

static json_t *json_case(const struct bench_report *report, const struct bench_case *which)
{
    static const char *const roles[] = {
        [BENCH_DLOCK] = "dlock", [BENCH_LIMIT] = "limit", [BENCH_RIVAL] = "rival"};
    const struct bench_figures *figures = &which->figures;
    const struct bench_case *limit = bench_plan_limit_of(report->plan, which);
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:i, s:o}", "workload", which->workload->name,
                               "subject", which->subject->label, "store",
                               report->plan->subjects[which->subject->group].label, "role",
                               roles[which->subject->role], "rounds", figures->rounds, "load",
                               json_load(&which->workload->load));

    if (figures->why[0] != '\0')
        (void)json_object_set_new(object, figures->absent ? "absent" : "failed",
                                  json_string(figures->why));
    for (int metric = 0; metric < BENCH_METRICS; metric++) {
        struct bench_spread spread;
        int known = bench_figures_spread(figures, (enum bench_metric)metric, &spread);

        (void)json_object_set_new(object, bench_metric_names[metric],
                                  known ? json_spread(&spread) : json_null());
    }
    if (limit != NULL && limit != which) {
        struct bench_spread spread;

        (void)json_object_set_new(object, "limit", json_string(limit->subject->label));
        if (bench_figures_ratio(figures, &limit->figures, BENCH_RATE, &spread))
            (void)json_object_set_new(object, "rate_over_limit", json_spread(&spread));
        if (bench_figures_ratio(figures, &limit->figures, BENCH_P50_US, &spread))
            (void)json_object_set_new(object, "p50_over_limit", json_spread(&spread));
    }
    (void)json_object_set_new(object, "percentiles", json_percentiles(&figures->times));
    return object;
}

int bench_report_json(const struct bench_report *report, FILE *out)
{
    json_t *targets = json_array(), *cases = json_array(), *all = NULL;
    int rc = -1;

    for (int i = 0; report->with_targets && i < bench_target_count; i++)
        (void)json_array_append_new(targets, json_target(report, &bench_targets[i]));
    for (int i = 0; i < report->plan->case_count; i++)
        (void)json_array_append_new(cases, json_case(report, &report->plan->cases[i]));
    all =
        json_pack("{s:s, s:i, s:s, s:f, s:i, s:I, s:i, s:o, s:o}", "version", dlock_version(),
                  "cores", bench_machine_cores(), "kernel", bench_machine_kernel(), "load_average",
                  report->options->load_average, "rounds", report->options->rounds, "duration_ms",
                  (json_int_t)(report->options->duration_ns / BENCH_NS_PER_MS), "busy",
                  report->options->busy, "targets", targets, "cases", cases);
    if (all != NULL)
        rc = json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(7)) == 0 &&
                     fputc('\n', out) != EOF
                 ? 0
                 : -1;
    json_decref(all);
    return rc;
}

/* Writes the text in quotes, without the quotes that it contains. */
static void csv_text(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++)
        if (*text != '"')
            (void)fputc(*text, out);
    (void)fputs("\",", out);
}

int bench_report_csv(const struct bench_report *report, FILE *out)
{
    (void)fputs("workload,subject,round", out);
    for (int metric = 0; metric < BENCH_METRICS; metric++)
        (void)fprintf(out, ",%s", bench_metric_names[metric]);
    (void)fputc('\n', out);
    for (int i = 0; i < report->plan->case_count; i++) {
        const struct bench_case *which = &report->plan->cases[i];

        for (int round = 0; round < which->figures.rounds; round++) {
            csv_text(which->workload->name, out);
            csv_text(which->subject->label, out);
            (void)fprintf(out, "%d", round + 1);
            for (int metric = 0; metric < BENCH_METRICS; metric++) {
                double value = which->figures.values[metric][round];

                (void)(value < 0 ? fputs(",", out) : fprintf(out, ",%.6g", value));
            }
            (void)fputc('\n', out);
        }
    }
    return ferror(out) ? -1 : 0;
}
