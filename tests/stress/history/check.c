/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "checker.h"

#include <dlock/types.h>

const char *dlt_rule_name(enum dlt_rule rule)
{
#define DLT_RULE_NAME(name, text) #name,
    static const char *const names[] = {DLT_RULE_MAP(DLT_RULE_NAME)};
#undef DLT_RULE_NAME

    return names[rule];
}

const char *dlt_rule_text(enum dlt_rule rule)
{
#define DLT_RULE_TEXT(name, text) text,
    static const char *const texts[] = {DLT_RULE_MAP(DLT_RULE_TEXT)};
#undef DLT_RULE_TEXT

    return texts[rule];
}

static void inv_lock(struct checker *checker, const struct dlt_record *r)
{
    struct attempt *attempt = dlt_checker_attempt_new(checker, r);

    if (attempt == NULL) {
        dlt_checker_report(checker, DLT_RULE_RECORDS, NULL, NULL, r->clock_ns);
        return;
    }
    checker->figures->locks++;
    attempt->in_lock = true;
    attempt->waiting = (r->status & DLT_CALL_WAITS) != 0;
    attempt->kept = (r->status & DLT_CALL_KEPT) != 0;
    attempt->inv_ns = r->clock_ns;
    attempt->deadline_ns = r->until_ns;
    dlt_turn_begin(checker, attempt);
}

static void queued(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    (void)checker;
    if (attempt->place_until < r->clock_ns)
        attempt->place_ns = r->clock_ns;
    if (attempt->place_until < r->until_ns)
        attempt->place_until = r->until_ns;
    attempt->confirmed_ns = r->clock_ns - (int64_t)r->status * 1000000;
}

static void deadline_check(struct checker *checker, const struct attempt *attempt,
                           const struct dlt_record *r)
{
    if (attempt->deadline_ns != 0 && !dlt_checker_stood(checker, attempt, attempt->inv_ns) &&
        dlt_checker_late(checker, attempt->deadline_ns, r->clock_ns, checker->options->slack_ns))
        dlt_checker_report(checker, DLT_RULE_DEADLINE, attempt, NULL, r->clock_ns);
}

/* UNKNOWN, of a call that began at inv_ns. */
static void unknown_count(struct checker *checker, const struct attempt *attempt, int64_t inv_ns,
                          const struct dlt_record *r)
{
    if (r->status != DLOCK_UNKNOWN)
        return;
    checker->figures->unknown++;
    if (checker->options->explained && checker->names[attempt->name_id].fault_ns < inv_ns &&
        !dlt_checker_stood(checker, attempt, inv_ns))
        dlt_checker_report(checker, DLT_RULE_UNEXPLAINED, attempt, NULL, r->clock_ns);
}

static void ret_lock(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    bool ok = r->status == DLOCK_OK;

    attempt->in_lock = false;
    attempt->fence = ok ? r->fence : 0;
    deadline_check(checker, attempt, r);
    dlt_turn_over(checker, attempt, r->clock_ns, ok);
    unknown_count(checker, attempt, attempt->inv_ns, r);
    if (!ok) {
        dlt_turn_retire(checker, attempt);
        return;
    }
    checker->figures->acquired++;
    attempt->until_ns = r->until_ns;
    attempt->since_ns = r->clock_ns;
    attempt->renew_ns = r->clock_ns;
    attempt->permit = r->permit;
    dlt_keep_acquired(checker, attempt, r);
    dlt_claim_open(attempt, r->mode, r->clock_ns);
    if (r->until_ns + checker->options->slack_ns <= r->clock_ns &&
        !dlt_checker_stood(checker, attempt, attempt->inv_ns))
        dlt_checker_report(checker, DLT_RULE_EXPIRED_GRANT, attempt, NULL, r->clock_ns);
}

static void inv_renew(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    checker->figures->renewals++;
    attempt->renew_ns = r->clock_ns;
    if (r->status != 0) {
        attempt->asked_tid = r->tid;
        attempt->asked_ns = r->clock_ns;
    }
    if (attempt->held && attempt->mode == DLOCK_EXCLUSIVE && r->mode == DLOCK_SHARED) {
        dlt_claim_close(checker, attempt, r->clock_ns);
        dlt_claim_open(attempt, DLOCK_SHARED, r->clock_ns);
    }
}

/* Told "not yours". */
static void taken_check(struct checker *checker, const struct attempt *attempt,
                        const struct dlt_record *r)
{
    if (checker->options->kept && !attempt->told && r->clock_ns < attempt->until_ns)
        dlt_checker_report(checker, DLT_RULE_TAKEN, attempt, NULL, r->clock_ns);
}

static void ret_renew(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    bool asked = attempt->asked_tid != 0 && attempt->asked_tid == r->tid;

    unknown_count(checker, attempt, asked ? attempt->asked_ns : attempt->renew_ns, r);
    attempt->renew_ns = r->clock_ns; /* tried until now */
    if (asked)
        attempt->asked_tid = 0;
    if (r->status == DLOCK_OK) {
        bool late = r->clock_ns > attempt->until_ns + checker->options->slack_ns &&
                    !dlt_checker_stood(checker, attempt, attempt->until_ns);

        if (attempt->told || late)
            dlt_checker_report(checker, DLT_RULE_REVIVED, attempt, NULL, r->clock_ns);
        if (r->until_ns > attempt->until_ns)
            attempt->until_ns = r->until_ns;
        attempt->since_ns = r->clock_ns;
    } else if (r->status == DLOCK_LOST) {
        taken_check(checker, attempt, r);
    }
}

/* The lease ran out before now_ns and nobody was told, although there was time for it. */
static void untold_check(struct checker *checker, const struct attempt *attempt, int64_t now_ns)
{
    int64_t news_ns = attempt->until_ns > attempt->claim_ns ? attempt->until_ns : attempt->claim_ns;

    if (checker->options->told && !attempt->told && attempt->until_ns != 0 &&
        !dlt_checker_stood(checker, attempt, attempt->until_ns) &&
        dlt_checker_late(checker, news_ns, now_ns,
                         checker->options->slack_ns + checker->options->busy_ns))
        dlt_checker_report(checker, DLT_RULE_LOST_UNTOLD, attempt, NULL, now_ns);
}

static void inv_unlock(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    checker->figures->unlocks++;
    if (!attempt->unlocking)
        untold_check(checker, attempt, r->clock_ns);
    dlt_claim_close(checker, attempt, r->clock_ns);
    dlt_turn_moved(checker, attempt, r->clock_ns);
    dlt_keep_begin(checker, attempt, r);
    attempt->inv_ns = r->clock_ns;
    attempt->deadline_ns = r->until_ns;
}

static void ret_unlock(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    bool over = r->status == DLOCK_OK || r->status == DLOCK_LOST;

    unknown_count(checker, attempt, attempt->inv_ns, r);
    deadline_check(checker, attempt, r);
    dlt_keep_answered(checker, attempt, r);
    if (r->status == DLOCK_LOST)
        taken_check(checker, attempt, r);
    else if (attempt->told && !attempt->unlocking)
        dlt_checker_report(checker, DLT_RULE_LOST_UNLOCK, attempt, NULL, r->clock_ns);
    attempt->unlocking = true;
    /* An unlock without an answer leaves the lease in the store. */
    dlt_turn_moved(checker, attempt,
                   over || attempt->until_ns < r->clock_ns ? r->clock_ns : attempt->until_ns);
    dlt_turn_retire(checker, attempt);
}

/* It ran out: was it tried to renew to the end? */
static void renewal_check(struct checker *checker, const struct attempt *attempt)
{
    int64_t most_ns = (attempt->until_ns - attempt->since_ns) / 2 + checker->options->busy_ns;

    if (checker->options->renewed && attempt->kept &&
        attempt->until_ns - attempt->renew_ns > most_ns &&
        !dlt_checker_stood(checker, attempt, attempt->since_ns))
        dlt_checker_report(checker, DLT_RULE_RENEWAL, attempt, NULL, attempt->until_ns);
}

static void lost(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    checker->figures->lost++;
    if (attempt->told) {
        dlt_checker_report(checker, DLT_RULE_LOST_TWICE, attempt, NULL, r->clock_ns);
        return;
    }
    taken_check(checker, attempt, r);
    untold_check(checker, attempt, r->clock_ns);
    if (r->clock_ns >= attempt->until_ns && attempt->held)
        renewal_check(checker, attempt);
    dlt_claim_close(checker, attempt, r->clock_ns);
    dlt_turn_moved(checker, attempt, attempt->end_ns);
    attempt->told = true;
}

/* Who asks how long a lease lasts is told whole milliseconds, and writes down an end that is early
 * by what was cut off. */
#define CUT_OFF_NS 1000000

static void held_stamp(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    if (r->status != 1)
        return;
    if (r->until_ns > attempt->until_ns)
        attempt->until_ns = r->until_ns;
    if (!attempt->held || r->clock_ns >= attempt->until_ns + CUT_OFF_NS)
        dlt_checker_report(checker, DLT_RULE_STAMP, attempt, NULL, r->clock_ns);
}

static void write_done(struct checker *checker, const struct dlt_record *r)
{
    struct name *name = &checker->names[r->name_id];
    struct attempt *attempt = dlt_checker_attempt(checker, r->attempt_id);

    if (r->event == DLT_WRITE_REJECT)
        checker->figures->rejected++;
    if (r->event != DLT_WRITE_ACCEPT)
        return;
    checker->figures->accepted++;
    if (r->fence < name->written)
        dlt_checker_report(checker, DLT_RULE_WRITE, attempt, NULL, r->clock_ns);
    else
        name->written = r->fence;
}

static void kill_one(struct checker *checker, struct attempt *attempt, int64_t now_ns)
{
    dlt_claim_close(checker, attempt, now_ns);
    dlt_turn_fault(checker, attempt->name_id, now_ns);
    dlt_turn_retire(checker, attempt);
}

/* What happens to a process happens to the names that it has to do with. */
static void nemesis(struct checker *checker, const struct dlt_record *r)
{
    struct process *process = dlt_checker_process(checker, r->pid);
    bool killed = r->event == DLT_NEMESIS_KILL;

    checker->figures->faults += r->event != DLT_NEMESIS_CONT;
    if (r->event == DLT_NEMESIS_FAULT) {
        dlt_turn_fault(checker, r->name_id, r->clock_ns);
        if (r->pid > 0)
            process->fault_ns = r->clock_ns;
        return;
    }
    process->killed |= killed;
    process->stopped = r->event == DLT_NEMESIS_STOP;
    if (r->event == DLT_NEMESIS_CONT)
        process->cont_ns = r->clock_ns;
    for (size_t i = 0; i < checker->name_count; i++) {
        struct attempt *next;

        for (struct attempt *a = checker->names[i].active; a != NULL; a = next) {
            next = a->next;
            if (a->pid == r->pid && killed)
                kill_one(checker, a, r->clock_ns);
            else if (a->pid == r->pid)
                dlt_turn_fault(checker, a->name_id, r->clock_ns);
        }
    }
}

typedef void on_attempt(struct checker *checker, struct attempt *attempt,
                        const struct dlt_record *r);

static void left(struct checker *checker, struct attempt *attempt, const struct dlt_record *r)
{
    (void)checker;
    if (r->status != 0)
        attempt->stepped_out = true;
    else
        dlt_turn_place_gone(attempt);
}

static void record_check(struct checker *checker, const struct dlt_record *r)
{
    static on_attempt *const on[DLT_EVENT_COUNT] = {
        [DLT_QUEUED] = queued,         [DLT_LEFT] = left,           [DLT_RET_LOCK] = ret_lock,
        [DLT_INV_RENEW] = inv_renew,   [DLT_RET_RENEW] = ret_renew, [DLT_INV_UNLOCK] = inv_unlock,
        [DLT_RET_UNLOCK] = ret_unlock, [DLT_LOST] = lost,           [DLT_HELD_STAMP] = held_stamp,
    };
    struct attempt *attempt;

    if (r->event == DLT_INV_LOCK) {
        inv_lock(checker, r);
    } else if (r->event >= DLT_NEMESIS_STOP && r->event < DLT_EVENT_COUNT) {
        nemesis(checker, r);
    } else if (r->event >= DLT_WRITE_TRY && r->event <= DLT_WRITE_REJECT &&
               r->name_id < checker->name_count) {
        write_done(checker, r);
    } else if (r->event == DLT_SEEN && r->name_id < checker->name_count) {
        return; /* seen.c */
    } else {
        attempt = dlt_checker_attempt(checker, r->attempt_id);
        if (attempt == NULL || r->event >= DLT_EVENT_COUNT || on[r->event] == NULL)
            dlt_checker_report(checker, DLT_RULE_RECORDS, attempt, NULL, r->clock_ns);
        else if (!dlt_checker_process(checker, attempt->pid)->killed)
            on[r->event](checker, attempt, r);
    }
}

static void end_check(struct checker *checker, int64_t now_ns)
{
    for (size_t i = 0; i < checker->attempt_count; i++) {
        struct attempt *attempt = &checker->attempts[i];

        if (!attempt->active || dlt_checker_process(checker, attempt->pid)->stopped)
            continue;
        if (attempt->in_lock && checker->options->complete)
            dlt_checker_report(checker, DLT_RULE_NO_RETURN, attempt, NULL, now_ns);
        if (attempt->in_lock)
            dlt_turn_check_stall(checker, attempt, now_ns);
        else if (!attempt->unlocking)
            untold_check(checker, attempt, now_ns);
    }
    for (size_t i = 0; i < checker->attempt_count; i++)
        dlt_claim_close(checker, &checker->attempts[i], checker->attempts[i].until_ns);
}

int dlt_check(const struct dlt_history *history, const struct dlt_check_options *options,
              struct dlt_check_figures *figures)
{
    struct checker checker = {.options = options, .figures = figures};
    bool ready = dlt_checker_init(&checker, history);

    *figures = (struct dlt_check_figures){.smallest_gap_ns = INT64_MAX};
    if (ready) {
        for (size_t i = 0; i < history->count; i++)
            record_check(&checker, &history->records[i]);
        if (history->count > 0)
            end_check(&checker, history->records[history->count - 1].clock_ns);
        dlt_claims_sweep(&checker);
        dlt_seen_check(&checker, history);
        ready = !checker.no_memory;
    }
    dlt_checker_fini(&checker);
    return ready ? 0 : -1;
}
