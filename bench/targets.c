/* SPDX-License-Identifier: MIT */
#include "cases.h"
#include "suite.h"

#include <dlfcn.h>
#include <dlock/dlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FENCED "bare hiredis, with a fence"
#define QUEUE  "bare queue, fence and grant"

#define NOTHING       \
    {                 \
        NULL, NULL, 0 \
    }
#define LEAST(id, text, unit, bound, subject, workload, metric)                          \
    {                                                                                    \
        id, text, unit, 1, bound, {subject, workload, metric}, NOTHING, NOTHING, NOTHING \
    }
#define MOST(id, text, unit, bound, subject, workload, metric)                           \
    {                                                                                    \
        id, text, unit, 0, bound, {subject, workload, metric}, NOTHING, NOTHING, NOTHING \
    }
/* The bound is a part of a limit under the same workload. */
#define LEAST_OF(id, text, bound, subject, limit, workload, metric)                               \
    {                                                                                             \
        id, text, "x", 1, bound, {subject, workload, metric}, {limit, workload, metric}, NOTHING, \
            NOTHING                                                                               \
    }
#define MOST_OF(id, text, bound, subject, limit, workload, metric)                                \
    {                                                                                             \
        id, text, "x", 0, bound, {subject, workload, metric}, {limit, workload, metric}, NOTHING, \
            NOTHING                                                                               \
    }

/* The same of whole processes that run `true`, which is taken off on both sides. */
#define MOST_OF_RUN(text, bound, subject, limit, command)             \
    {                                                                 \
        "P13", text, "x", 0, bound, {subject, RUNNING, BENCH_P50_US}, \
            {limit, RUNNING, BENCH_P50_US}, NOTHING,                  \
        {                                                             \
            command, RUNNING, BENCH_P50_US                            \
        }                                                             \
    }

const struct bench_target bench_targets[] = {
    LEAST_OF("P1", "Redis over bare hiredis spinning with a fence, 1 thread", 0.95, "redis",
             "bare hiredis, spinning with a fence", ALONE, BENCH_RATE),
    LEAST_OF("P1", "without spinning, over bare hiredis with a fence", 0.9, "redis, spin=off",
             FENCED, ALONE, BENCH_RATE),
    LEAST_OF("P2", "Redis over bare hiredis with a fence, 64 threads", 1.35, "redis", FENCED,
             NAMES(64), BENCH_RATE),
    MOST_OF("P2", "its server's CPU, over the same", 0.55, "redis", FENCED, NAMES(64),
            BENCH_SERVER_US),
    MOST("P2", "its sockets", "", 4, "redis", NAMES(64), BENCH_SOCKETS),
    LEAST_OF("P3", "Redis over bare hiredis with a fence, 8 threads", 1.0, "redis", FENCED,
             NAMES(8), BENCH_RATE),
    MOST_OF("P3", "its p99, over the same", 1.5, "redis", FENCED, NAMES(8), BENCH_P99_US),
    LEAST_OF("P3", "2 threads", 1.0, "redis", FENCED, NAMES(2), BENCH_RATE),
    LEAST_OF("P3", "4 threads", 1.0, "redis", FENCED, NAMES(4), BENCH_RATE),
    LEAST_OF("P3", "16 threads", 1.0, "redis", FENCED, NAMES(16), BENCH_RATE),
    LEAST_OF("P4", "Redlock over 3 bare nodes", 1.6, "redlock of 3", "3 bare nodes, all answers",
             ALONE, BENCH_RATE),
    LEAST_OF("P4", "Redlock over 5 bare nodes", 1.6, "redlock of 5", "5 bare nodes, all answers",
             ALONE, BENCH_RATE),
    LEAST_OF("P4", "with fence=on, over 3 bare nodes", 1.6, "redlock of 3, fence=on",
             "3 bare nodes, all answers", ALONE, BENCH_RATE),
    LEAST_OF("P4", "with fence=on, over the same without", 0.85, "redlock of 3, fence=on",
             "redlock of 3", ALONE, BENCH_RATE),
    LEAST_OF("P4", "the same, 5 nodes", 0.85, "redlock of 5, fence=on", "redlock of 5", ALONE,
             BENCH_RATE),
    MOST_OF("P5", "Redis, hand-off p50, over a bare grant with a fence", 1.25, "redis", QUEUE,
            PASSING, BENCH_P50_US),
    LEAST_OF("P6", "Redis over a bare grant with a fence, 8 processes", 0.97, "redis", QUEUE,
             PUSHING, BENCH_RATE),
    LEAST("P6", "its fairness: least over most", "", 0.95, "redis", PUSHING, BENCH_SHARE),
    MOST("P6", "its commands an acquisition", "", 2.2, "redis", PUSHING, BENCH_SCRIPTS),
    LEAST_OF("P6", "SQLite over the same bare grant", 0.97, "sqlite", QUEUE, PUSHING, BENCH_RATE),
    LEAST_OF("P6", "MariaDB rows over bare UPDATEs under GET_LOCK", 0.95, "mysql",
             "bare UPDATEs under GET_LOCK", PUSHING, BENCH_RATE),
    LEAST_OF("P6", "MariaDB sessions over bare FOR UPDATE", 0.95, "mysql, sessions",
             "bare FOR UPDATE and fence", PUSHING, BENCH_RATE),
    LEAST_OF("P7", "memory over condition variables, 8 threads, empty", 0.95, "memory",
             "condition variables", EMPTY, BENCH_RATE),
    LEAST_OF("P7", "SQLite, the same", 0.95, "sqlite", "condition variables", EMPTY, BENCH_RATE),
    LEAST_OF("P7", "Redis, the same", 0.75, "redis", "condition variables", EMPTY, BENCH_RATE),
    MOST("P8", "Redis, 100 waiters: script calls, but refreshes", "", 2.2, "redis", HUNDRED,
         BENCH_UNREFRESHED),
    MOST("P8", "script calls of 99 asleep, each and second", "", 0.21, "redis", ASLEEP,
         BENCH_SCRIPTS),
    MOST("P8", "a sleeping waiter's CPU, of a second", "us", 1000, "redis", ASLEEP, BENCH_OWN_US),
    LEAST_OF("P9", "MariaDB rows over bare UPDATEs, 1 thread", 0.95, "mysql", "bare UPDATE", ALONE,
             BENCH_RATE),
    LEAST_OF("P9", "the same, 64 threads", 0.95, "mysql", "bare UPDATE", NAMES(64), BENCH_RATE),
    LEAST_OF("P10", "MariaDB sessions over bare FOR UPDATE", 0.97, "mysql, sessions",
             "bare FOR UPDATE and fence", ALONE, BENCH_RATE),
    LEAST_OF("P11", "SQLite over bare SQLite, 1 thread", 0.8, "sqlite", "bare SQLite", ALONE,
             BENCH_RATE),
    MOST("P11", "SQLite, hand-off p50", "us", 43, "sqlite", PASSING, BENCH_P50_US),
    {"P11",
     "16 threads over 8 processes",
     "x",
     1,
     0.8,
     {"sqlite", NAMES(16), BENCH_RATE},
     {"sqlite", APART, BENCH_RATE},
     NOTHING,
     NOTHING},
    {"P11",
     "64 threads over 8 processes",
     "x",
     1,
     0.8,
     {"sqlite", NAMES(64), BENCH_RATE},
     {"sqlite", APART, BENCH_RATE},
     NOTHING,
     NOTHING},
    LEAST("P11", "8 processes: least over most", "", 0.8, "sqlite", APART, BENCH_SHARE),
    MOST("P11", "its worst pair", "ms", 150, "sqlite", APART, BENCH_WORST_MS),
    MOST("P12", "Redis, 100,000 leases: lost", "", 0, "redis", LEASES, BENCH_LOST),
    MOST("P12", "of a core, to renew them", "", 0.1, "redis", LEASES, BENCH_CORE),
    MOST("P12", "bytes a lease", "", 400, "redis", LEASES, BENCH_LEASE_BYTES),
    {"P12",
     "CPU a lease, 100,000 over 10,000",
     "x",
     0,
     1.5,
     {"redis", LEASES, BENCH_OWN_US},
     {"redis", FEW, BENCH_OWN_US},
     NOTHING,
     NOTHING},
    MOST_OF("P13", "Redis: open to close, over bare hiredis", 2.0, "redis", "bare hiredis, opened",
            OPENING, BENCH_P50_US),
    MOST_OF("P13", "MariaDB: the same, over bare", 2.0, "mysql", "bare UPDATE, opened", OPENING,
            BENCH_P50_US),
    MOST_OF("P13", "SQLite: the same, over bare", 2.0, "sqlite", "bare SQLite", OPENING,
            BENCH_P50_US),
    MOST_OF_RUN("Redis: dlock run less true, over a bare program less true", 2.0, "redis",
                "a program with hiredis", "true, beside Redis"),
    MOST_OF_RUN("MariaDB: the same", 2.0, "mysql", "a program with libmariadb",
                "true, beside MariaDB"),
    MOST_OF_RUN("SQLite: the same", 2.0, "sqlite", "a program with SQLite", "true, beside SQLite"),
    LEAST_OF("P14", "Redis, one thread, 64 operations, over 64 bare threads", 2.0,
             "redis, dlock_op_start", "bare hiredis", NAMES(64), BENCH_RATE),
    LEAST_OF("P14", "MariaDB rows, the same", 2.0, "mysql, dlock_op_start", "bare UPDATE",
             NAMES(64), BENCH_RATE),
    {"P14",
     "SQLite, the same, over one bare thread",
     "x",
     1,
     1.5,
     {"sqlite, dlock_op_start", NAMES(64), BENCH_RATE},
     {"bare SQLite", ALONE, BENCH_RATE},
     NOTHING,
     NOTHING},
    LEAST_OF("P15", "PostgreSQL rows over bare plpgsql, 1 thread", 0.95, "postgresql",
             "bare plpgsql", ALONE, BENCH_RATE),
    MOST_OF("P15", "its hand-off p50, over a bare queue", 1.3, "postgresql",
            "bare queue and NOTIFY", PASSING, BENCH_P50_US),
    LEAST_OF("P15", "its rate of 8 contenders, over the same", 0.95, "postgresql",
             "bare queue and NOTIFY", PUSHING, BENCH_RATE),
    LEAST("P15", "their least over most", "", 0.95, "postgresql", PUSHING, BENCH_SHARE),
    LEAST_OF("P15", "its rate of 100 waiters, over the same queue", 0.95, "postgresql",
             "bare queue and NOTIFY", HUNDRED, BENCH_RATE),
    LEAST_OF("P15", "PostgreSQL sessions over bare advisory locks and fences", 0.95,
             "postgresql, sessions", "bare advisory lock and fence", ALONE, BENCH_RATE),
    LEAST_OF("P15", "etcd over bare Txns, 1 thread", 0.95, "etcd", "bare Txns", ALONE, BENCH_RATE),
    MOST_OF("P15", "its hand-off p50, over a bare queue and watch", 1.3, "etcd",
            "bare queue and watch", PASSING, BENCH_P50_US),
    LEAST_OF("P15", "its rate of 8 contenders, over the same", 0.95, "etcd", "bare queue and watch",
             PUSHING, BENCH_RATE),
    LEAST("P15", "their least over most", "", 0.95, "etcd", PUSHING, BENCH_SHARE),
    LEAST_OF("P15", "its rate of 100 waiters, over the same queue", 0.95, "etcd",
             "bare queue and watch", HUNDRED, BENCH_RATE),
    LEAST_OF("P15", "ZooKeeper over the bare flight, 1 thread", 0.95, "zookeeper", "bare flight",
             ALONE, BENCH_RATE),
    MOST_OF("P15", "its hand-off p50, over a bare queue and watch", 1.3, "zookeeper",
            "bare nodes and watch", PASSING, BENCH_P50_US),
    LEAST_OF("P15", "its rate of 8 contenders, over the same", 0.95, "zookeeper",
             "bare nodes and watch", PUSHING, BENCH_RATE),
    LEAST("P15", "their least over most", "", 0.95, "zookeeper", PUSHING, BENCH_SHARE),
    LEAST_OF("P15", "its rate of 100 waiters, over the same queue", 0.95, "zookeeper",
             "bare nodes and watch", HUNDRED, BENCH_RATE),
    MOST("P16", "SQLite, kill -9 of a holder to the next lock: p99", "us", 50000, "sqlite", KILLED,
         BENCH_P99_US),
    MOST("P17", "Redis, close with 1,000 locks held: the longest", "ms", 300, "redis", CLOSING,
         BENCH_WORST_MS),
    MOST("P17", "MariaDB rows, the same", "ms", 300, "mysql", CLOSING, BENCH_WORST_MS),
    MOST("P17", "Redis, the same of a silent store: connect_timeout", "ms", 5000, "redis", SILENT,
         BENCH_WORST_MS),
    MOST("P17", "MariaDB rows, the same of a silent store", "ms", 5000, "mysql", SILENT,
         BENCH_WORST_MS),
    MOST("P17", "SQLite, close with 1,000 locks held", "ms", 300, "sqlite", CLOSING,
         BENCH_WORST_MS),
    MOST("P18", "the library's size", "KB", 256, BENCH_LIBRARY, NULL, 0),
};
const int bench_target_count = (int)(sizeof bench_targets / sizeof bench_targets[0]);

/* The size of the library's file in KB; negative: unknown. */
static double library_kb(void)
{
    Dl_info info;
    struct stat st;

    /* POSIX makes this conversion work, ISO C does not. */
    if (dladdr((const void *)(uintptr_t)dlock_version, &info) == 0 ||
        stat(info.dli_fname, &st) != 0)
        return -1;
    return (double)st.st_size / 1000;
}

/* One value for each round; negative: not known. 0: there are none. */
static int side_values(const struct bench_side *side, const struct bench_plan *plan, double *values)
{
    const struct bench_figures *figures = NULL;

    if (strcmp(side->subject, BENCH_LIBRARY) == 0) {
        values[0] = library_kb();
        return 1;
    }
    figures = bench_plan_find(plan, side->subject, side->workload);
    for (int i = 0; figures != NULL && i < figures->rounds; i++)
        values[i] = figures->values[side->metric][i];
    return figures != NULL ? figures->rounds : 0;
}

int bench_target_spread(const struct bench_target *target, const struct bench_plan *plan,
                        struct bench_spread *spread)
{
    double values[BENCH_ROUNDS_MAX] = {0}, over[BENCH_ROUNDS_MAX] = {0};
    double plus[BENCH_ROUNDS_MAX] = {0}, less[BENCH_ROUNDS_MAX] = {0};
    int rounds = side_values(&target->of, plan, values), known = rounds;

    if (target->over.subject != NULL)
        known = side_values(&target->over, plan, over);
    rounds = known < rounds ? known : rounds;
    if (target->plus.subject != NULL)
        known = side_values(&target->plus, plan, plus);
    rounds = known < rounds ? known : rounds;
    if (target->less.subject != NULL)
        known = side_values(&target->less, plan, less);
    rounds = known < rounds ? known : rounds;
    for (int i = 0; i < rounds; i++) {
        if (values[i] < 0 || plus[i] < 0 || less[i] < 0)
            return 0;
        values[i] -= less[i];
        over[i] -= less[i];
        if (target->over.subject == NULL)
            continue;
        if (over[i] <= 0)
            return 0;
        values[i] /= over[i] + plus[i];
    }
    if (rounds > 0)
        *spread = bench_spread_of(values, rounds);
    return rounds > 0;
}

int bench_target_met(const struct bench_target *target, const struct bench_spread *spread)
{
    return target->at_least ? spread->median >= target->bound : spread->median <= target->bound;
}
