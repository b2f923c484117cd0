/* SPDX-License-Identifier: MIT */
#include "report.h"
#include "report_forms.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void dlt_report_begin(const struct dlt_report *report)
{
    if (report->format == DLT_TAP)
        (void)printf("TAP version 13\n1..%zu\n", report->count);
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

/* From its beginning; to be closed. */
static FILE *output_open(const struct dlt_job *job)
{
    (void)lseek(job->output, 0, SEEK_SET);
    return fdopen(dup(job->output), "r");
}

/* The output of a case as comments. */
static void output_print(const struct dlt_job *job)
{
    FILE *output = output_open(job);
    char line[1024];

    if (output == NULL)
        return;
    while (fgets(line, sizeof line, output) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        (void)printf("# %s\n", line);
    }
    (void)fclose(output);
}

static bool of_library(const char *line)
{
    return strncmp(line, DLT_LOG_LINE, strlen(DLT_LOG_LINE)) == 0 ||
           strncmp(line, DLT_TRACE_LINE, strlen(DLT_TRACE_LINE)) == 0;
}

/* The last one that the case itself printed. */
static void last_line(const struct dlt_job *job, char *line, size_t size)
{
    FILE *output = output_open(job);
    char next[256];

    (void)snprintf(line, size, "no reason given");
    if (output == NULL)
        return;
    while (fgets(next, sizeof next, output) != NULL) {
        next[strcspn(next, "\n")] = '\0';
        if (!of_library(next))
            (void)snprintf(line, size, "%s", next);
    }
    (void)fclose(output);
}

static void judge(struct dlt_result *result)
{
    const struct dlt_job *job = result->job;
    char *text = result->text;

    result->verdict = result->c == NULL ? DLT_FAILED : DLT_SKIPPED;
    if (job == NULL)
        return;
    if (job->timed_out) {
        (void)snprintf(text, sizeof result->text, "no end after %" PRId64 " ms", job->took_ms);
        result->verdict = DLT_FAILED;
    } else if (job->exit_status == 0) {
        result->verdict = DLT_PASSED;
    } else {
        last_line(job, text, sizeof result->text);
        result->verdict = job->exit_status == DLT_EXIT_SKIPPED ? DLT_SKIPPED
                          : job->exit_status == DLT_EXIT_VOID  ? DLT_NOT_JUDGED
                                                               : DLT_FAILED;
    }
}

/* directive: "SKIP" or "void" */
static void directive_print(const struct dlt_report *report, const struct dlt_result *result,
                            const char *directive)
{
    line_print("ok", report->printed + 1, result);
    (void)printf(" # %s ", directive);
    text_print(result->text);
    (void)putchar('\n');
    if (report->with_output && result->job != NULL)
        output_print(result->job);
}

static void failure_print(const struct dlt_report *report, const struct dlt_result *result)
{
    const struct dlt_job *job = result->job;

    line_print("not ok", report->printed + 1, result);
    (void)putchar('\n');
    if (result->c != NULL)
        (void)printf("# wanted: %s\n", result->c->sentence);
    if (job == NULL || job->timed_out)
        (void)printf("# %s\n", result->text);
    else if (job->signal != 0)
        (void)printf("# ended by signal %d (%s)\n", job->signal, strsignal(job->signal));
    else
        (void)printf("# exit status %d\n", job->exit_status);
    if (job != NULL)
        output_print(job);
}

static void result_print(const struct dlt_report *report, const struct dlt_result *result)
{
    if (result->verdict == DLT_FAILED) {
        failure_print(report, result);
    } else if (result->verdict == DLT_SKIPPED) {
        directive_print(report, result, "SKIP");
    } else if (result->verdict == DLT_NOT_JUDGED) {
        directive_print(report, result, "void");
    } else {
        line_print("ok", report->printed + 1, result);
        (void)printf(" (%" PRId64 " ms)\n", result->job->took_ms);
        if (report->with_output)
            output_print(result->job);
    }
}

void dlt_report_go_on(struct dlt_report *report)
{
    for (; report->printed < report->count; report->printed++) {
        struct dlt_result *result = &report->results[report->printed];

        if (result->job != NULL && result->job->state != DLT_JOB_DONE)
            break;
        judge(result);
        report->passed += result->verdict == DLT_PASSED;
        report->failed += result->verdict == DLT_FAILED;
        report->skipped += result->verdict == DLT_SKIPPED;
        report->not_judged += result->verdict == DLT_NOT_JUDGED;
        if (report->format == DLT_TAP)
            result_print(report, result);
        /* What failed is shown at the end in other forms. */
        if (result->job != NULL && (report->format == DLT_TAP || result->verdict != DLT_FAILED))
            (void)close(result->job->output);
    }
    (void)fflush(stdout);
}

/* What failed, as TAP has it. */
static void failures_print(const struct dlt_report *report)
{
    for (size_t i = 0; i < report->printed; i++) {
        const struct dlt_report one = {.printed = i};

        if (report->results[i].verdict == DLT_FAILED)
            failure_print(&one, &report->results[i]);
    }
}

static void sums_print(const struct dlt_report *report)
{
    unsigned run = report->passed + report->failed + report->not_judged;

    if (report->program == NULL)
        (void)printf("# passed %u, failed %u, skipped %u\n", report->passed, report->failed,
                     report->skipped);
    if (report->not_judged > 0)
        (void)printf("# void %u: the machine was too slow to judge their bounds of time\n",
                     report->not_judged);
    if (report->program != NULL)
        (void)printf("# %u cases run, %u not applicable, %u failed\n", run, report->skipped,
                     report->failed);
}

int dlt_report_end(const struct dlt_report *report)
{
    bool whole = report->printed == report->count;

    if (report->format == DLT_JSON && whole)
        dlt_json_print(report);
    if (report->format == DLT_TABLE && whole) {
        dlt_table_print(report, "");
        failures_print(report);
    }
    if (report->format == DLT_TAP && report->with_table && whole)
        dlt_table_print(report, "# ");
    if (report->format != DLT_JSON)
        sums_print(report);
    return report->failed == 0 && whole ? 0 : 1;
}
