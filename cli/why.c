/* SPDX-License-Identifier: MIT */
#include "why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DURATION_SIZE 24

/* ---- finding ---- */

/* The locks that are reached from the first one by edges. */
static void links_find(struct why *why)
{
    const struct snapshot *snapshot = &why->snapshot;
    bool changed = why->first < snapshot->count;

    if (changed)
        why->is_linked[why->first] = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < snapshot->edge_count; i++)
            if (why->is_linked[snapshot->edges[i].lock] &&
                !why->is_linked[snapshot->edges[i].next]) {
                why->is_linked[snapshot->edges[i].next] = true;
                changed = true;
            }
    }
}

bool why_find(struct why *why, const struct cli_name *name)
{
    const struct snapshot *snapshot = &why->snapshot;
    struct deadlock_graph graph = {
        .locks = calloc(snapshot->count + 1, sizeof *graph.locks),
        .lock_count = snapshot->count,
        .edges = snapshot->edges,
        .edge_count = snapshot->edge_count,
    };

    why->first = snapshot_find(snapshot, 0, name);
    why->cycle = calloc(snapshot->edge_count + 1, sizeof *why->cycle);
    why->is_linked = calloc(snapshot->count + 1, sizeof *why->is_linked);
    if (graph.locks == NULL || why->cycle == NULL || why->is_linked == NULL) {
        free(graph.locks);
        return false;
    }
    for (size_t i = 0; i < snapshot->count; i++)
        graph.locks[i] = (struct deadlock_lock){
            .holders = snapshot->locks[i].holder_count,
            .is_semaphore = snapshot->locks[i].holders[0].limit > 0,
        };
    deadlock_find(&graph);
    why->length = deadlock_cycle(&graph, why->first, why->cycle);
    links_find(why);
    free(graph.locks);
    return true;
}

void why_fini(struct why *why)
{
    snapshot_fini(&why->snapshot);
    free(why->cycle);
    free(why->is_linked);
    *why = (struct why){0};
}

static const struct info *edge_holder(const struct why *why, size_t i)
{
    const struct deadlock_edge *edge = &why->snapshot.edges[why->cycle[i]];

    return &why->snapshot.locks[edge->lock].holders[edge->holder];
}

static const struct queue_waiter *edge_waiter(const struct why *why, size_t i)
{
    const struct deadlock_edge *edge = &why->snapshot.edges[why->cycle[i]];

    return &why->snapshot.locks[edge->next].queue.items[edge->waiter];
}

bool why_is_same_deadlock(const struct why *a, const struct why *b)
{
    if (a->length != b->length)
        return false;
    for (size_t i = 0; i < a->length; i++)
        if (strcmp(edge_holder(a, i)->owner, edge_holder(b, i)->owner) != 0 ||
            strcmp(edge_waiter(a, i)->owner, edge_waiter(b, i)->owner) != 0)
            return false;
    return true;
}

/* ---- text ---- */

/* " in URI", where there are several stores. */
static void lock_name_print(const struct why *why, size_t lock, const char *const *uris)
{
    const struct snapshot_lock *its = &why->snapshot.locks[lock];

    (void)printf("%s", cli_output_printable(its->holders[0].name, its->holders[0].name_len));
    if (why->snapshot.stores > 1)
        (void)printf(" in %s", uris[its->store]);
}

static void process_print(const struct process *process, const struct info *info)
{
    char left[DURATION_SIZE];

    info_duration(left, info->remaining_ms);
    if (process->pid == 0)
        return;
    if (process->state == PROCESS_ELSEWHERE || process->state == PROCESS_UNKNOWN)
        (void)printf("process    %ld of host %s; whether it runs cannot be seen from here\n",
                     process->pid, cli_output_printable(process->host, strlen(process->host)));
    else if (process->state == PROCESS_ENDED)
        (void)printf("process    %ld has ended; the lease ends by itself, in %s\n", process->pid,
                     left);
    else
        (void)printf("process    %ld (%s) %s on this host\n", process->pid,
                     cli_output_printable(process->program, strlen(process->program)),
                     process->state == PROCESS_STOPPED ? "is stopped" : "runs");
    if (process->command[0] != '\0')
        (void)printf("command    %s\n",
                     cli_output_printable(process->command, strlen(process->command)));
}

static void holder_print(const struct info *info, const struct process *process)
{
    const char *label = info->label[0] != '\0' ? info->label : info->owner;
    char held[DURATION_SIZE], left[DURATION_SIZE], until[DURATION_SIZE];

    info_duration(held, info->held_ms);
    info_duration(left, info->remaining_ms);
    if (info->kept) {
        info_time(until, info->remaining_ms);
        (void)printf("kept       until %s, ran on %s\n", until,
                     cli_output_printable(label, strlen(label)));
        return;
    }
    (void)printf("holder     %s, %s", cli_output_printable(label, strlen(label)), info_mode(info));
    if (info->limit > 0)
        (void)printf(", permit %u of %u", info->permit, info->limit);
    (void)printf(", held %s, %s left\n", held, left);
    if (info->data_len > 0)
        (void)printf("data       %s\n", info_data(info));
    process_print(process, info);
}

static void edges_print(const struct why *why, size_t lock, size_t holder, const char *const *uris)
{
    const struct snapshot *snapshot = &why->snapshot;

    for (size_t i = 0; i < snapshot->edge_count; i++) {
        const struct deadlock_edge *edge = &snapshot->edges[i];
        const struct process *process = &snapshot->locks[edge->next].waiters[edge->waiter];

        if (edge->lock != lock || edge->holder != holder)
            continue;
        (void)printf("waits for  ");
        lock_name_print(why, edge->next, uris);
        (void)printf(", as waiter %zu", edge->waiter);
        if (!process_is_same(&snapshot->locks[lock].processes[holder], process))
            (void)printf(", in its child %ld", process->pid);
        (void)printf("\n");
    }
}

static void lock_print(const struct why *why, size_t lock, const char *const *uris)
{
    const struct snapshot_lock *its = &why->snapshot.locks[lock];

    (void)printf("name       %s\n",
                 cli_output_printable(its->holders[0].name, its->holders[0].name_len));
    if (why->snapshot.stores > 1)
        (void)printf("store      %s\n", uris[its->store]);
    for (size_t i = 0; i < its->holder_count; i++) {
        holder_print(&its->holders[i], &its->processes[i]);
        edges_print(why, lock, i, uris);
    }
    queue_print(&its->queue);
    if (!its->has_queue)
        (void)printf("waiters    the store does not show them\n");
}

static void deadlock_print(const struct why *why, const char *const *uris)
{
    (void)printf("\nDEADLOCK   ");
    for (size_t i = 0; i < why->length; i++) {
        lock_name_print(why, why->snapshot.edges[why->cycle[i]].lock, uris);
        (void)printf(" -> ");
    }
    lock_name_print(why, why->snapshot.edges[why->cycle[0]].lock, uris);
    (void)printf(
        "\n           unless one of these processes holds and waits in different threads\n");
}

void why_print(const struct why *why, const struct cli_name *name, const char *const *uris)
{
    if (why->first == why->snapshot.count) {
        (void)printf("name       %s\nstate      free\n",
                     cli_output_printable(name->bytes, name->len));
        return;
    }
    lock_print(why, why->first, uris);
    for (size_t i = 0; i < why->snapshot.count; i++)
        if (why->is_linked[i] && i != why->first) {
            (void)printf("\n");
            lock_print(why, i, uris);
        }
    if (why->length > 0)
        deadlock_print(why, uris);
}

/* ---- JSON ---- */

static json_t *lock_name_json(const struct why *why, size_t lock, const char *const *uris)
{
    const struct snapshot_lock *its = &why->snapshot.locks[lock];
    json_t *root = cli_output_json_name(its->holders[0].name, its->holders[0].name_len);

    (void)json_object_set_new(root, "store", json_string(uris[its->store]));
    return root;
}

static json_t *process_json(const struct process *process)
{
    const bool known = process->pid > 0;

    return json_pack("{s:o, s:o, s:s, s:o, s:o}", "host", cli_output_json_text(process->host),
                     "pid", cli_output_json_number((uint64_t)process->pid, known), "state",
                     process_state_word(process->state), "program",
                     cli_output_json_text(process->program), "command",
                     cli_output_json_text(process->command));
}

/* What a holder waits for. */
static json_t *edges_json(const struct why *why, size_t lock, size_t holder,
                          const char *const *uris)
{
    const struct snapshot *snapshot = &why->snapshot;
    json_t *array = json_array();

    for (size_t i = 0; i < snapshot->edge_count; i++) {
        const struct deadlock_edge *edge = &snapshot->edges[i];
        json_t *object = NULL;

        if (edge->lock != lock || edge->holder != holder)
            continue;
        object = lock_name_json(why, edge->next, uris);
        (void)json_object_set_new(object, "position", json_integer((json_int_t)edge->waiter));
        (void)json_object_set_new(object, "process",
                                  process_json(&snapshot->locks[edge->next].waiters[edge->waiter]));
        (void)json_array_append_new(array, object);
    }
    return array;
}

static json_t *lock_json(const struct why *why, size_t lock, const char *const *uris)
{
    const struct snapshot_lock *its = &why->snapshot.locks[lock];
    json_t *root = lock_name_json(why, lock, uris);
    json_t *holders = json_array();

    for (size_t i = 0; i < its->holder_count; i++) {
        json_t *holder = info_json(&its->holders[i]);

        (void)json_object_set_new(holder, "process", process_json(&its->processes[i]));
        (void)json_object_set_new(holder, "waits_for", edges_json(why, lock, i, uris));
        (void)json_array_append_new(holders, holder);
    }
    (void)json_object_set_new(root, "holders", holders);
    (void)json_object_set_new(root, "queue",
                              its->has_queue ? queue_json(&its->queue) : json_null());
    return root;
}

json_t *why_json(const struct why *why, const struct cli_name *name, const char *const *uris)
{
    const bool held = why->first < why->snapshot.count;
    json_t *root = cli_output_json_name(name->bytes, name->len);
    json_t *locks = json_array();
    json_t *deadlock = json_array();

    if (held)
        (void)json_array_append_new(locks, lock_json(why, why->first, uris));
    for (size_t i = 0; i < why->snapshot.count; i++)
        if (why->is_linked[i] && i != why->first)
            (void)json_array_append_new(locks, lock_json(why, i, uris));
    for (size_t i = 0; i < why->length; i++)
        (void)json_array_append_new(
            deadlock, lock_name_json(why, why->snapshot.edges[why->cycle[i]].lock, uris));
    (void)json_object_set_new(root, "held", json_boolean(held));
    (void)json_object_set_new(root, "locks", locks);
    (void)json_object_set_new(root, "deadlock", deadlock);
    return root;
}
