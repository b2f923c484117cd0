/* SPDX-License-Identifier: MIT */
/* report_forms.h - results at the end of a run, in other forms than TAP. */
#ifndef DLT_REPORT_FORMS_H
#define DLT_REPORT_FORMS_H

#include "report.h"

/* A line a clause, a column a store, and why cases were skipped; each line begins with `head`. */
void dlt_table_print(const struct dlt_report *report, const char *head);

/* One object: "stores", and "results" with store, case, clauses, result, ms and reason. */
void dlt_json_print(const struct dlt_report *report);

#endif
