/* SPDX-License-Identifier: MIT */
/*
 * check.h - is this the history of a lock? Looks at a history afterwards, with none of the
 * library's own ideas of what is true.
 *
 * The *claim* of an attempt runs from the answer OK to lock until the earliest of: the call of
 * unlock, the news of a loss, the end of the lease as far as its holder had it confirmed, the
 * death of its process. A downgrade makes the claim a shared one from the call on.
 */
#ifndef DLT_CHECK_H
#define DLT_CHECK_H

#include "history.h"

#include <stdbool.h>

/*
 *   X(name, text)
 *
 * Those that need more than the records of an application are asked for in dlt_check_options.
 */
#define DLT_RULE_MAP(X)                                                          \
    X(RECORDS, "the history makes no sense")                                     \
    X(OVERLAP, "two claims that exclude each other (C1)")                        \
    X(PERMIT, "a permit that another claim has, or beyond the limit (C21)")      \
    X(KEEP, "granted while it was kept (C22)")                                   \
    X(DATA, "a holder was shown with the data of another one (C24)")             \
    X(FENCE, "a fence that is not above all earlier ones (C6)")                  \
    X(WRITE, "a write was accepted after one with a greater fence (C6)")         \
    X(EXPIRED_GRANT, "OK for a lease that had run out (C3)")                     \
    X(STAMP, "said to be held after its end (C2, C5)")                           \
    X(REVIVED, "held again after its end (C5)")                                  \
    X(LOST_TWICE, "the loss was told more than once (C5)")                       \
    X(LOST_UNTOLD, "the loss was not told in time (C5)")                         \
    X(LOST_UNLOCK, "unlock after a loss did not say LOST (C5)")                  \
    X(DEADLINE, "the call came back too late (C8)")                              \
    X(NO_RETURN, "the call never came back")                                     \
    X(TAKEN, "told 'not yours' while the lease ran (C7)")                        \
    X(RENEWAL, "nobody tried to renew it any more (C14)")                        \
    X(UNEXPLAINED, "UNKNOWN although nothing had gone wrong (C4)")               \
    X(OVERTAKEN, "somebody who came later and is in the way got it first (C13)") \
    X(STALLED, "free or abandoned, and wanted, and nobody got it for too long (C13)")

#define DLT_RULE_ENUM(name, text) DLT_RULE_##name,
enum dlt_rule { DLT_RULE_MAP(DLT_RULE_ENUM) DLT_RULE_COUNT };
#undef DLT_RULE_ENUM

const char *dlt_rule_name(enum dlt_rule rule);
const char *dlt_rule_text(enum dlt_rule rule);

struct dlt_violation {
    enum dlt_rule rule;
    int64_t clock_ns;
    uint32_t name_id;
    uint64_t attempt_id, other_id; /* other_id 0: nobody else is involved */
};

struct dlt_check_options {
    int64_t slack_ns; /* how late a call may come back and a loss be told: scheduling */
    int64_t stall_ns; /* STALLED: how long; from the last fault on. 0: not looked at */
    int64_t busy_ns;  /* how long the renewer may be busy with another lease: a loss is told, and a
                         renewal tried, that much later */
    bool renewed;     /* RENEWAL: a lease that ran out was tried to renew in its second half.
                         Needs the renewer's renewals in the history */
    bool explained;   /* UNEXPLAINED: every fault is in the history */
    bool complete;    /* NO_RETURN: the run ended by itself */
    bool told;        /* LOST_UNTOLD: LOST is in the history whenever the application was told */
    bool kept;        /* TAKEN, KEEP, DATA: nobody broke a lock, no store forgot one */
    unsigned handoff; /* OVERTAKEN: a place in the store may be overtaken so often in a row, by
                         hand-offs within the process that holds */
    bool unordered;   /* OVERTAKEN is not looked at: not all that clients hold is in the history */
    bool local_fifo;  /* OVERTAKEN: also within a process, where the order of INV_LOCK is exact */
    /* DEADLINE, LOST_UNTOLD, STALLED: whether it took longer than most_ns from begin_ns to end_ns,
     * if the machine had been there all the time. NULL: it was. */
    bool (*is_late)(int64_t begin_ns, int64_t end_ns, int64_t most_ns);
    void (*report)(void *arg, const struct dlt_violation *violation); /* NULL: count only */
    void *arg;
};

struct dlt_check_figures {
    uint64_t locks, acquired, unknown, lost; /* calls of lock; their OK; answers UNKNOWN; losses */
    uint64_t renewals, unlocks;              /* calls */
    uint64_t accepted, rejected;             /* writes */
    uint64_t keeps;           /* releases that certainly kept the name, or the permit */
    uint64_t seen, seen_data; /* holders that were shown, whose data are known; with data */
    uint64_t faults;
    int64_t smallest_gap_ns; /* between claims that exclude each other; INT64_MAX: none */
    uint64_t violations[DLT_RULE_COUNT];
    uint64_t total; /* of them */
};

/* The history must be sorted. 0; -1: no memory. */
int dlt_check(const struct dlt_history *history, const struct dlt_check_options *options,
              struct dlt_check_figures *figures);

#endif
