/* SPDX-License-Identifier: MIT */
#include "cases.h"
#include "stopwatch.h"
#include "suite.h"

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

#define THREADS(n, which, also, async_too, all)                                       \
    {                                                                                 \
        .name = NAMES(n), .load = {.processes = 1, .threads = (n)}, .kinds = (which), \
        .rivals = (also), .async = (async_too), .variants = (all)                     \
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
    THREADS(2, TABLES, 0, 0, 0),
    THREADS(4, TABLES, 0, 0, 0),
    THREADS(8, TABLES | REDLOCK, 1, 1, 0),
    THREADS(16, TABLES, 0, 0, 0),
    THREADS(32, TABLES, 0, 0, 0),
    THREADS(64, TABLES | REDLOCK, 1, 1, 1),
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
     .kinds = REDIS | ROWS | SQLITE | PGROWS | ETCD | ZOOKEEPER,
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
    {.name = RUNNING,
     .load = {.processes = 1, .threads = 1, .one_name = 1, .loop = BENCH_RUNNING},
     .kinds = SQLITE | REDIS | ROWS},
    {.name = KILLED,
     .load = {.processes = 2,
              .threads = 1,
              .one_name = 1,
              .loop = BENCH_KILLED,
              .held_ns = 5 * MS,
              .duration_ns = S},
     .kinds = SQLITE},
    {.name = CLOSING,
     .load = {.processes = 1, .threads = 1, .loop = BENCH_CLOSING, .leases = 1000},
     .kinds = SQLITE | REDIS | ROWS},
    {.name = SILENT,
     .load = {.processes = 1, .threads = 1, .loop = BENCH_CLOSING, .leases = 1000, .silent = 1},
     .kinds = REDIS | ROWS,
     .once = 1},
    KEPT(FEW, 10000),
    KEPT(LEASES, 100000),
};
const int bench_suite_count = (int)(sizeof bench_suite / sizeof bench_suite[0]);
