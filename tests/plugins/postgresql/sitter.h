/* SPDX-License-Identifier: MIT */
/* sitter.h - a transaction that locks rows of a name in a table of strategy row, or the table. */
#ifndef DLT_SITTER_H
#define DLT_SITTER_H

#include "row_kit.h"

#include <pthread.h>

static inline void *sit_run(void *arg)
{
    return (void *)dlt_postgres_ask(
        &server, "BEGIN; SELECT 1 FROM row_%s WHERE name = 'job' FOR UPDATE; SELECT pg_sleep(60)",
        (const char *)arg);
}

static inline void *sit_table_run(void *arg)
{
    return (void *)dlt_postgres_ask(
        &server, "BEGIN; LOCK TABLE row_%s IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)",
        (const char *)arg);
}

static inline pthread_t sit_begin(void *(*run)(void *), const char *table)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, run, (void *)table), 0);
    for (int i = 0; i < 500; i++) {
        if (strcmp(dlt_postgres_ask(&server,
                                    "SELECT count(*) FROM pg_stat_activity"
                                    " WHERE wait_event = 'PgSleep' AND query LIKE '%%row_%s %%'",
                                    table),
                   "0") != 0)
            return thread;
        dlt_sleep_ms(5);
    }
    cr_assert(false, "it is not locked");
    return thread;
}

/* Locks the rows of "job" in this table ("TEST_lease"), until it is ended. */
static inline pthread_t sit(const char *table)
{
    return sit_begin(sit_run, table);
}

/* The same with the whole table. */
static inline pthread_t sit_table(const char *table)
{
    return sit_begin(sit_table_run, table);
}

static inline void sit_end(pthread_t sitter, const char *table)
{
    (void)dlt_postgres_ask(&server,
                           "SELECT count(pg_terminate_backend(pid, 30000)) FROM pg_stat_activity"
                           " WHERE wait_event = 'PgSleep' AND query LIKE '%%row_%s %%'",
                           table);
    cr_assert_eq(pthread_join(sitter, NULL), 0);
}

#endif
