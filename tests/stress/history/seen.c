/* SPDX-License-Identifier: MIT */
/*
 * Two things are known of a holder that was shown. If the whole call of inspect lay in an exclusive
 * claim, that claim was the only one there (C1). And no other exclusive holder has its fence (C6).
 */
#include "checker.h"

#include <stdlib.h>

/* The claims with fences, by name and fence. */
struct grants {
    const struct attempt **attempts;
    size_t count;
};

static int by_grant(const void *left, const void *right)
{
    const struct attempt *a = *(const struct attempt *const *)left;
    const struct attempt *b = *(const struct attempt *const *)right;

    if (a->name_id != b->name_id)
        return a->name_id < b->name_id ? -1 : 1;
    if (a->fence != b->fence)
        return a->fence < b->fence ? -1 : 1;
    return 0;
}

static bool grants_make(const struct checker *checker, struct grants *grants)
{
    grants->count = 0;
    grants->attempts = calloc(checker->attempt_count + 1, sizeof(const struct attempt *));
    if (grants->attempts == NULL)
        return false;
    for (size_t i = 0; i < checker->attempt_count; i++)
        if (checker->attempts[i].fence != 0 && checker->attempts[i].mode == 0)
            grants->attempts[grants->count++] = &checker->attempts[i];
    qsort(grants->attempts, grants->count, sizeof(const struct attempt *), by_grant);
    return true;
}

/* Who has that fence, in exclusive mode; NULL: not known. */
static const struct attempt *by_fence(const struct grants *grants, const struct dlt_record *seen)
{
    const struct attempt key = {.name_id = seen->name_id, .fence = seen->fence};
    const struct attempt *const wanted = &key;
    const struct attempt *const *found = NULL;

    if (seen->fence != 0 && seen->mode == 0)
        found = bsearch(&wanted, grants->attempts, grants->count, sizeof wanted, by_grant);
    return found != NULL ? *found : NULL;
}

/* The last part of a claim of the name that began at ns or before. */
static const struct segment *last_begun(const struct checker *checker, uint32_t name, int64_t ns)
{
    size_t low = 0, high = checker->segment_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct segment *segment = &checker->segments[middle];

        if (segment->name_id < name || (segment->name_id == name && segment->start_ns <= ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && checker->segments[low - 1].name_id == name ? &checker->segments[low - 1]
                                                                 : NULL;
}

/* Whose exclusive claim lasted during the whole call; NULL: nobody's, as far as is known. */
static const struct attempt *by_time(const struct checker *checker, const struct dlt_record *seen)
{
    const struct segment *segment = last_begun(checker, seen->name_id, seen->until_ns);

    if (segment == NULL || segment->mode != 0 || segment->attempt->limit > 1 ||
        segment->end_ns < seen->clock_ns)
        return NULL;
    return segment->attempt;
}

void dlt_seen_check(struct checker *checker, const struct dlt_history *history)
{
    struct grants grants;

    if (!checker->options->kept)
        return;
    if (!grants_make(checker, &grants)) {
        checker->no_memory = true;
        return;
    }
    for (size_t i = 0; i < history->count; i++) {
        const struct dlt_record *r = &history->records[i];
        const struct attempt *holder = NULL;

        if (r->event != DLT_SEEN)
            continue;
        holder = by_time(checker, r);
        if (holder == NULL)
            holder = by_fence(&grants, r);
        if (holder == NULL)
            continue;
        checker->figures->seen++;
        checker->figures->seen_data += holder->data != 0;
        if (holder->data != r->data)
            dlt_checker_report(checker, DLT_RULE_DATA, holder, NULL, r->clock_ns);
    }
    free(grants.attempts);
}
