/* SPDX-License-Identifier: MIT */
/* figures.h - what a history says besides violations: how late, how long, how often passed. */
#ifndef TORTURE_FIGURES_H
#define TORTURE_FIGURES_H

#include <history.h>
#include <stdbool.h>

struct figures {
    int64_t overrun_ns;   /* the latest return after a deadline; of processes that did not stand */
    int64_t late_loss_ns; /* the latest news of a loss after the end of its lease */
    /* From the first beginning or end of a fault after a lock of a client, whether the fault hits
     * that client or another, to the client's next lock, of any name. */
    int64_t recovery_median_ns, recovery_p99_ns, recovery_most_ns;
    uint64_t recoveries;
    uint32_t overtaken; /* the most locks that others got of a name while somebody waited for it */
    uint64_t lost;      /* acquisitions that were, by news or by the answer to unlock */
    uint64_t unexplained; /* UNKNOWN with no fault within the call or the second before it */
};

/* The history is sorted. False: no memory. */
bool figures_make(const struct dlt_history *history, struct figures *figures);

#endif
