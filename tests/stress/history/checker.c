/* SPDX-License-Identifier: MIT */
#include "checker.h"

#include <stdlib.h>

#define NAMES_MAX (1u << 22)

static bool map_init(struct dlt_map *map, size_t most)
{
    size_t size = 16;

    while (size < most * 2)
        size *= 2;
    map->keys = calloc(size, sizeof *map->keys);
    map->places = calloc(size, sizeof *map->places);
    map->mask = size - 1;
    return map->keys != NULL && map->places != NULL;
}

static uint32_t *map_find(const struct dlt_map *map, uint64_t key)
{
    size_t at = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 20) & map->mask;

    while (map->places[at] != 0 && map->keys[at] != key)
        at = (at + 1) & map->mask;
    map->keys[at] = key;
    return &map->places[at];
}

static void map_fini(struct dlt_map *map)
{
    free(map->keys);
    free(map->places);
}

static bool names_init(struct checker *checker, uint32_t most)
{
    checker->name_count = (size_t)most + 1;
    checker->names = calloc(checker->name_count, sizeof *checker->names);
    return checker->names != NULL;
}

bool dlt_checker_init(struct checker *checker, const struct dlt_history *history)
{
    size_t locks = 0, processes = 0;
    uint32_t most = 0;

    for (size_t i = 0; i < history->count; i++) {
        const struct dlt_record *r = &history->records[i];

        locks += r->event == DLT_INV_LOCK;
        processes += r->event == DLT_INV_LOCK || r->event >= DLT_NEMESIS_STOP;
        if (r->name_id != DLT_ALL_NAMES && r->name_id > most)
            most = r->name_id;
    }
    checker->attempts = calloc(locks + 1, sizeof *checker->attempts);
    checker->processes = calloc(processes + 1, sizeof *checker->processes);
    return checker->attempts != NULL && checker->processes != NULL && most < NAMES_MAX &&
           names_init(checker, most) && map_init(&checker->by_id, locks + 1) &&
           map_init(&checker->by_pid, processes + 1);
}

void dlt_checker_fini(struct checker *checker)
{
    free(checker->attempts);
    free(checker->processes);
    free(checker->names);
    free(checker->segments);
    map_fini(&checker->by_id);
    map_fini(&checker->by_pid);
}

struct attempt *dlt_checker_attempt(struct checker *checker, uint64_t id)
{
    uint32_t place = *map_find(&checker->by_id, id);

    return place == 0 ? NULL : &checker->attempts[place - 1];
}

struct attempt *dlt_checker_attempt_new(struct checker *checker, const struct dlt_record *record)
{
    uint32_t *place = map_find(&checker->by_id, record->attempt_id);
    struct attempt *attempt;

    if (*place != 0)
        return NULL;
    attempt = &checker->attempts[checker->attempt_count++];
    *place = (uint32_t)checker->attempt_count;
    attempt->id = record->attempt_id;
    attempt->name_id = record->name_id;
    attempt->pid = record->pid;
    attempt->mode = record->mode;
    attempt->limit = record->limit;
    attempt->data = record->data;
    return attempt;
}

struct process *dlt_checker_process(struct checker *checker, int32_t pid)
{
    uint32_t *place = map_find(&checker->by_pid, (uint64_t)(uint32_t)pid + 1);

    if (*place == 0) {
        checker->processes[checker->process_count++].pid = pid;
        *place = (uint32_t)checker->process_count;
    }
    return &checker->processes[*place - 1];
}

bool dlt_checker_stood(struct checker *checker, const struct attempt *attempt, int64_t since_ns)
{
    const struct process *process = dlt_checker_process(checker, attempt->pid);

    return process->stopped || process->cont_ns > since_ns;
}

bool dlt_checker_late(const struct checker *checker, int64_t begin_ns, int64_t end_ns,
                      int64_t most_ns)
{
    return end_ns - begin_ns > most_ns && (checker->options->is_late == NULL ||
                                           checker->options->is_late(begin_ns, end_ns, most_ns));
}

void dlt_checker_report(struct checker *checker, enum dlt_rule rule, const struct attempt *attempt,
                        const struct attempt *other, int64_t clock_ns)
{
    struct dlt_violation violation = {
        .rule = rule,
        .clock_ns = clock_ns,
        .name_id = attempt == NULL ? DLT_ALL_NAMES : attempt->name_id,
        .attempt_id = attempt == NULL ? 0 : attempt->id,
        .other_id = other == NULL ? 0 : other->id,
    };

    checker->figures->violations[rule]++;
    checker->figures->total++;
    if (checker->options->report != NULL)
        checker->options->report(checker->options->arg, &violation);
}
