/* SPDX-License-Identifier: MIT */
/* runner.h - which cases run on which stores; runs them and reports. */
#ifndef DLT_RUNNER_H
#define DLT_RUNNER_H

#include "conformance.h"
#include "options.h"

/* only: a shell pattern for the name, or a clause; NULL: every case. */
int dlt_case_selected(const struct dlt_case *c, const char *only);

/* Returns the exit status of the program. */
int dlt_runner_run(const struct dlt_table *table, const struct dlt_options *options);

#endif
