/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

#define LAST INT64_MAX

struct contender {
    const char *name;
    struct zk_node node;
    int64_t order;
};

/* A sequence that ran over comes after all others. */
static bool contender_read(struct contender *contender, const struct String_vector *children,
                           int32_t i)
{
    contender->name = children->data[i];
    if (!zk_node_parse(&contender->node, contender->name))
        return false;
    contender->order = contender->node.sequence;
    if (contender->order < 0)
        contender->order += INT64_C(1) << 32;
    return true;
}

/* The server gives no sequence twice below one parent; names that somebody made by hand may have
 * equal ones. */
static bool is_before(const struct contender *a, const struct contender *b)
{
    if (a->order != b->order)
        return a->order < b->order;
    return a->name != NULL && b->name != NULL && strcmp(a->name, b->name) < 0;
}

static bool is_own(const struct contender *contender, const char *own, const char *token)
{
    return own != NULL ? strcmp(contender->name, own) == 0 : zk_node_is(&contender->node, token);
}

/* Without one: behind all others. */
struct firsts {
    struct contender all, mine, writer; /* the first one of them */
};

static void firsts_find(struct firsts *firsts, const struct String_vector *children,
                        const char *own, const char *token)
{
    struct contender contender;

    firsts->mine = (struct contender){.order = LAST, .node.limit = 1};
    firsts->all = firsts->writer = firsts->mine;
    for (int32_t i = 0; i < children->count; i++) {
        if (!contender_read(&contender, children, i))
            continue;
        if (is_before(&contender, &firsts->all))
            firsts->all = contender;
        if (is_own(&contender, own, token) && is_before(&contender, &firsts->mine))
            firsts->mine = contender;
        if (!contender.node.shared && is_before(&contender, &firsts->writer))
            firsts->writer = contender;
    }
}

void zk_queue_judge(struct zk_position *position, const struct String_vector *children,
                    const char *own, const char *token, bool shared)
{
    struct contender contender, predecessor = {.name = NULL}, other = {.name = NULL};
    struct firsts firsts;

    firsts_find(&firsts, children, own, token);
    *position = (struct zk_position){.own = firsts.mine.name, .limit = firsts.mine.node.limit};
    if (firsts.mine.name != NULL && firsts.all.node.limit != position->limit)
        position->other_limit = firsts.all.node.limit;
    for (int32_t i = 0; i < children->count; i++) {
        if (!contender_read(&contender, children, i))
            continue;
        position->contenders++;
        if (contender.node.sequence < 0 || contender.node.sequence >= ZK_SEQUENCE_END)
            position->exhausted = true;
        if (contender.node.shared && is_before(&contender, &firsts.writer))
            position->shared_first++;
        if (!is_before(&contender, &firsts.mine))
            continue;
        position->before++;
        if (contender.node.limit != position->limit &&
            (other.name == NULL || is_before(&other, &contender)))
            other = contender;
        if (shared && contender.node.shared)
            continue;
        if (predecessor.name == NULL || is_before(&predecessor, &contender))
            predecessor = contender;
    }
    position->predecessor = predecessor.name;
    if (position->limit > 1 && other.name != NULL)
        position->predecessor = other.name;
    position->holds = firsts.mine.name != NULL &&
                      (predecessor.name == NULL || (position->limit > 1 && other.name == NULL &&
                                                    position->before < position->limit));
}

/* The first contender behind `last`. */
static bool next_find(struct contender *next, const struct String_vector *children,
                      const struct contender *last)
{
    struct contender contender;

    next->name = NULL;
    for (int32_t i = 0; i < children->count; i++)
        if (contender_read(&contender, children, i) &&
            (last->name == NULL || is_before(last, &contender)) &&
            (next->name == NULL || is_before(&contender, next)))
            *next = contender;
    return next->name != NULL;
}

/* next: it comes behind `holders` holders, of which `last` is the last one. */
static bool is_holder(const struct zk_position *position, const struct contender *last,
                      const struct contender *next, uint32_t holders)
{
    if (holders == 0)
        return true;
    return next->node.limit > 1 ? next->node.limit == last->node.limit && holders < next->node.limit
                                : holders < position->shared_first;
}

uint32_t zk_queue_holders(const struct String_vector *children,
                          void (*fn)(void *arg, const char *name, const struct zk_node *node),
                          void *arg)
{
    struct zk_position position;
    struct contender next, last = {.name = NULL};
    uint32_t holders = 0;

    zk_queue_judge(&position, children, "", NULL, false);
    while (next_find(&next, children, &last) && is_holder(&position, &last, &next, holders)) {
        fn(arg, next.name, &next.node);
        last = next;
        holders++;
    }
    return position.contenders - holders;
}

static int contender_compare(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : is_before(b, a);
}

/* All contenders, in order; malloced; NULL: no memory. */
static struct contender *sorted(const struct String_vector *children, size_t *count)
{
    struct contender *all = calloc((size_t)children->count + 1, sizeof *all);

    *count = 0;
    for (int32_t i = 0; all != NULL && i < children->count; i++)
        *count += contender_read(&all[*count], children, i);
    if (all != NULL)
        qsort(all, *count, sizeof *all, contender_compare);
    return all;
}

bool zk_queue_before(const struct String_vector *children, const char *own, const char ***names,
                     size_t *count)
{
    size_t n = 0;
    struct contender *all = sorted(children, &n);
    bool made = false;

    *count = 0;
    *names = calloc(n + 1, sizeof **names);
    for (size_t i = 0; all != NULL && *names != NULL && i < n && strcmp(all[i].name, own) != 0; i++)
        (*names)[(*count)++] = all[i].name;
    made = all != NULL && *names != NULL;
    free(all);
    return made;
}

bool zk_queue_waiters(const struct String_vector *children, struct zk_queue_waiter **waiters,
                      size_t *count)
{
    size_t n = 0;
    struct contender *all = sorted(children, &n);
    struct zk_position position;
    uint32_t holders = 0;

    *count = 0;
    *waiters = calloc((size_t)children->count + 1, sizeof **waiters);
    if (all == NULL || *waiters == NULL) {
        free(all);
        return false;
    }
    zk_queue_judge(&position, children, "", NULL, false);
    while (holders < n &&
           is_holder(&position, holders > 0 ? &all[holders - 1] : NULL, &all[holders], holders))
        holders++;
    for (size_t i = n > 0 && all[0].node.limit > 1 ? 0 : holders; i < n; i++)
        (*waiters)[(*count)++] = (struct zk_queue_waiter){
            .child = all[i].name, .node = all[i].node, .may_hold = i < holders};
    free(all);
    return true;
}
