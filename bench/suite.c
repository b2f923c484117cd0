/* SPDX-License-Identifier: MIT */
#include "suite.h"

#include "stopwatch.h"

#include <string.h>

#define MS           BENCH_NS_PER_MS
#define CLOSING_MOST 1000

const struct bench_size bench_size_default = {
    .threads = 8,
    .processes = 8,
    .readers = 90,
    .leases = 10000,
    .held_ns = MS,
    .pause_ns = MS,
};

enum shape {
    ALONE,
    NAMES,
    THREADS,
    EMPTY,
    PROCESSES,
    HANDOFF,
    READERS,
    LEASES,
    OPENING,
    RUNNING,
    KILLED,
    CLOSING,
    SILENT,
    WAITING
};

static const struct {
    const char *name, *meaning;
} shapes[] = {
    [ALONE] = {"alone", "one thread, a name that nobody else wants"},
    [NAMES] = {"names", "--threads of one client, a name each"},
    [THREADS] = {"threads", "--threads of one client on one name, with --hold and --pause"},
    [EMPTY] = {"empty", "the same with nothing to do while it is held"},
    [PROCESSES] = {"processes", "--processes on one name, with --hold and --pause"},
    [HANDOFF] = {"handoff", "from the unlock of one process to the lock of another"},
    [READERS] = {"readers", "--threads on one name, --readers of 100 locks shared"},
    [LEASES] = {"leases", "--leases of one client, kept and renewed"},
    [OPENING] = {"open", "a new process each time: open, lock, unlock, close"},
    [RUNNING] = {"run", "`dlock run NAME -- true`, a whole process each time"},
    [KILLED] = {"killed", "sqlite: from the SIGKILL of a holder to the lock of another process"},
    [CLOSING] = {"closing", "the close of a client that holds --leases, 1,000 at most"},
    [SILENT] = {"silent", "redis, mysql: the same of a store that has fallen silent"},
    [WAITING] = {"waiters", "--processes times --threads, one holds, the others wait"},
};

#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

const char *bench_workload_name(int number, const char **meaning)
{
    if (number >= SHAPES)
        return NULL;
    *meaning = shapes[number].meaning;
    return shapes[number].name;
}

static struct bench_load load_of(enum shape shape, const struct bench_size *size)
{
    struct bench_load load = {.processes = 1, .threads = 1, .one_name = 1};

    if (shape == NAMES || shape == THREADS || shape == EMPTY || shape == READERS ||
        shape == WAITING)
        load.threads = size->threads;
    if (shape == PROCESSES || shape == WAITING)
        load.processes = size->processes;
    if (load.threads > BENCH_WORKERS_MAX / load.processes)
        load.threads = BENCH_WORKERS_MAX / load.processes;
    load.one_name = shape != NAMES && shape != LEASES && shape != CLOSING && shape != SILENT;
    if (shape == THREADS || shape == PROCESSES) {
        load.held_ns = size->held_ns;
        load.pause_ns = size->pause_ns;
    }
    if (shape == READERS)
        load.readers = size->readers;
    if (shape == HANDOFF) {
        load.processes = 2;
        load.held_ns = MS;
        load.loop = BENCH_HANDOFF;
    }
    if (shape == LEASES) {
        load.loop = BENCH_LEASES;
        load.leases = size->leases;
        load.threads = 4;
    }
    if (shape == OPENING)
        load.loop = BENCH_OPENING;
    if (shape == RUNNING)
        load.loop = BENCH_RUNNING;
    if (shape == KILLED) {
        load.processes = 2;
        load.held_ns = 5 * MS;
        load.loop = BENCH_KILLED;
    }
    if (shape == CLOSING || shape == SILENT) {
        load.silent = shape == SILENT;
        load.leases = size->leases < CLOSING_MOST ? size->leases : CLOSING_MOST;
        load.loop = BENCH_CLOSING;
    }
    if (shape == WAITING)
        load.loop = BENCH_WAITING;
    return load;
}

/* 0: all stores. */
static unsigned kinds_of(enum shape shape)
{
    if (shape == KILLED)
        return 1u << BENCH_SQLITE;
    return shape == SILENT ? 1u << BENCH_REDIS | 1u << BENCH_MYSQL : 0;
}

int bench_workload_named(const char *name, const struct bench_size *size,
                         struct bench_workload *workload)
{
    for (int i = 0; i < SHAPES; i++) {
        if (strcmp(shapes[i].name, name) != 0)
            continue;
        *workload = (struct bench_workload){.name = shapes[i].name,
                                            .load = load_of((enum shape)i, size),
                                            .rivals = 1,
                                            .async = 1,
                                            .kinds = kinds_of((enum shape)i),
                                            .variants = 1};
        return 0;
    }
    return -1;
}
