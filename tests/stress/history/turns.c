/* SPDX-License-Identifier: MIT */
#include "checker.h"

static struct name *name_of(struct checker *checker, const struct attempt *attempt)
{
    return &checker->names[attempt->name_id];
}

static void calm_from(struct name *name, int64_t now_ns)
{
    if (now_ns > name->calm_ns)
        name->calm_ns = now_ns;
}

void dlt_turn_begin(struct checker *checker, struct attempt *attempt)
{
    struct name *name = name_of(checker, attempt);

    attempt->active = true;
    attempt->next = name->active;
    if (attempt->next != NULL)
        attempt->next->prev = attempt;
    name->active = attempt;
    if (!attempt->waiting)
        return;
    if (name->waiting++ == 0)
        calm_from(name, attempt->inv_ns);
}

/* The last fault of the name, or of an exchange for which the operations of the process wait. */
static int64_t fault_of(struct checker *checker, const struct attempt *attempt)
{
    int64_t name_ns = name_of(checker, attempt)->fault_ns;
    int64_t process_ns = dlt_checker_process(checker, attempt->pid)->fault_ns;

    return name_ns > process_ns ? name_ns : process_ns;
}

/* By a place in the store that was confirmed before `late` was called and is live. After a fault
 * the place may have become a grant that nobody heard of, and that has run out. */
static bool before_by_place(struct checker *checker, const struct attempt *early,
                            const struct attempt *late, int64_t now_ns)
{
    return early->place_until > now_ns && early->place_ns < late->inv_ns &&
           early->confirmed_ns > fault_of(checker, early);
}

/* By the order of the calls within a process. */
static bool before_by_call(struct checker *checker, const struct attempt *early,
                           const struct attempt *late)
{
    return checker->options->local_fifo && early->pid == late->pid && !early->stepped_out &&
           early->inv_ns < late->inv_ns;
}

/* A hand-off may pass by places, so many times in a row. */
static bool may_pass(struct checker *checker, const struct attempt *late, bool passes)
{
    struct name *name = name_of(checker, late);
    bool again = name->last_pid == late->pid;

    name->last_pid = late->pid;
    name->turns = passes && again ? name->turns + 1 : 0;
    return !passes || (again && name->turns <= checker->options->handoff);
}

/* Permits are granted while others wait for their answers: the fences tell the order of the grants.
 */
static void permit_note(struct attempt *early, const struct attempt *late)
{
    if (late->fence != 0 && (early->passed == NULL || late->fence < early->passed->fence))
        early->passed = late;
}

static void permits_check(struct checker *checker, struct attempt *late, int64_t now_ns)
{
    for (struct attempt *a = name_of(checker, late)->active; a != NULL; a = a->next)
        if (a->waiting && a != late &&
            (before_by_call(checker, a, late) || before_by_place(checker, a, late, now_ns)))
            permit_note(a, late);
    if (late->passed != NULL && late->passed->fence < late->fence)
        dlt_checker_report(checker, DLT_RULE_OVERTAKEN, late, late->passed, now_ns);
}

static void overtaking_check(struct checker *checker, struct attempt *late, int64_t now_ns)
{
    const struct attempt *passed = NULL;

    for (struct attempt *a = name_of(checker, late)->active; a != NULL; a = a->next) {
        if (!a->waiting || a == late || !dlt_modes_exclude(a->mode, late->mode))
            continue;
        if (before_by_call(checker, a, late))
            dlt_checker_report(checker, DLT_RULE_OVERTAKEN, a, late, now_ns);
        else if (before_by_place(checker, a, late, now_ns))
            passed = a;
    }
    if (!may_pass(checker, late, passed != NULL))
        dlt_checker_report(checker, DLT_RULE_OVERTAKEN, passed, late, now_ns);
}

void dlt_turn_check_stall(struct checker *checker, struct attempt *attempt, int64_t now_ns)
{
    const struct name *name = name_of(checker, attempt);
    int64_t calm_ns = name->calm_ns;

    if (checker->options->stall_ns == 0 || !attempt->waiting)
        return;
    for (const struct attempt *a = name->active; a != NULL; a = a->next)
        if (a->held && a->until_ns > calm_ns)
            calm_ns = a->until_ns;
    if (dlt_checker_late(checker, calm_ns, now_ns, checker->options->stall_ns))
        dlt_checker_report(checker, DLT_RULE_STALLED, attempt, NULL, now_ns);
}

void dlt_turn_over(struct checker *checker, struct attempt *attempt, int64_t now_ns, bool got_it)
{
    dlt_turn_check_stall(checker, attempt, now_ns);
    got_it = got_it && !checker->options->unordered;
    if (got_it && attempt->limit > 1)
        permits_check(checker, attempt, now_ns);
    else if (got_it)
        overtaking_check(checker, attempt, now_ns);
    if (attempt->waiting)
        name_of(checker, attempt)->waiting--;
    attempt->waiting = false;
}

void dlt_turn_retire(struct checker *checker, struct attempt *attempt)
{
    struct name *name = name_of(checker, attempt);

    if (!attempt->active)
        return;
    attempt->active = false;
    if (attempt->waiting)
        name->waiting--;
    attempt->waiting = false;
    if (attempt->prev != NULL)
        attempt->prev->next = attempt->next;
    else
        name->active = attempt->next;
    if (attempt->next != NULL)
        attempt->next->prev = attempt->prev;
}

/* It may have become a grant that nobody heard of: before that of who came later. */
void dlt_turn_place_gone(struct attempt *attempt)
{
    attempt->place_until = 0;
    if (attempt->passed != NULL && attempt->passed->pid != attempt->pid)
        attempt->passed = NULL;
}

void dlt_turn_moved(struct checker *checker, const struct attempt *attempt, int64_t now_ns)
{
    calm_from(name_of(checker, attempt), now_ns);
}

static void fault(struct name *name, int64_t now_ns)
{
    calm_from(name, now_ns);
    name->fault_ns = now_ns;
}

void dlt_turn_fault(struct checker *checker, uint32_t name_id, int64_t now_ns)
{
    if (name_id != DLT_ALL_NAMES) {
        fault(&checker->names[name_id], now_ns);
        return;
    }
    for (size_t i = 0; i < checker->name_count; i++)
        fault(&checker->names[i], now_ns);
}
