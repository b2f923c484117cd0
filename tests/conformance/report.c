/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void dlt_report_begin(size_t count)
{
    (void)printf("TAP version 13\n1..%zu\n", count);
}

/* TAP gives # and newlines a meaning. */
static void text_print(const char *text)
{
    for (; *text != '\0'; text++)
        (void)putchar(*text == '#' || (unsigned char)*text < ' ' ? '?' : *text);
}

static void line_print(const char *verdict, size_t number, const struct dlt_result *result)
{
    (void)printf("%s %zu - ", verdict, number);
    text_print(result->label);
    if (result->c == NULL)
        (void)printf(" opens");
    else
        (void)printf(" %s [%s]", result->c->name, result->c->clauses);
}

/* The output of a case as comments. */
static void output_print(const struct dlt_job *job)
{
    FILE *output = fdopen(dup(job->output), "r");
    char line[1024];

    if (output == NULL)
        return;
    while (fgets(line, sizeof line, output) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        (void)printf("# %s\n", line);
    }
    (void)fclose(output);
}

static void last_line(const struct dlt_job *job, char *line, size_t size)
{
    FILE *output = fdopen(dup(job->output), "r");
    char next[256];

    (void)snprintf(line, size, "no reason given");
    if (output == NULL)
        return;
    while (fgets(next, sizeof next, output) != NULL) {
        next[strcspn(next, "\n")] = '\0';
        (void)snprintf(line, size, "%s", next);
    }
    (void)fclose(output);
}

static void skip_print(struct dlt_report *report, const struct dlt_result *result,
                       const char *reason)
{
    line_print("ok", report->printed + 1, result);
    (void)printf(" # SKIP ");
    text_print(reason);
    (void)putchar('\n');
    report->skipped++;
}

static void failure_print(struct dlt_report *report, const struct dlt_result *result)
{
    line_print("not ok", report->printed + 1, result);
    (void)putchar('\n');
    report->failed++;
}

static void job_failure_print(struct dlt_report *report, const struct dlt_result *result,
                              const struct dlt_job *job)
{
    failure_print(report, result);
    if (job->timed_out)
        (void)printf("# no end after %" PRId64 " ms\n", job->took_ms);
    else if (job->signal != 0)
        (void)printf("# ended by signal %d (%s)\n", job->signal, strsignal(job->signal));
    else
        (void)printf("# exit status %d\n", job->exit_status);
    output_print(job);
}

static void job_print(struct dlt_report *report, const struct dlt_result *result,
                      const struct dlt_job *job)
{
    char reason[256];

    if (job->timed_out || (job->exit_status != 0 && job->exit_status != DLT_EXIT_SKIPPED)) {
        job_failure_print(report, result, job);
    } else if (job->exit_status == DLT_EXIT_SKIPPED) {
        last_line(job, reason, sizeof reason);
        skip_print(report, result, reason);
    } else {
        line_print("ok", report->printed + 1, result);
        (void)printf(" (%" PRId64 " ms)\n", job->took_ms);
        report->passed++;
    }
    (void)close(job->output);
}

void dlt_report_go_on(struct dlt_report *report)
{
    for (; report->printed < report->count; report->printed++) {
        const struct dlt_result *result = &report->results[report->printed];

        if (result->job != NULL && result->job->state != DLT_JOB_DONE)
            break;
        if (result->job != NULL) {
            job_print(report, result, result->job);
        } else if (result->c != NULL) {
            skip_print(report, result, result->text);
        } else {
            failure_print(report, result);
            (void)printf("# %s\n", result->text);
        }
    }
    (void)fflush(stdout);
}

int dlt_report_end(const struct dlt_report *report)
{
    (void)printf("# passed %u, failed %u, skipped %u\n", report->passed, report->failed,
                 report->skipped);
    return report->failed == 0 && report->printed == report->count ? 0 : 1;
}
