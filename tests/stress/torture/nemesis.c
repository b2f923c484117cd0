/* SPDX-License-Identifier: MIT */
#include "nemesis.h"

#include <poll.h>

#define TICK_MS    100
#define AGAIN_MS   10
#define UNREADY_MS 8000 /* as long a store may take until a master can be replaced */
#define CHOOSE_MS \
    60000 /* as long servers may take in all to choose a leader after the last fault */

static int64_t elapsed_ms(const struct nemesis *nemesis)
{
    return (dlt_log_now_ns() - nemesis->start_ns) / 1000000;
}

/* Faults concern all names: who knows which one a message was about. In force: nothing new, but it
 * is not over. */
static void note(struct nemesis *nemesis, bool in_force)
{
    dlt_log_write(nemesis->crew->log, &(struct dlt_record){.event = DLT_NEMESIS_FAULT,
                                                           .pid = -1,
                                                           .status = in_force,
                                                           .name_id = DLT_ALL_NAMES});
}

static void begin(struct nemesis *nemesis, const struct fault *fault)
{
    for (size_t i = 0; i < ACTIVE_MOST; i++) {
        struct active *active = &nemesis->active[i];

        if (active->fault != NULL)
            continue;
        *active = (struct active){.fault = fault, .began_ms = elapsed_ms(nemesis)};
        nemesis->tried[fault->kind]++;
        note(nemesis, false);
        fault_begin(nemesis, active);
        note(nemesis, false);
        return;
    }
}

static int64_t end_ms(const struct active *active)
{
    return active->began_ms + active->fault->length_ms + active->later_ms;
}

static void end(struct nemesis *nemesis, struct active *active)
{
    note(nemesis, false);
    if (!fault_end(nemesis, active)) {
        active->later_ms += elapsed_ms(nemesis) + AGAIN_MS - end_ms(active);
        return;
    }
    note(nemesis, false);
    nemesis->effective[active->fault->kind] += active->effective;
    active->fault = NULL;
}

/* The fault in force that ends first; NULL: there is none. */
static struct active *next_to_end(struct nemesis *nemesis)
{
    struct active *first = NULL;

    for (size_t i = 0; i < ACTIVE_MOST; i++) {
        struct active *active = &nemesis->active[i];

        if (active->fault != NULL && (first == NULL || end_ms(active) < end_ms(first)))
            first = active;
    }
    return first;
}

static bool over(const struct nemesis *nemesis, const volatile int *interrupted)
{
    return *interrupted || nemesis->broken ||
           (nemesis->until_seen && atomic_load(&nemesis->crew->shared->witness_count) > 0);
}

/* Sleeps, and notes how much longer that took. */
static void doze(struct nemesis *nemesis, int64_t ms)
{
    int64_t before_ms = elapsed_ms(nemesis), late_ms;

    (void)poll(NULL, 0, (int)ms);
    late_ms = elapsed_ms(nemesis) - before_ms - ms;
    if (late_ms > nemesis->starved_ms)
        nemesis->starved_ms = late_ms;
}

/* After a fault the servers of an ensemble serve nobody until they have chosen a leader again. What
 * they need for that, no client can help: it counts as if the fault were still in force. */
static void choice_note(struct nemesis *nemesis, int64_t since_ms)
{
    if (next_to_end(nemesis) == NULL && !store_serves(nemesis->store))
        nemesis->unserved_ms += elapsed_ms(nemesis) - since_ms;
    else if (next_to_end(nemesis) == NULL)
        return;
    note(nemesis, true);
}

static void wait_until(struct nemesis *nemesis, int64_t at_ms, const volatile int *interrupted)
{
    for (int64_t left_ms = at_ms - elapsed_ms(nemesis); left_ms > 0 && !over(nemesis, interrupted);
         left_ms = at_ms - elapsed_ms(nemesis)) {
        int64_t since_ms = elapsed_ms(nemesis);

        doze(nemesis, left_ms < TICK_MS ? left_ms : TICK_MS);
        choice_note(nemesis, since_ms);
        crew_look(nemesis->crew);
        if (nemesis->progress != NULL)
            nemesis->progress(nemesis->arg);
    }
}

bool nemesis_may_begin(const struct nemesis *nemesis, const struct fault *fault)
{
    for (size_t i = 0; i < ACTIVE_MOST; i++)
        if (nemesis->active[i].fault != NULL && fault_excludes(nemesis->active[i].fault, fault))
            return false;
    return true;
}

/* A master without a replica would not be replaced: a failover waits for one, but not for ever. */
static bool is_ready(struct nemesis *nemesis, const struct fault *fault)
{
    int64_t now_ms = elapsed_ms(nemesis);

    if (fault->kind != FAULT_FAILOVER)
        return true;
    if (nemesis->unready_ms == 0)
        nemesis->unready_ms = now_ms;
    if (now_ms - nemesis->unready_ms < UNREADY_MS && !store_ready(nemesis->store, fault->variant))
        return false;
    nemesis->unready_ms = 0;
    return true;
}

/* The next fault, if it comes before the end of the one that ends first. */
static const struct fault *next_to_begin(const struct nemesis *nemesis, const struct fault *fault,
                                         const struct active *ending)
{
    bool first =
        ending == NULL || (nemesis_may_begin(nemesis, fault) && fault->start_ms <= end_ms(ending));

    return first ? fault : NULL;
}

void nemesis_run(struct nemesis *nemesis, const struct plan *plan, const volatile int *interrupted)
{
    size_t next = 0;

    for (;;) {
        struct active *ending = next_to_end(nemesis);
        bool more = next < plan->count && !over(nemesis, interrupted);
        const struct fault *fault =
            more ? next_to_begin(nemesis, &plan->faults[next], ending) : NULL;

        if (ending == NULL && !more)
            return;
        if (fault != NULL)
            wait_until(nemesis, fault->start_ms, interrupted);
        if (fault != NULL && is_ready(nemesis, fault)) {
            begin(nemesis, fault);
            next++;
        } else if (ending != NULL && (fault == NULL || end_ms(ending) <= elapsed_ms(nemesis))) {
            wait_until(nemesis, end_ms(ending), interrupted);
            end(nemesis, ending);
        } else {
            wait_until(nemesis, elapsed_ms(nemesis) + TICK_MS, interrupted);
        }
    }
}

void nemesis_rest(struct nemesis *nemesis, int64_t ms, const volatile int *interrupted)
{
    int64_t last_ms = elapsed_ms(nemesis) + ms + CHOOSE_MS, unserved_ms = nemesis->unserved_ms;
    int64_t end_ms = elapsed_ms(nemesis) + ms;

    nemesis->until_seen = false;
    while (elapsed_ms(nemesis) < end_ms && !over(nemesis, interrupted)) {
        wait_until(nemesis, elapsed_ms(nemesis) + TICK_MS, interrupted);
        if (nemesis->unserved_ms > unserved_ms)
            end_ms = elapsed_ms(nemesis) + ms;
        unserved_ms = nemesis->unserved_ms;
        nemesis->broken |= end_ms > last_ms;
    }
}
