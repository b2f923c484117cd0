/* SPDX-License-Identifier: MIT */
/* checker.h - what the files of the checker share: attempts, names and processes of one history. */
#ifndef DLT_CHECKER_H
#define DLT_CHECKER_H

#include "check.h"

/* From id to place in an array. */
struct dlt_map {
    uint64_t *keys;
    uint32_t *places; /* + 1; 0: empty */
    size_t mask;
};

struct attempt {
    uint64_t id;
    uint32_t name_id;
    int32_t pid;
    uint8_t mode;       /* of the claim */
    bool active;        /* in the list of its name: from INV_LOCK to the end of its last call */
    bool waiting;       /* in a call of lock that waits */
    bool stepped_out;   /* of the line within its process */
    bool in_lock, held; /* in the call of lock; the claim is open */
    bool kept;          /* DLT_CALL_KEPT */
    bool unlocking, told;
    int32_t asked_tid; /* who is in a renewal that the application asked for; 0: nobody */
    int64_t asked_ns;  /* since when */
    int64_t inv_ns, deadline_ns;
    int64_t claim_ns, end_ns;      /* of the open part of the claim; end of the last one */
    int64_t until_ns, since_ns;    /* confirmed end of the lease; when that was confirmed */
    int64_t renew_ns;              /* last attempt to renew */
    int64_t place_ns, place_until; /* place in the store's queue; place_until 0: none */
    int64_t confirmed_ns;          /* not later than the store said so last */
    uint64_t fence;
    uint32_t limit, permit; /* of a semaphore; a lock: 0 or 1, and 0 */
    uint64_t data;
    int64_t began_ns, keep_ms;    /* of a release that keeps; 0: it does not */
    int64_t keeps_until_ns;       /* 0: it is not known that it was kept; keeps.c */
    bool perhaps_kept;            /* an unlock of it was UNKNOWN */
    const struct attempt *passed; /* by whom, of a semaphore; turns.c */
    struct attempt *prev, *next;
};

struct name {
    struct attempt *active; /* youngest first */
    unsigned waiting;
    int32_t last_pid; /* who got it last, and how often in a row past somebody's place */
    unsigned turns;
    int64_t calm_ns;  /* since then nothing but waiting is known to have happened */
    int64_t fault_ns; /* the last thing that the nemesis did to it */
    uint64_t written;
};

struct process {
    int32_t pid;
    bool killed, stopped;
    int64_t cont_ns;  /* when it last went on */
    int64_t fault_ns; /* the last fault of an exchange that delayed all of its operations */
};

/* A part of a claim in one mode. */
struct segment {
    int64_t start_ns, end_ns;
    const struct attempt *attempt;
    uint32_t name_id;
    uint8_t mode;
};

struct checker {
    const struct dlt_check_options *options;
    struct dlt_check_figures *figures;
    struct attempt *attempts;
    struct process *processes;
    struct name *names;
    struct segment *segments;
    size_t attempt_count, process_count, name_count, segment_count, segment_room;
    struct dlt_map by_id, by_pid;
    bool no_memory;
};

bool dlt_checker_init(struct checker *checker, const struct dlt_history *history);
void dlt_checker_fini(struct checker *checker);

struct attempt *dlt_checker_attempt(struct checker *checker, uint64_t id); /* NULL: unknown */
struct attempt *dlt_checker_attempt_new(struct checker *checker, const struct dlt_record *record);
struct process *dlt_checker_process(struct checker *checker, int32_t pid);

/* An upper bound of time, which a slow machine excuses. */
bool dlt_checker_late(const struct checker *checker, int64_t begin_ns, int64_t end_ns,
                      int64_t most_ns);

void dlt_checker_report(struct checker *checker, enum dlt_rule rule, const struct attempt *attempt,
                        const struct attempt *other, int64_t clock_ns);

/* Did the process of attempt stand still at any time from since_ns to now? */
bool dlt_checker_stood(struct checker *checker, const struct attempt *attempt, int64_t since_ns);

/* claims.c: opens a part of a claim, ends it, looks at all of them. */
void dlt_claim_open(struct attempt *attempt, uint8_t mode, int64_t now_ns);
void dlt_claim_close(struct checker *checker, struct attempt *attempt, int64_t now_ns);
void dlt_claims_sweep(struct checker *checker);

/* keeps.c: when the acquisition began; what its release keeps; a part of a claim of an attempt that
 * was kept (NULL: none), and one after it. */
void dlt_keep_acquired(struct checker *checker, struct attempt *attempt,
                       const struct dlt_record *record);
void dlt_keep_begin(struct checker *checker, struct attempt *attempt,
                    const struct dlt_record *record);
void dlt_keep_answered(struct checker *checker, struct attempt *attempt,
                       const struct dlt_record *record);
void dlt_keep_compare(struct checker *checker, const struct segment *kept,
                      const struct segment *segment);

/* seen.c: compares what inspects showed with the claims, after the sweep. */
void dlt_seen_check(struct checker *checker, const struct dlt_history *history);

/* turns.c: who is in whose way. */
void dlt_turn_begin(struct checker *checker, struct attempt *attempt);
void dlt_turn_over(struct checker *checker, struct attempt *attempt, int64_t now_ns, bool got_it);
void dlt_turn_retire(struct checker *checker, struct attempt *attempt);
void dlt_turn_place_gone(struct attempt *attempt);
void dlt_turn_moved(struct checker *checker, const struct attempt *attempt, int64_t now_ns);
void dlt_turn_fault(struct checker *checker, uint32_t name_id, int64_t now_ns);
void dlt_turn_check_stall(struct checker *checker, struct attempt *attempt, int64_t now_ns);

static inline bool dlt_modes_exclude(uint8_t a, uint8_t b)
{
    return a == 0 || b == 0; /* DLOCK_EXCLUSIVE */
}

#endif
