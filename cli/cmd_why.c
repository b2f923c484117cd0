/* SPDX-License-Identifier: MIT */
#include "client.h"
#include "exitcode.h"
#include "lib/time.h"
#include "snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Why a name cannot be had: its holders, what they wait for, and so on; and whether that ends where
 * it began. */
struct why {
    struct snapshot snapshot;
    size_t first;    /* the lock that was asked for; snapshot.count: it is free */
    size_t *cycle;   /* edges of the snapshot: a deadlock that keeps the lock; malloced */
    size_t length;   /* 0: there is none */
    bool *is_linked; /* the lock, or a lock that its holders wait for; malloced */
};

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

/* Finds the deadlock and the links in a snapshot. False: no memory. Always: why_fini. */
static bool why_find(struct why *why, const struct cli_name *name)
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

static void why_fini(struct why *why)
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

/* True: the same holders wait for each other in both. */
static bool why_is_same_deadlock(const struct why *a, const struct why *b)
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

/* uris: of the stores, to be shown if there are several. */
static void why_print(const struct why *why, const struct cli_name *name, const char *const *uris)
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

/* Caller frees. */
static json_t *why_json(const struct why *why, const struct cli_name *name, const char *const *uris)
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

/* dlock why: why a name cannot be had, in one store or over several. */

#define STORES_MOST 8
/* What one snapshot shows may be the hand-over of two busy programs; a deadlock stays. */
#define SNAPSHOTS_MOST 5
#define PAUSE_MS       300

static const struct option why_options[] = {
    {"also", required_argument, NULL, CLI_OPTION_OWN},
    {NULL, 0, NULL, 0},
};

struct asking {
    struct cli_name name;
    const char *uris[STORES_MOST]; /* as given; the first one is that of the global options */
    char *secrets[STORES_MOST];
    struct dlock_client *clients[STORES_MOST];
    const char *shown[STORES_MOST]; /* without secrets */
    size_t stores;
};

static void asking_fini(struct asking *asking)
{
    for (size_t i = 0; i < asking->stores; i++) {
        dlock_client_close(asking->clients[i]);
        cli_args_uri_free(asking->secrets[i]);
    }
}

/* -1: go on; else the exit code. */
static int asking_read(struct cli *cli, int argc, char **argv, struct asking *asking)
{
    int exit_code;
    int option;

    asking->stores = 1;
    while ((option = cli_args_next(cli, argc, argv, why_options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (asking->stores == STORES_MOST)
            return cli_args_usage(cli, "why: more than %d stores", STORES_MOST);
        asking->uris[asking->stores] = cli_args_uri(optarg, &asking->secrets[asking->stores]);
        asking->stores++;
    }
    return cli_args_name_operand(cli, argc, argv, &asking->name);
}

/* -1: go on; else the exit code. */
static int stores_open(struct cli *cli, struct asking *asking)
{
    struct dlock_error err = CLI_ERROR_INIT;

    asking->uris[0] = cli->uri;
    for (size_t i = 0; i < asking->stores; i++) {
        if (cli_client_open_uri(cli, asking->uris[i], CLI_TO_INSPECT, &asking->clients[i], &err) !=
            DLOCK_OK)
            return cli_output_fail_status(cli, NULL, &err);
        asking->shown[i] = dlock_client_uri(asking->clients[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(asking->shown[i], asking->shown[k]) == 0)
                return cli_args_usage(cli, "why: %s is given twice", asking->shown[i]);
    }
    return -1;
}

static enum dlock_status why_read(const struct asking *asking, struct why *why,
                                  struct dlock_error *err)
{
    enum dlock_status status = snapshot_read(&why->snapshot, asking->clients, asking->stores, err);

    if (status == DLOCK_OK && !why_find(why, &asking->name)) {
        err->status = DLOCK_NOMEM;
        err->message[0] = '\0';
        status = DLOCK_NOMEM;
    }
    return status;
}

/* A deadlock counts when it is found twice. */
static enum dlock_status why_confirm(const struct asking *asking, struct why *why,
                                     struct dlock_error *err)
{
    const struct timespec pause = dl_time_spec(PAUSE_MS * DL_NS_PER_MS);
    enum dlock_status status = why_read(asking, why, err);
    bool confirmed = why->length == 0;

    for (int i = 1; i < SNAPSHOTS_MOST && status == DLOCK_OK && !confirmed; i++) {
        struct why again = {0};

        (void)nanosleep(&pause, NULL);
        status = why_read(asking, &again, err);
        confirmed = again.length == 0 || why_is_same_deadlock(why, &again);
        why_fini(why);
        *why = again;
    }
    if (!confirmed)
        why->length = 0;
    return status;
}

static int why_report(const struct cli *cli, const struct asking *asking, const struct why *why)
{
    const int exit_code = why->first < why->snapshot.count ? CLI_EXIT_OK : CLI_EXIT_NO;

    if (cli->json)
        return cli_output_json_print(cli, why_json(why, &asking->name, asking->shown), exit_code);
    why_print(why, &asking->name, asking->shown);
    return cli_output_close(cli, exit_code);
}

int cli_why(struct cli *cli, int argc, char **argv)
{
    struct dlock_error err = CLI_ERROR_INIT;
    struct asking asking = {0};
    struct why why = {0};
    int exit_code = asking_read(cli, argc, argv, &asking);

    if (exit_code < 0)
        exit_code = stores_open(cli, &asking);
    if (exit_code < 0)
        exit_code = why_confirm(&asking, &why, &err) == DLOCK_OK
                        ? why_report(cli, &asking, &why)
                        : cli_output_fail_status(cli, NULL, &err);
    why_fini(&why);
    asking_fini(&asking);
    return exit_code;
}
