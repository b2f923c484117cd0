/* SPDX-License-Identifier: MIT */
#include "runner.h"
#include "expected.h"
#include "pool.h"
#include "report.h"
#include "tempdir.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBE_LIMIT_MS 60000
#define GUARD_LIMIT_MS 300000 /* a store that grants nothing yet is waited for so long */
#define ROOM_MOST      200    /* clients at once: all cases have enough, side by side */
#define ROOM_OF_CASE   12     /* clients of a case without DLT_CLIENTS, at most */
#define CASE_LIMIT_S   20
#define LIMIT_MOST_MS  300000

/* One URI of the command line. */
struct target {
    char *uri; /* with {tmp} replaced */
    char dir[256];
    char label[512]; /* without secrets */
    char complaint[512];
    int opens;
    uint64_t caps;                    /* in force */
    char grid_text[24], ttl_most[24]; /* ttl_most "": as the client says */
    char busy[256];                   /* why it grants nothing yet; "": it grants */
    int has_one_ttl;
    unsigned room; /* clients that can be open at once, up to ROOM_MOST */
    int has_expected;
    uint64_t expected;
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

/* Runs this program as a probe. To be closed. */
static FILE *probe_run(const struct plan *plan, struct dlt_job *job)
{
    FILE *output = NULL;

    job->limit_ms = PROBE_LIMIT_MS;
    dlt_pool_run(plan->program, job, 1, 1, nothing_done, NULL);
    output = fdopen(job->output, "r");
    DLT_CHECK(output != NULL, "no stream");
    return output;
}

static void target_probe(const struct plan *plan, struct target *target)
{
    struct dlt_job job = {.args = {plan->options->program, "--probe",
                                   plan->options->strict ? "--strict" : NULL, NULL},
                          .uri = target->uri,
                          .output = -1};
    FILE *output = probe_run(plan, &job);
    char numbers[128], *next = NULL;
    int64_t step_ms, most_ms;

    target->opens = job.exit_status == 0;
    if (target->opens) {
        line_read(output, numbers, sizeof numbers);
        line_read(output, target->label, sizeof target->label);
        line_read(output, target->busy, sizeof target->busy);
        target->caps = strtoull(numbers, &next, 16);
        step_ms = strtoll(next, &next, 10);
        most_ms = strtoll(next, &next, 10);
        target->has_one_ttl = (int)strtol(next, NULL, 10);
        if (plan->options->grid_ms >= 0)
            step_ms = plan->options->grid_ms;
        (void)snprintf(target->grid_text, sizeof target->grid_text, "%" PRId64, step_ms);
        if (most_ms > 0)
            (void)snprintf(target->ttl_most, sizeof target->ttl_most, "%" PRId64, most_ms);
    } else {
        line_read(output, target->complaint, sizeof target->complaint);
    }
    (void)fclose(output);
}

/* A line about what is done differently. */
__attribute__((format(printf, 2, 3))) static void note(const struct target *target,
                                                       const char *format, ...)
{
    va_list args;

    (void)fprintf(stderr, "# %s: ", target->label);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

static void guard_wait(const struct plan *plan, struct target *target)
{
    int64_t start_ns = dlt_now_ns();

    if (target->busy[0] != '\0')
        note(target, "waits, because no lock is granted yet: %s", target->busy);
    while (target->opens && target->busy[0] != '\0' && dlt_pool_signal() == 0 &&
           dlt_ms_since(start_ns) < GUARD_LIMIT_MS) {
        dlt_sleep_ms(500);
        target_probe(plan, target);
    }
}

/* Cases that wait for the end of leases would wait long. */
static void ttl_shorten(const struct plan *plan, struct target *target)
{
    char *uri = NULL;

    if (!target->has_one_ttl || strstr(target->uri, "ttl=") != NULL)
        return;
    note(target, "all locks of a client have one ttl: the cases run with ttl=%dms", DLT_ONE_TTL_MS);
    DLT_CHECK(asprintf(&uri, "%s%cttl=%dms", target->uri,
                       strchr(target->uri, '?') != NULL ? '&' : '?', DLT_ONE_TTL_MS) > 0,
              "no memory");
    free(target->uri);
    target->uri = uri;
    target_probe(plan, target);
}

/* What a client has of connections: one, where everything lives in its session with the store; else
 * one for calls and one to be woken. */
static unsigned connections_of(const struct target *target, const struct dlt_case *c)
{
    return DLT_CLIENTS_OF(c->flags) * ((target->caps & DLOCK_CAP_TETHERED) != 0 ? 1 : 2);
}

static unsigned crowds_count(const struct plan *plan, const struct target *target, unsigned above)
{
    unsigned count = 0;

    for (size_t i = 0; i < plan->table->count; i++) {
        const struct dlt_case *c = &plan->table->cases[i];

        count += dlt_case_selected(c, plan->options->only) && (c->caps & ~target->caps) == 0 &&
                 connections_of(target, c) > above;
    }
    return count;
}

static void room_find(const struct plan *plan, struct target *target)
{
    char most[16], number[32] = "";
    struct dlt_job job = {
        .args = {plan->options->program, "--room", most, NULL}, .uri = target->uri, .output = -1};
    FILE *output = NULL;
    unsigned few = 0;

    if (crowds_count(plan, target, 0) == 0)
        return;
    (void)snprintf(most, sizeof most, "%d", ROOM_MOST);
    output = probe_run(plan, &job);
    line_read(output, number, sizeof number);
    (void)fclose(output);
    if (job.exit_status == 0)
        target->room = (unsigned)strtoul(number, NULL, 10);
    few = crowds_count(plan, target, target->room);
    if (target->room < ROOM_MOST)
        note(target, "this server takes %u connections, and %u case%s more", target->room, few,
             few == 1 ? " needs" : "s need");
}

/* To what a healthy server with its defaults gives. */
static void target_fit(const struct plan *plan, struct target *target)
{
    guard_wait(plan, target);
    ttl_shorten(plan, target);
    if (target->opens && (target->caps & DLOCK_CAP_PRIVATE) == 0)
        room_find(plan, target);
}

static void target_init(const struct plan *plan, struct target *target, const char *uri)
{
    const struct dlt_options *options = plan->options;

    target->uri = dlt_tempdir_expand(uri, target->dir, sizeof target->dir);
    DLT_CHECK(target->uri != NULL, "no temporary directory");
    /* Until the library has taken the secrets out of it, show no more than the scheme. */
    (void)snprintf(target->label, sizeof target->label, "%.*s", (int)strcspn(uri, ":") + 1, uri);
    (void)snprintf(target->complaint, sizeof target->complaint, "the process that opens it died");
    target->room = ROOM_MOST;
    target_probe(plan, target);
    if (!options->strict && target->opens)
        target_fit(plan, target);
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
    uint64_t missing = c->caps & ~target->caps;
    char caps[160];

    if (missing != 0)
        (void)snprintf(reason, size, "no %s", dlt_caps_format(missing, caps, sizeof caps));
    else if ((c->flags & DLT_PROCESSES) && target->is_private)
        (void)snprintf(reason, size, "the store lives in one process");
    else if (lacks != NULL)
        (void)snprintf(reason, size, "no %s", lacks);
    else if (target->room < ROOM_MOST && connections_of(target, c) > target->room)
        (void)snprintf(reason, size, "this server takes %u connections: the case needs %u",
                       target->room, connections_of(target, c));
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
    job->ttl_most = target->ttl_most[0] != '\0' ? target->ttl_most : NULL;
    job->alone =
        (c->flags & DLT_SERIAL) != 0 || (target->room < ROOM_MOST && DLT_CLIENTS_OF(c->flags) > 0);
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

static unsigned width_of(const struct plan *plan)
{
    unsigned width = plan->options->jobs;

    for (size_t t = 0; t < plan->options->uri_count; t++) {
        unsigned most = plan->targets[t].room / ROOM_OF_CASE;

        if (plan->targets[t].room < ROOM_MOST && most < width)
            width = most > 0 ? most : 1;
    }
    return width;
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
    dlt_pool_run(plan->program, plan->jobs, plan->job_count, width_of(plan), report_update,
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
