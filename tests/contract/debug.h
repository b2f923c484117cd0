/* SPDX-License-Identifier: MIT */
/* debug.h - one case in this process, for debuggers: no child that runs it, no time limit, its
 * output as it comes. */
#ifndef DLT_DEBUG_H
#define DLT_DEBUG_H

#include "conformance.h"
#include "options.h"

/* Runs the case options->debug on the one URI of options. A case that works with a second party has
 * it as a thread, unless it needs processes. A directory for {tmp} stays, to be looked at. Returns
 * the exit status of the program, unless a check ends it before. */
int dlt_debug_run(const struct dlt_table *table, const struct dlt_options *options);

#endif
