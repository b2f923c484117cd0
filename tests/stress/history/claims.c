/* SPDX-License-Identifier: MIT */
#include "checker.h"

#include <stdlib.h>

void dlt_claim_open(struct attempt *attempt, uint8_t mode, int64_t now_ns)
{
    attempt->held = true;
    attempt->mode = mode;
    attempt->claim_ns = now_ns;
}

static struct segment *segment_add(struct checker *checker)
{
    if (checker->segment_count == checker->segment_room) {
        size_t room = checker->segment_room == 0 ? 1024 : checker->segment_room * 2;
        struct segment *segments = realloc(checker->segments, room * sizeof *segments);

        if (segments == NULL) {
            checker->no_memory = true;
            return NULL;
        }
        checker->segments = segments;
        checker->segment_room = room;
    }
    return &checker->segments[checker->segment_count++];
}

void dlt_claim_close(struct checker *checker, struct attempt *attempt, int64_t now_ns)
{
    struct segment *segment;

    if (!attempt->held)
        return;
    attempt->held = false;
    attempt->end_ns = now_ns < attempt->until_ns ? now_ns : attempt->until_ns;
    if (attempt->end_ns <= attempt->claim_ns)
        return;
    segment = segment_add(checker);
    if (segment != NULL)
        *segment = (struct segment){.start_ns = attempt->claim_ns,
                                    .end_ns = attempt->end_ns,
                                    .attempt = attempt,
                                    .name_id = attempt->name_id,
                                    .mode = attempt->mode};
}

static int by_name_and_start(const void *left, const void *right)
{
    const struct segment *a = left, *b = right;

    if (a->name_id != b->name_id)
        return a->name_id < b->name_id ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->attempt->id != b->attempt->id)
        return a->attempt->id < b->attempt->id ? -1 : 1;
    return 0;
}

#define PERMITS_MOST 64 /* of a semaphore in a history */

/* The parts seen so far of one name that matter to those to come. */
struct sweep {
    const struct segment *last[2];               /* of each mode the one that ends last */
    uint64_t fence;                              /* the greatest of an exclusive claim */
    const struct attempt *fenced;                /* whose */
    const struct segment *permits[PERMITS_MOST]; /* of each the one that ends last */
    const struct segment *kept[PERMITS_MOST];    /* of each the one that is kept longest */
};

static bool is_semaphore(const struct segment *segment)
{
    return segment->attempt->limit > 1;
}

/* C21: the fence is no other permit's, and rises along one permit. */
static void permit_fence_compare(struct checker *checker, const struct sweep *sweep,
                                 const struct segment *segment)
{
    const struct attempt *attempt = segment->attempt;

    for (uint32_t i = 0; attempt->fence != 0 && i < PERMITS_MOST; i++) {
        const struct attempt *other = sweep->permits[i] != NULL ? sweep->permits[i]->attempt : NULL;

        if (other == NULL || other == attempt || other->fence < attempt->fence ||
            (i != attempt->permit && other->fence != attempt->fence))
            continue;
        dlt_checker_report(checker, DLT_RULE_FENCE, attempt, other, segment->start_ns);
        return;
    }
}

/* Permits that differ and are below the limit are no more than the limit. */
static void permit_compare(struct checker *checker, struct sweep *sweep,
                           const struct segment *segment)
{
    const struct attempt *attempt = segment->attempt;
    const struct segment **last = &sweep->permits[attempt->permit % PERMITS_MOST];

    if (attempt->permit >= attempt->limit || attempt->permit >= PERMITS_MOST)
        dlt_checker_report(checker, DLT_RULE_PERMIT, attempt, NULL, segment->start_ns);
    else if (*last != NULL && (*last)->attempt != attempt && (*last)->end_ns > segment->start_ns)
        dlt_checker_report(checker, DLT_RULE_PERMIT, attempt, (*last)->attempt, segment->start_ns);
    if (*last == NULL || segment->end_ns > (*last)->end_ns)
        *last = segment;
}

static void compare(struct checker *checker, const struct segment *before,
                    const struct segment *segment)
{
    int64_t gap_ns;

    if (before == NULL || before->attempt == segment->attempt ||
        (is_semaphore(segment) && before->attempt->limit == segment->attempt->limit))
        return;
    gap_ns = segment->start_ns - before->end_ns;
    if (gap_ns < 0)
        dlt_checker_report(checker, DLT_RULE_OVERLAP, segment->attempt, before->attempt,
                           segment->start_ns);
    else if (gap_ns < checker->figures->smallest_gap_ns)
        checker->figures->smallest_gap_ns = gap_ns;
}

static void fence_compare(struct checker *checker, struct sweep *sweep,
                          const struct segment *segment)
{
    const struct attempt *attempt = segment->attempt;

    if (segment->mode != 0 || is_semaphore(segment) || attempt->fence == 0 ||
        attempt == sweep->fenced)
        return;
    if (attempt->fence <= sweep->fence)
        dlt_checker_report(checker, DLT_RULE_FENCE, attempt, sweep->fenced, segment->start_ns);
    else
        sweep->fence = attempt->fence;
    sweep->fenced = attempt;
}

static void kept_compare(struct checker *checker, struct sweep *sweep,
                         const struct segment *segment)
{
    const struct segment **kept = &sweep->kept[segment->attempt->permit % PERMITS_MOST];

    dlt_keep_compare(checker, *kept, segment);
    if (segment->attempt->keeps_until_ns != 0 &&
        (*kept == NULL || segment->attempt->keeps_until_ns > (*kept)->attempt->keeps_until_ns))
        *kept = segment;
}

void dlt_claims_sweep(struct checker *checker)
{
    struct sweep sweep = {0};

    if (checker->segment_count > 0)
        qsort(checker->segments, checker->segment_count, sizeof *checker->segments,
              by_name_and_start);
    for (size_t i = 0; i < checker->segment_count; i++) {
        const struct segment *segment = &checker->segments[i];
        const struct segment **last = &sweep.last[segment->mode != 0];

        if (i > 0 && segment->name_id != segment[-1].name_id) {
            sweep = (struct sweep){0};
            last = &sweep.last[segment->mode != 0];
        }
        compare(checker, sweep.last[0], segment);
        if (segment->mode == 0)
            compare(checker, sweep.last[1], segment);
        fence_compare(checker, &sweep, segment);
        kept_compare(checker, &sweep, segment);
        if (is_semaphore(segment)) {
            permit_fence_compare(checker, &sweep, segment);
            permit_compare(checker, &sweep, segment);
        }
        if (*last == NULL || segment->end_ns > (*last)->end_ns)
            *last = segment;
    }
}
