/* SPDX-License-Identifier: MIT */
/* report.h - says what the checker found, for people. Every line is a comment of TAP. */
#ifndef DLT_REPORT_H
#define DLT_REPORT_H

#include "check.h"

/* The violation, both attempts' records, and what the nemesis did within window_ns of it. */
void dlt_report_violation(FILE *out, const struct dlt_history *history,
                          const struct dlt_violation *violation, int64_t window_ns);

/* Counts, one line. */
void dlt_report_figures(FILE *out, const struct dlt_check_figures *figures);

/* "", or why the calls of lock may have failed: "; the store failed in 3 of 4 calls of lock, ...",
 * for the end of a message. STALLED and too few acquisitions are no defects of a store that was not
 * there. */
void dlt_failures_text(const struct dlt_history *history, char *text, size_t size);

#endif
