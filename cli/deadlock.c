/* SPDX-License-Identifier: MIT */
#include "deadlock.h"

/* An edge of this holder of a lock that leads to a stuck lock; edge_count: there is none. */
static size_t edge_of(const struct deadlock_graph *graph, size_t lock, size_t holder)
{
    size_t i = 0;

    while (i < graph->edge_count &&
           !(graph->edges[i].lock == lock && graph->edges[i].holder == holder &&
             graph->locks[graph->edges[i].next].is_stuck))
        i++;
    return i;
}

static bool is_kept_out(const struct deadlock_graph *graph, size_t lock)
{
    const struct deadlock_lock *its = &graph->locks[lock];
    size_t blocked = 0;

    for (size_t holder = 0; holder < its->holders; holder++)
        blocked += edge_of(graph, lock, holder) < graph->edge_count;
    return its->is_semaphore ? its->holders > 0 && blocked == its->holders : blocked > 0;
}

/* First all locks are marked as stuck. Then each lock that can become free loses its mark, until no
 * mark changes. */
void deadlock_find(struct deadlock_graph *graph)
{
    bool changed = true;

    for (size_t i = 0; i < graph->lock_count; i++)
        graph->locks[i].is_stuck = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < graph->lock_count; i++)
            if (graph->locks[i].is_stuck && !is_kept_out(graph, i)) {
                graph->locks[i].is_stuck = false;
                changed = true;
            }
    }
}

static size_t edge_from(const struct deadlock_graph *graph, size_t lock)
{
    size_t edge = graph->edge_count;

    for (size_t holder = 0; holder < graph->locks[lock].holders && edge == graph->edge_count;
         holder++)
        edge = edge_of(graph, lock, holder);
    return edge;
}

/* Each stuck lock has an edge to a stuck lock, so that a path meets itself. */
size_t deadlock_cycle(const struct deadlock_graph *graph, size_t from, size_t *cycle)
{
    size_t count = 0;

    if (from >= graph->lock_count || !graph->locks[from].is_stuck)
        return 0;
    for (size_t lock = from;;) {
        size_t first = 0;

        while (first < count && graph->edges[cycle[first]].lock != lock)
            first++;
        if (first < count) {
            for (size_t i = first; i < count; i++)
                cycle[i - first] = cycle[i];
            return count - first;
        }
        cycle[count] = edge_from(graph, lock);
        lock = graph->edges[cycle[count++]].next;
    }
}
