/* SPDX-License-Identifier: MIT */
#include "runner.h"
#include "expected.h"
#include "pool.h"
#include "report.h"
#include "tempdir.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBE_LIMIT_MS 30000
#define CASE_LIMIT_S   20
#define LIMIT_MOST_MS  300000

/* One URI of the command line. */
struct target {
    char *uri; /* with {tmp} replaced */
    char dir[256];
    char label[512]; /* without secrets */
    char complaint[512];
    int opens;
    uint32_t caps; /* in force */
    char grid_text[24];
    int has_expected;
    uint32_t expected;
    int is_private;
    char expected_text[160];
};

struct plan {
    const struct dlt_table *table;
    const struct dlt_options *options;
    char program[4096];
    char slack_text[24];
    struct target *targets;
    struct dlt_job *jobs;
    struct dlt_result *results;
    size_t job_count, result_count;
};

static int clause_listed(const char *clauses, const char *wanted)
{
    size_t len = strlen(wanted);

    for (const char *at = clauses; (at = strstr(at, wanted)) != NULL; at++) {
        if ((at == clauses || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return 1;
    }
    return 0;
}

int dlt_case_selected(const struct dlt_case *c, const char *only)
{
    return only == NULL || fnmatch(only, c->name, 0) == 0 || clause_listed(c->clauses, only);
}

static void line_read(FILE *from, char *line, size_t size)
{
    if (fgets(line, (int)size, from) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

static void nothing_done(void *arg)
{
    (void)arg;
}

static void target_probe(const struct plan *plan, struct target *target)
{
    struct dlt_job job = {.args = {plan->options->program, "--probe", NULL},
                          .uri = target->uri,
                          .limit_ms = PROBE_LIMIT_MS,
                          .output = -1};
    FILE *output = NULL;
    char caps[64], *step = NULL;

    dlt_pool_run(plan->program, &job, 1, 1, nothing_done, NULL);
    output = fdopen(job.output, "r");
    DLT_CHECK(output != NULL, "no stream");
    if (job.exit_status == 0) {
        line_read(output, caps, sizeof caps);
        line_read(output, target->label, sizeof target->label);
        target->caps = (uint32_t)strtoul(caps, &step, 16);
        (void)snprintf(target->grid_text, sizeof target->grid_text, "%lld",
                       plan->options->grid_ms >= 0 ? (long long)plan->options->grid_ms
                                                   : strtoll(step, NULL, 10));
        target->opens = 1;
    } else {
        line_read(output, target->complaint, sizeof target->complaint);
    }
    (void)fclose(output);
}

static void target_init(const struct plan *plan, struct target *target, const char *uri)
{
    const struct dlt_options *options = plan->options;

    target->uri = dlt_tempdir_expand(uri, target->dir, sizeof target->dir);
    DLT_CHECK(target->uri != NULL, "no temporary directory");
    /* Until the library has taken the secrets out of it, show no more than the scheme. */
    (void)snprintf(target->label, sizeof target->label, "%.*s", (int)strcspn(uri, ":") + 1, uri);
    (void)snprintf(target->complaint, sizeof target->complaint, "the process that opens it died");
    target_probe(plan, target);
    target->has_expected = options->has_expect;
    target->expected = options->expect;
    if (!options->has_expect)
        target->has_expected = dlt_expected_caps(target->label, &target->expected);
    (void)dlt_caps_format(target->expected, target->expected_text, sizeof target->expected_text);
    target->is_private = options->is_private || dlt_expected_private(target->label);
}

/* "": the case runs. */
static void skip_reason(const struct dlt_program *program, const struct target *target,
                        const struct dlt_case *c, char *reason, size_t size)
{
    const char *lacks = program != NULL ? program->lacks(c) : NULL;
    uint32_t missing = c->caps & ~target->caps;
    char caps[160];

    if (missing != 0)
        (void)snprintf(reason, size, "no %s", dlt_caps_format(missing, caps, sizeof caps));
    else if ((c->flags & DLT_PROCESSES) && target->is_private)
        (void)snprintf(reason, size, "the store lives in one process");
    else if (lacks != NULL)
        (void)snprintf(reason, size, "no %s", lacks);
}

/* A machine that is slower by a factor is slower in all. */
static int64_t limit_of(const struct dlt_case *c, int64_t slack_ms)
{
    int64_t limit_ms = (c->limit_s != 0 ? c->limit_s : CASE_LIMIT_S) * INT64_C(1000);
    int64_t slow_ms = slack_ms > 100 ? limit_ms * slack_ms / 100 : limit_ms;
    int64_t most_ms = limit_ms > LIMIT_MOST_MS ? limit_ms : LIMIT_MOST_MS;

    return slow_ms < most_ms ? slow_ms : most_ms;
}

static void job_fill(const struct plan *plan, struct dlt_job *job, const struct target *target,
                     const struct dlt_case *c)
{
    size_t n = 0;

    *job = (struct dlt_job){.uri = target->uri, .output = -1};
    job->args[n++] = plan->options->program;
    job->args[n++] = "--case";
    job->args[n++] = c->name;
    job->args[n++] = "--slack";
    job->args[n++] = plan->slack_text;
    job->args[n++] = "--grid";
    job->args[n++] = target->grid_text;
    if (target->is_private)
        job->args[n++] = "--private";
    if (target->has_expected) {
        job->args[n++] = "--expect";
        job->args[n++] = target->expected_text;
    }
    job->limit_ms = limit_of(c, plan->options->slack_ms);
    job->alone = (c->flags & DLT_SERIAL) != 0;
}

static void result_add(struct plan *plan, const struct target *target, const struct dlt_case *c)
{
    struct dlt_result *result = &plan->results[plan->result_count++];

    *result = (struct dlt_result){.label = target->label, .c = c};
    skip_reason(plan->table->program, target, c, result->text, sizeof result->text);
    if (result->text[0] == '\0') {
        result->job = &plan->jobs[plan->job_count++];
        job_fill(plan, result->job, target, c);
    }
}

static void complaint_add(struct plan *plan, const struct target *target)
{
    struct dlt_result *result = &plan->results[plan->result_count++];

    *result = (struct dlt_result){.label = target->label};
    (void)snprintf(result->text, sizeof result->text, "%s", target->complaint);
}

/* First what can run side by side, then what has to run alone; one result for a store that does
 * not open. */
static void plan_fill(struct plan *plan)
{
    for (unsigned alone = 0; alone <= DLT_SERIAL; alone += DLT_SERIAL) {
        for (size_t t = 0; t < plan->options->uri_count; t++) {
            const struct target *target = &plan->targets[t];

            if (!target->opens && alone == 0)
                complaint_add(plan, target);
            for (size_t i = 0; target->opens && i < plan->table->count; i++) {
                const struct dlt_case *c = &plan->table->cases[i];

                if ((c->flags & DLT_SERIAL) == alone && dlt_case_selected(c, plan->options->only))
                    result_add(plan, target, c);
            }
        }
    }
}

static void report_update(void *arg)
{
    dlt_report_go_on(arg);
}

static int plan_run(struct plan *plan)
{
    const char *format = plan->options->format;
    struct dlt_report report = {.program = plan->table->program,
                                .results = plan->results,
                                .count = plan->result_count,
                                .with_table = plan->options->uri_count > 1,
                                .with_output = plan->options->trace};

    if (strcmp(format, "tap") != 0)
        report.format = strcmp(format, "json") == 0 ? DLT_JSON : DLT_TABLE;
    dlt_report_begin(&report);
    dlt_report_go_on(&report);
    dlt_pool_run(plan->program, plan->jobs, plan->job_count, plan->options->jobs, report_update,
                 &report);
    return dlt_report_end(&report);
}

int dlt_runner_run(const struct dlt_table *table, const struct dlt_options *options)
{
    struct plan plan = {.table = table, .options = options};
    size_t room = options->uri_count * (table->count + 1);
    int exit_status = DLT_EXIT_FAILED;

    DLT_CHECK(readlink("/proc/self/exe", plan.program, sizeof plan.program - 1) > 0,
              "no /proc/self/exe");
    (void)snprintf(plan.slack_text, sizeof plan.slack_text, "%" PRId64, options->slack_ms);
    plan.targets = calloc(options->uri_count, sizeof *plan.targets);
    plan.jobs = calloc(room, sizeof *plan.jobs);
    plan.results = calloc(room, sizeof *plan.results);
    DLT_CHECK(plan.targets != NULL && plan.jobs != NULL && plan.results != NULL, "no memory");
    dlt_pool_catch_signals();
    for (size_t i = 0; i < options->uri_count; i++)
        target_init(&plan, &plan.targets[i], options->uris[i]);
    plan_fill(&plan);
    if (plan.result_count > 0) {
        exit_status = plan_run(&plan);
    } else {
        (void)fprintf(stderr, "%s: no case matches \"%s\"\n", options->program, options->only);
        exit_status = DLT_EXIT_USAGE;
    }
    for (size_t i = 0; i < options->uri_count; i++) {
        dlt_tempdir_remove(plan.targets[i].dir);
        free(plan.targets[i].uri);
    }
    free(plan.targets);
    free(plan.jobs);
    free(plan.results);
    return dlt_pool_signal() != 0 ? 128 + dlt_pool_signal() : exit_status;
}
