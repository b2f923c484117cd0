/* SPDX-License-Identifier: MIT */
#include "stopwatch.h"
#include "suite.h"

#include <dlfcn.h>
#include <dlock/dlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MS BENCH_NS_PER_MS
#define S  BENCH_NS_PER_S

#define MEMORY    (1u << BENCH_MEMORY)
#define SQLITE    (1u << BENCH_SQLITE)
#define REDIS     (1u << BENCH_REDIS)
#define REDLOCK   (1u << BENCH_REDLOCK)
#define ROWS      (1u << BENCH_MYSQL)
#define SESSION   (1u << BENCH_MYSQL_SESSION)
#define PGROWS    (1u << BENCH_POSTGRESQL)
#define PGSESSION (1u << BENCH_POSTGRESQL_SESSION)
#define ETCD      (1u << BENCH_ETCD)
#define ZOOKEEPER (1u << BENCH_ZOOKEEPER)
#define TABLES    (MEMORY | SQLITE | REDIS | ROWS | PGROWS | ETCD | ZOOKEEPER)
#define SERVED                                                               \
    (REDIS | REDLOCK | ROWS | SESSION | SQLITE | PGROWS | PGSESSION | ETCD | \
     ZOOKEEPER) /* stores of several processes */

/* Names of workloads. */
#define ALONE    "1 thread"
#define NAMES(n) #n " threads, " #n " names"
#define APART    "8 processes, 8 names"
#define PASSING  "hand-off to another process"
#define PUSHING  "8 processes, 1 name, 1 ms + 1 ms"
#define PAUSING  "8 threads, 1 name, 1 ms + 1 ms"
#define EMPTY    "8 threads, 1 name, empty"
#define HUNDRED  "100 waiters in 20 processes, 5 ms"
#define ASLEEP   "99 waiters asleep in 20 processes"
#define FEW      "10,000 leases, renewed"
#define LEASES   "100,000 leases, renewed"
#define OPENING  "open, lock, unlock, close"
#define MIX      "8 threads, 1 name, 90 of 100 shared"
#define FENCED   "bare hiredis, with a fence"
#define WAIT(n)  #n " processes, 1 name, 1 ms held"

#define THREADS(n, which, also, all)                                                  \
    {                                                                                 \
        .name = NAMES(n), .load = {.processes = 1, .threads = (n)}, .kinds = (which), \
        .rivals = (also), .variants = (all)                                           \
    }
#define CONTENDERS(n)                                                                            \
    {                                                                                            \
        .name = WAIT(n), .load = {.processes = (n), .threads = 1, .one_name = 1, .held_ns = MS}, \
        .kinds = SERVED                                                                          \
    }
#define KEPT(text, n)                    \
    {                                    \
        .name = (text),                  \
        .load = {.processes = 1,         \
                 .threads = 4,           \
                 .loop = BENCH_LEASES,   \
                 .leases = (n),          \
                 .duration_ns = 31 * S}, \
        .kinds = REDIS, .once = 1        \
    }

const struct bench_workload bench_suite[] = {
    {.name = ALONE, .load = {.processes = 1, .threads = 1}, .rivals = 1, .variants = 1},
    THREADS(2, TABLES, 0, 0),
    THREADS(4, TABLES, 0, 0),
    THREADS(8, TABLES | REDLOCK, 1, 0),
    THREADS(16, TABLES, 0, 0),
    THREADS(32, TABLES, 0, 0),
    THREADS(64, TABLES | REDLOCK, 1, 1),
    {.name = APART,
     .load = {.processes = 8, .threads = 1, .duration_ns = S},
     .kinds = SQLITE | REDIS | ROWS},
    {.name = PASSING,
     .load = {.processes = 2, .threads = 1, .one_name = 1, .loop = BENCH_HANDOFF, .held_ns = MS},
     .kinds = SERVED,
     .rivals = 1},
    {.name = PUSHING, /* so long that shares have a meaning */
     .load = {.processes = 8,
              .threads = 1,
              .one_name = 1,
              .held_ns = MS,
              .pause_ns = MS,
              .duration_ns = S},
     .kinds = SERVED,
     .rivals = 1},
    {.name = PAUSING,
     .load = {.processes = 1, .threads = 8, .one_name = 1, .held_ns = MS, .pause_ns = MS}},
    {.name = EMPTY, .load = {.processes = 1, .threads = 8, .one_name = 1}},
    {.name = MIX,
     .load = {.processes = 1, .threads = 8, .one_name = 1, .readers = 90, .held_ns = MS},
     .kinds = TABLES},
    CONTENDERS(2),
    CONTENDERS(4),
    CONTENDERS(8),
    CONTENDERS(16),
    CONTENDERS(32),
    {.name = HUNDRED,
     .load =
         {.processes = 20, .threads = 5, .one_name = 1, .held_ns = 5 * MS, .duration_ns = 3 * S},
     .kinds = REDIS | ROWS | SQLITE,
     .once = 1},
    {.name = ASLEEP,
     .load = {.processes = 20,
              .threads = 5,
              .one_name = 1,
              .loop = BENCH_WAITING,
              .duration_ns = 3 * S},
     .kinds = REDIS | ROWS | SQLITE,
     .once = 1},
    {.name = OPENING,
     .load = {.processes = 1, .threads = 1, .loop = BENCH_OPENING},
     .kinds = SERVED},
    KEPT(FEW, 10000),
    KEPT(LEASES, 100000),
};
const int bench_suite_count = (int)(sizeof bench_suite / sizeof bench_suite[0]);

#define NOTHING       \
    {                 \
        NULL, NULL, 0 \
    }
#define LEAST(id, text, unit, bound, subject, workload, metric)                 \
    {                                                                           \
        id, text, unit, 1, bound, {subject, workload, metric}, NOTHING, NOTHING \
    }
#define MOST(id, text, unit, bound, subject, workload, metric)                  \
    {                                                                           \
        id, text, unit, 0, bound, {subject, workload, metric}, NOTHING, NOTHING \
    }
/* The bound is a part of a limit under the same workload. */
#define LEAST_OF(id, text, bound, subject, limit, workload, metric)                              \
    {                                                                                            \
        id, text, "x", 1, bound, {subject, workload, metric}, {limit, workload, metric}, NOTHING \
    }
#define MOST_OF(id, text, bound, subject, limit, workload, metric)                               \
    {                                                                                            \
        id, text, "x", 0, bound, {subject, workload, metric}, {limit, workload, metric}, NOTHING \
    }

const struct bench_target bench_targets[] = {
    LEAST_OF("P1", "Redis over bare hiredis, 1 thread", 2.2, "redis", "bare hiredis", ALONE,
             BENCH_RATE),
    LEAST_OF("P1", "the same without spinning", 0.95, "redis, spin=off", "bare hiredis", ALONE,
             BENCH_RATE),
    LEAST_OF("P2", "Redis over bare hiredis, 64 threads", 1.35, "redis", "bare hiredis", NAMES(64),
             BENCH_RATE),
    MOST_OF("P2", "its server's CPU, over the same", 0.45, "redis", "bare hiredis", NAMES(64),
            BENCH_SERVER_US),
    LEAST_OF("P2", "its rate over bare hiredis with a fence", 1.35, "redis", FENCED, NAMES(64),
             BENCH_RATE),
    MOST_OF("P2", "its server's CPU, over the same", 0.45, "redis", FENCED, NAMES(64),
            BENCH_SERVER_US),
    MOST("P2", "its sockets", "", 4, "redis", NAMES(64), BENCH_SOCKETS),
    LEAST_OF("P3", "Redis over bare hiredis, 8 threads", 1.0, "redis", "bare hiredis", NAMES(8),
             BENCH_RATE),
    MOST_OF("P3", "its p99, over the same", 2.0, "redis", "bare hiredis", NAMES(8), BENCH_P99_US),
    LEAST_OF("P4", "Redlock over 3 bare nodes", 1.6, "redlock of 3", "3 bare nodes, all answers",
             ALONE, BENCH_RATE),
    LEAST_OF("P4", "Redlock over 5 bare nodes", 1.6, "redlock of 5", "5 bare nodes, all answers",
             ALONE, BENCH_RATE),
    MOST_OF("P5", "Redis, hand-off p50, over a bare grant", 1.15, "redis", "bare queue and grant",
            PASSING, BENCH_P50_US),
    LEAST("P6", "Redis, 8 processes, 1 ms + 1 ms", "/s", 840, "redis", PUSHING, BENCH_RATE),
    LEAST("P6", "its fairness: least over most", "", 0.95, "redis", PUSHING, BENCH_SHARE),
    MOST("P6", "its commands an acquisition", "", 2.2, "redis", PUSHING, BENCH_SCRIPTS),
    LEAST("P6", "MariaDB rows, the same load", "/s", 840, "mysql", PUSHING, BENCH_RATE),
    LEAST("P6", "MariaDB sessions, the same load", "/s", 840, "mysql, sessions", PUSHING,
          BENCH_RATE),
    LEAST("P6", "SQLite, the same load", "/s", 840, "sqlite", PUSHING, BENCH_RATE),
    LEAST("P7", "Redis, 8 threads, 1 ms + 1 ms", "/s", 890, "redis", PAUSING, BENCH_RATE),
    LEAST("P7", "memory, 8 threads, 1 ms + 1 ms", "/s", 890, "memory", PAUSING, BENCH_RATE),
    LEAST("P7", "SQLite, 8 threads, 1 ms + 1 ms", "/s", 890, "sqlite", PAUSING, BENCH_RATE),
    LEAST("P7", "MariaDB rows, 8 threads, 1 ms + 1 ms", "/s", 890, "mysql", PAUSING, BENCH_RATE),
    LEAST("P7", "Redis, 8 threads, empty", "/s", 50000, "redis", EMPTY, BENCH_RATE),
    LEAST("P7", "memory, 8 threads, empty", "/s", 70000, "memory", EMPTY, BENCH_RATE),
    LEAST("P7", "SQLite, 8 threads, empty", "/s", 70000, "sqlite", EMPTY, BENCH_RATE),
    MOST("P8", "Redis, 100 waiters: script calls, but refreshes", "", 2.2, "redis", HUNDRED,
         BENCH_UNREFRESHED),
    MOST("P8", "script calls of 99 asleep, each and second", "", 0.21, "redis", ASLEEP,
         BENCH_SCRIPTS),
    MOST("P8", "a sleeping waiter's CPU, of a second", "us", 1000, "redis", ASLEEP, BENCH_OWN_US),
    LEAST_OF("P9", "MariaDB rows over bare UPDATEs, 1 thread", 0.95, "mysql", "bare UPDATE", ALONE,
             BENCH_RATE),
    LEAST_OF("P9", "the same, 64 threads", 0.9, "mysql", "bare UPDATE", NAMES(64), BENCH_RATE),
    LEAST_OF("P9", "the same, connections=66", 0.9, "mysql, connections=66", "bare UPDATE",
             NAMES(64), BENCH_RATE),
    {"P9",
     "hand-off p50, over bare UPDATEs and GET_LOCK",
     "x",
     0,
     1.3,
     {"mysql", PASSING, BENCH_P50_US},
     {"bare UPDATE", ALONE, BENCH_P50_US},
     {"bare GET_LOCK", PASSING, BENCH_P50_US}},
    LEAST_OF("P10", "MariaDB sessions over bare FOR UPDATE", 0.9, "mysql, sessions",
             "bare FOR UPDATE and fence", ALONE, BENCH_RATE),
    LEAST_OF("P14", "PostgreSQL rows over bare plpgsql, 1 thread", 0.95, "postgresql",
             "bare plpgsql", ALONE, BENCH_RATE),
    MOST_OF("P14", "its hand-off p50, over a bare queue", 1.3, "postgresql",
            "bare queue and NOTIFY", PASSING, BENCH_P50_US),
    LEAST("P14", "8 processes, 1 ms + 1 ms: least over most", "", 0.95, "postgresql", PUSHING,
          BENCH_SHARE),
    LEAST_OF("P14", "PostgreSQL sessions over bare advisory locks and fences", 0.9,
             "postgresql, sessions", "bare advisory lock and fence", ALONE, BENCH_RATE),
    LEAST_OF("P15", "etcd over bare Txns, 1 thread", 0.95, "etcd", "bare Txns", ALONE, BENCH_RATE),
    MOST_OF("P15", "its hand-off p50, over a bare queue and watch", 1.3, "etcd",
            "bare queue and watch", PASSING, BENCH_P50_US),
    LEAST("P15", "8 processes, 1 ms + 1 ms: least over most", "", 0.95, "etcd", PUSHING,
          BENCH_SHARE),
    LEAST_OF("P16", "ZooKeeper over the bare flight, 1 thread", 0.95, "zookeeper", "bare flight",
             ALONE, BENCH_RATE),
    MOST_OF("P16", "its hand-off p50, over a bare queue and watch", 1.3, "zookeeper",
            "bare nodes and watch", PASSING, BENCH_P50_US),
    LEAST("P16", "8 processes, 1 ms + 1 ms: least over most", "", 0.95, "zookeeper", PUSHING,
          BENCH_SHARE),
    LEAST_OF("P11", "SQLite over bare SQLite, 1 thread", 0.8, "sqlite", "bare SQLite", ALONE,
             BENCH_RATE),
    LEAST("P11", "SQLite, 8 processes: least over most", "", 0.8, "sqlite", APART, BENCH_SHARE),
    MOST("P11", "its worst pair", "ms", 150, "sqlite", APART, BENCH_WORST_MS),
    MOST("P11", "SQLite, hand-off p50", "us", 50, "sqlite", PASSING, BENCH_P50_US),
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
     NOTHING},
    MOST_OF("P13", "Redis: open to close, over bare hiredis", 1.5, "redis", "bare hiredis, opened",
            OPENING, BENCH_P50_US),
    MOST_OF("P13", "MariaDB: the same, over bare", 1.5, "mysql", "bare UPDATE, opened", OPENING,
            BENCH_P50_US),
    MOST_OF("P13", "SQLite: the same, over bare", 1.5, "sqlite", "bare SQLite", OPENING,
            BENCH_P50_US),
    MOST("P13", "the library's size", "KB", 150, BENCH_LIBRARY, NULL, 0),
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
    double plus[BENCH_ROUNDS_MAX] = {0};
    int rounds = side_values(&target->of, plan, values), known = rounds;

    if (target->over.subject != NULL)
        known = side_values(&target->over, plan, over);
    rounds = known < rounds ? known : rounds;
    if (target->plus.subject != NULL)
        known = side_values(&target->plus, plan, plus);
    rounds = known < rounds ? known : rounds;
    for (int i = 0; i < rounds; i++) {
        if (values[i] < 0 || plus[i] < 0)
            return 0;
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
