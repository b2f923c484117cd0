/* SPDX-License-Identifier: MIT */
/* nth_script.h - open, lock, renew, unlock, close, with something failing on the way, and what has
 * to be true all the same. */
#ifndef DLT_NTH_SCRIPT_H
#define DLT_NTH_SCRIPT_H

#include "fault.h"

#include <dlock/dlock.h>
#include <stdio.h>

/* Exit statuses of a run. */
enum {
    NTH_GOOD = 0,
    NTH_BAD = 1,        /* a line on `out` says what */
    NTH_UNTOUCHED = 2,  /* good, and nothing failed: the loop is over */
    NTH_UNEXPLAINED = 3 /* a call failed, and not by the plan: a busy machine, or a defect */
};

struct nth_script {
    const char *uri;        /* a store that nobody else uses */
    bool transparent;       /* no call may fail for it */
    enum dlock_status also; /* an answer that a failing call may give, besides the usual ones */
    bool session;           /* a lock ends with its connection: LOST is an answer */
};

/* Runs it in this process with the plan in force. */
int nth_script_run(const struct nth_script *script, struct dlt_fault *fault,
                   const struct dlt_fault_plan *plan, FILE *out);

#endif
