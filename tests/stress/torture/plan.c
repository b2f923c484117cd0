/* SPDX-License-Identifier: MIT */
#include "plan.h"
#include "chance.h"

#include <inttypes.h>
#include <stdlib.h>

#define FIRST_MS 300 /* clients begin in peace */

struct trait {
    const char *name, *text;
    enum fault_subject subject;
    unsigned shortest, longest;
};

#define FAULT_TRAIT(name, text, subject, shortest, longest) \
    {#name, text, FAULT_OF_##subject, shortest, longest},
static const struct trait traits[FAULT_KINDS] = {FAULT_MAP(FAULT_TRAIT)};
#undef FAULT_TRAIT

const char *fault_name(enum fault_kind kind)
{
    return traits[kind].name;
}

const char *fault_text(enum fault_kind kind)
{
    return traits[kind].text;
}

static enum fault_kind kind_choose(struct chance *chance, uint32_t kinds)
{
    unsigned place = (unsigned)chance_below(chance, (uint64_t)__builtin_popcount(kinds));

    for (unsigned kind = 0; kind < FAULT_KINDS; kind++)
        if ((kinds >> kind & 1) != 0 && place-- == 0)
            return (enum fault_kind)kind;
    return FAULT_CPU_BURST;
}

static int64_t end_of(const struct fault *fault)
{
    return fault->start_ms + fault->length_ms;
}

bool fault_excludes(const struct fault *fault, const struct fault *other)
{
    enum fault_subject subject = traits[fault->kind].subject;

    return subject == traits[other->kind].subject &&
           (subject == FAULT_OF_SERVER || fault->client == other->client);
}

/* When the fault may begin as far as those before it are concerned. */
static int64_t room_ms(const struct plan *plan, const struct fault *fault)
{
    int64_t latest = 0;

    for (size_t i = 0; i < plan->count; i++) {
        const struct fault *other = &plan->faults[i];

        if (fault_excludes(fault, other) && end_of(other) >= latest)
            latest = end_of(other) + 1;
    }
    return latest;
}

/* Of the faults so far, the moment from which on at most one is in force. */
static int64_t one_left_ms(const struct plan *plan)
{
    int64_t latest = 0, second = 0;

    for (size_t i = 0; i < plan->count; i++) {
        int64_t end = end_of(&plan->faults[i]) + 1;

        if (end > latest) {
            second = latest;
            latest = end;
        } else if (end > second) {
            second = end;
        }
    }
    return second;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct fault fault_choose(struct chance *chance, const struct plan_terms *terms)
{
    bool often = terms->often != 0 && chance_below(chance, 2) == 0;
    struct fault fault = {.kind = kind_choose(chance, often ? terms->often : terms->kinds)};
    const struct trait *trait = &traits[fault.kind];

    fault.client = (unsigned)chance_below(chance, terms->clients);
    fault.node = (unsigned)chance_below(chance, terms->nodes + (terms->nodes > 1));
    if (trait->subject == FAULT_OF_SERVER && fault.node == terms->nodes)
        fault.node = 0;
    fault.length_ms = chance_between(chance, trait->shortest * terms->lease_ms / 10,
                                     trait->longest * terms->lease_ms / 10);
    fault.variant = (uint32_t)chance_next(chance);
    return fault;
}

static struct fault *fault_add(struct plan *plan)
{
    struct fault *faults = plan->faults;

    if ((plan->count & (plan->count - 1)) == 0)
        faults = realloc(faults, (plan->count == 0 ? 1 : plan->count * 2) * sizeof *faults);
    if (faults == NULL)
        return NULL;
    plan->faults = faults;
    return &plan->faults[plan->count++];
}

bool plan_make(const struct plan_terms *terms, struct plan *plan)
{
    struct chance chance = chance_of(terms->seed);
    int64_t now_ms = FIRST_MS;

    *plan = (struct plan){0};
    while (terms->kinds != 0) {
        struct fault fault = fault_choose(&chance, terms), *place;

        now_ms = later(now_ms, later(room_ms(plan, &fault), one_left_ms(plan)));
        if (now_ms >= terms->duration_ms)
            break;
        fault.start_ms = now_ms;
        if (end_of(&fault) > terms->duration_ms)
            fault.length_ms = terms->duration_ms - now_ms;
        place = fault_add(plan);
        if (place == NULL) {
            plan_fini(plan);
            return false;
        }
        *place = fault;
        now_ms += chance_between(&chance, 50, 50 + terms->lease_ms * 6 / 10);
        if (chance_below(&chance, 10) < 2) /* time to recover in */
            now_ms = later(now_ms, end_of(&fault)) + terms->lease_ms;
    }
    return true;
}

void plan_fini(struct plan *plan)
{
    free(plan->faults);
    *plan = (struct plan){0};
}

void plan_print(FILE *out, const struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct fault *fault = &plan->faults[i];

        (void)fprintf(out,
                      "%7" PRId64 " ms %5" PRId64 " ms %-14s client %u node %u %08" PRIx32 "\n",
                      fault->start_ms, fault->length_ms, fault_name(fault->kind), fault->client,
                      fault->node, fault->variant);
    }
}
