/* SPDX-License-Identifier: MIT */
/* As many statements as the sqlite store has in an uncontended lock and unlock, with the same
 * settings; each of the two changes one page. The row has only the columns that a lease with a
 * fence needs. */
#include "stopwatch.h"
#include "work.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_MS  30000
#define LEASE_NS (30 * BENCH_NS_PER_S)

enum statement { BEGIN, FIND, TAKE, RELEASE, COMMIT, STATEMENTS };

static const char take_text[] =
    "INSERT INTO raw VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT (name) DO UPDATE SET fence = ?2, token = ?3, until_ns = ?4";

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [FIND] = "SELECT fence, token, until_ns FROM raw WHERE name = ?1",
    [TAKE] = take_text,
    [RELEASE] = "UPDATE raw SET token = NULL WHERE name = ?1 AND token = ?3 AND until_ns > ?4",
    [COMMIT] = "COMMIT",
};

/* As in layout.c and db.c of plugins/sqlite. */
static const char schema[] =
    "PRAGMA page_size = 1024;"
    "PRAGMA mmap_size = 0;"
    "PRAGMA cell_size_check = ON;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"
    "CREATE TABLE IF NOT EXISTS raw (name BLOB NOT NULL PRIMARY KEY, fence INTEGER NOT NULL,"
    " token BLOB, until_ns INTEGER) STRICT, WITHOUT ROWID";

struct worker {
    sqlite3 *handle;
    sqlite3_stmt *statements[STATEMENTS];
    char name[48];
    int64_t fence;
};

static int failed(const struct worker *worker, const char *what, char *why)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "%s: %.200s", what,
                   worker->handle != NULL ? sqlite3_errmsg(worker->handle) : "no memory");
    return -1;
}

/* The process has only the path, for its workers. */
static void *sqlite_open(const struct bench_config *config, char *why)
{
    char *path = strdup(config->uri);

    if (path == NULL)
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
    return path;
}

static void sqlite_end(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < STATEMENTS; i++)
        (void)sqlite3_finalize(worker->statements[i]);
    (void)sqlite3_close_v2(worker->handle);
    free(worker);
}

/* SQLite refuses a change of the journal's mode while another one runs, without a wait. */
static int schema_make(sqlite3 *handle)
{
    int64_t until_ns = bench_now_ns() + BUSY_MS * BENCH_NS_PER_MS;
    int rc = SQLITE_BUSY;

    while (rc == SQLITE_BUSY && bench_now_ns() < until_ns) {
        rc = sqlite3_exec(handle, schema, NULL, NULL, NULL);
        if (rc == SQLITE_BUSY)
            bench_sleep_ns(BENCH_NS_PER_MS);
    }
    return rc;
}

static int connect_to(struct worker *worker, const char *path)
{
    int rc = sqlite3_open_v2(path, &worker->handle,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                 SQLITE_OPEN_PRIVATECACHE,
                             "unix");

    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(worker->handle, BUSY_MS);
    if (rc == SQLITE_OK)
        rc = schema_make(worker->handle);
    for (int i = 0; rc == SQLITE_OK && i < STATEMENTS; i++)
        rc = sqlite3_prepare_v3(worker->handle, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                &worker->statements[i], NULL);
    return rc;
}

static void *sqlite_begin(void *process, const struct bench_config *config, int index, char *why)
{
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        (void)snprintf(why, BENCH_WHY_SIZE, "no memory");
        return NULL;
    }
    (void)snprintf(worker->name, sizeof worker->name, "bench-%d-%d", config->run,
                   config->one_name ? 0 : index);
    if (connect_to(worker, process) == SQLITE_OK)
        return worker;
    (void)failed(worker, "open", why);
    sqlite_end(worker);
    return NULL;
}

static int bind(const struct worker *worker, enum statement which)
{
    sqlite3_stmt *statement = worker->statements[which];
    int wanted = sqlite3_bind_parameter_count(statement);
    int rc = SQLITE_OK;

    if (wanted >= 1)
        rc =
            sqlite3_bind_blob(statement, 1, worker->name, (int)strlen(worker->name), SQLITE_STATIC);
    if (wanted >= 3) {
        (void)sqlite3_bind_int64(statement, 2, worker->fence);
        (void)sqlite3_bind_blob(statement, 3, "0123456789abcdef", 16, SQLITE_STATIC);
    }
    if (wanted >= 4)
        rc = sqlite3_bind_int64(statement, 4,
                                which == TAKE ? bench_now_ns() + LEASE_NS : bench_now_ns());
    return rc;
}

static int run(const struct worker *worker, enum statement which)
{
    sqlite3_stmt *statement = worker->statements[which];
    int rc = bind(worker, which);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    (void)sqlite3_reset(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

static int sqlite_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    worker->fence++;
    if (run(worker, BEGIN) != 0 || run(worker, FIND) != 0 || run(worker, TAKE) != 0 ||
        run(worker, COMMIT) != 0)
        return failed(worker, "lock", why);
    return 0;
}

static int sqlite_unlock(void *arg, char *why)
{
    const struct worker *worker = arg;

    if (run(worker, BEGIN) != 0 || run(worker, RELEASE) != 0 || run(worker, COMMIT) != 0)
        return failed(worker, "unlock", why);
    return sqlite3_changes(worker->handle) == 1 ? 0 : failed(worker, "changes", why);
}

const struct bench_work bench_work_sqlite = {
    .open = sqlite_open,
    .close = free,
    .begin = sqlite_begin,
    .end = sqlite_end,
    .lock = sqlite_lock,
    .unlock = sqlite_unlock,
};
