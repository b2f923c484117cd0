/* SPDX-License-Identifier: MIT */
/* report.h - results as TAP 13, in the order of the plan; or all at the end, as a table or JSON. */
#ifndef DLT_REPORT_H
#define DLT_REPORT_H

#include "conformance.h"
#include "pool.h"

#include <stdbool.h>

enum dlt_verdict { DLT_PASSED, DLT_FAILED, DLT_SKIPPED, DLT_NOT_JUDGED };

struct dlt_result {
    const char *label;        /* the URI without secrets */
    const struct dlt_case *c; /* NULL: the store could not be opened: `text` says why */
    struct dlt_job *job;      /* NULL: skipped, for the reason in `text` */
    char text[512];
    enum dlt_verdict verdict; /* once it is there; then `text` says why, unless it passed */
};

enum dlt_format { DLT_TAP, DLT_TABLE, DLT_JSON };

struct dlt_report {
    const struct dlt_program *program; /* NULL: dlock-conformance */
    enum dlt_format format;
    bool with_table;  /* TAP, and the table in comments below */
    bool with_output; /* TAP, with what each case printed, not only those that failed */
    struct dlt_result *results;
    size_t count, printed;
    unsigned passed, failed, skipped, not_judged;
};

void dlt_report_begin(const struct dlt_report *report);

/* Prints the results that are there and whose predecessors have been printed. */
void dlt_report_go_on(struct dlt_report *report);

/* A last line for people. Returns the exit status. */
int dlt_report_end(const struct dlt_report *report);

#endif
