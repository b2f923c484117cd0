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

/* The first one of the nodes that are ours, and the first writer. Without one: behind all others.
 */
static void firsts_find(struct contender *mine, struct contender *writer,
                        const struct String_vector *children, const char *own, const char *token)
{
    struct contender contender;

    *mine = (struct contender){.order = LAST};
    *writer = *mine;
    for (int32_t i = 0; i < children->count; i++) {
        if (!contender_read(&contender, children, i))
            continue;
        if (is_own(&contender, own, token) && is_before(&contender, mine))
            *mine = contender;
        if (!contender.node.shared && is_before(&contender, writer))
            *writer = contender;
    }
}

void zk_queue_judge(struct zk_standing *standing, const struct String_vector *children,
                    const char *own, const char *token, bool shared)
{
    struct contender mine, writer, contender, predecessor = {.name = NULL};

    firsts_find(&mine, &writer, children, own, token);
    *standing = (struct zk_standing){.own = mine.name};
    for (int32_t i = 0; i < children->count; i++) {
        if (!contender_read(&contender, children, i))
            continue;
        standing->contenders++;
        if (contender.node.sequence < 0 || contender.node.sequence >= ZK_SEQUENCE_END)
            standing->exhausted = true;
        if (contender.node.shared && is_before(&contender, &writer))
            standing->shared_first++;
        if (!is_before(&contender, &mine))
            continue;
        standing->before++;
        if (shared && contender.node.shared)
            continue;
        if (predecessor.name == NULL || is_before(&predecessor, &contender))
            predecessor = contender;
    }
    standing->predecessor = predecessor.name;
    standing->holds = mine.name != NULL && predecessor.name == NULL;
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

uint32_t zk_queue_holders(const struct String_vector *children,
                          void (*fn)(void *arg, const char *name, const struct zk_node *node),
                          void *arg)
{
    struct zk_standing standing;
    struct contender next, last = {.name = NULL};
    uint32_t holders = 0;

    zk_queue_judge(&standing, children, "", NULL, false);
    while ((holders == 0 || holders < standing.shared_first) && next_find(&next, children, &last)) {
        fn(arg, next.name, &next.node);
        last = next;
        holders++;
    }
    return standing.contenders - holders;
}

static int contender_compare(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : is_before(b, a);
}

bool zk_queue_waiters(const struct String_vector *children, struct zk_queue_waiter **waiters,
                      size_t *count)
{
    struct contender *all = calloc((size_t)children->count + 1, sizeof *all);
    struct zk_standing standing;
    size_t n = 0, holders = 1;

    *count = 0;
    *waiters = calloc((size_t)children->count + 1, sizeof **waiters);
    for (int32_t i = 0; all != NULL && i < children->count; i++)
        n += contender_read(&all[n], children, i);
    if (all == NULL || *waiters == NULL) {
        free(all);
        return false;
    }
    qsort(all, n, sizeof *all, contender_compare);
    zk_queue_judge(&standing, children, "", NULL, false);
    if (standing.shared_first > 0)
        holders = standing.shared_first;
    for (size_t i = holders; i < n; i++)
        (*waiters)[(*count)++] =
            (struct zk_queue_waiter){.child = all[i].name, .node = all[i].node};
    free(all);
    return true;
}
