/* SPDX-License-Identifier: MIT */
#include "layout.h"

#include "errmap.h"
#include "os_error.h"
#include "statements.h"

#include <string.h>

static int64_t number_of(sqlite3 *handle, const char *sql, int *rc)
{
    sqlite3_stmt *statement = NULL;
    int64_t number = 0;

    if (*rc != SQLITE_OK)
        return 0;
    *rc = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (*rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    if (*rc == SQLITE_OK)
        *rc = sqlite3_finalize(statement);
    return number;
}

static int64_t version_of(sqlite3 *handle, int *rc)
{
    return number_of(handle, "PRAGMA user_version", rc);
}

enum dlock_status sqlite_layout_identify(sqlite3 *handle, const struct sqlite_config *config,
                                         bool *empty, struct dlock_error *err)
{
    int rc = SQLITE_OK;
    int64_t application = number_of(handle, "PRAGMA application_id", &rc);
    int64_t version = version_of(handle, &rc);

    *empty = application == 0 && version == 0 &&
             number_of(handle, "SELECT count(*) FROM sqlite_schema", &rc) == 0;
    if (rc != SQLITE_OK)
        return sqlite_errmap_fail(err, handle, config, sqlite_errmap_status(rc), rc);
    if (*empty)
        return DLOCK_OK;
    if (application != SQ_APPLICATION_ID)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "%.200s is a SQLite database of another program", config->path);
    if (version < SQ_SCHEMA_OLDEST || version > SQ_SCHEMA_VERSION)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "%.150s has layout %lld; this dlock knows %d to %d", config->path,
                          (long long)version, SQ_SCHEMA_OLDEST, SQ_SCHEMA_VERSION);
    return DLOCK_OK;
}

static int mode_read(void *is_wal, int columns, char **values, char **names)
{
    (void)columns;
    (void)names;
    *(bool *)is_wal = values[0] != NULL && strcmp(values[0], "wal") == 0;
    return 0;
}

enum dlock_status sqlite_layout_check_wal(sqlite3 *handle, const struct sqlite_config *config,
                                          struct dlock_error *err)
{
    bool is_wal = false;
    int rc = sqlite3_exec(handle, "PRAGMA journal_mode", mode_read, &is_wal, NULL);

    if (rc == SQLITE_OK && is_wal)
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, rc, "%.200s is not in WAL mode", config->path);
}

static int run(sqlite3 *handle, const char *sql)
{
    return sqlite3_exec(handle, sql, NULL, NULL, NULL);
}

/* Each change writes whole pages to the log; a page of this size holds some ten rows. */
int sqlite_layout_make(sqlite3 *handle)
{
    int rc = run(handle, "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL");

    if (rc == SQLITE_OK)
        rc = run(handle, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = run(handle, sqlite_schema);
    if (rc == SQLITE_OK)
        rc = run(handle, "COMMIT");
    return rc;
}

/* Another program may have done it while this one waited. */
static int upgrade_inside(sqlite3 *handle)
{
    int rc = SQLITE_OK;
    int64_t version = version_of(handle, &rc);

    if (version == SQ_SCHEMA_VERSION || rc != SQLITE_OK)
        return rc;
    if (version == 2)
        return run(handle, sqlite_upgrade_2);
    rc = run(handle, sqlite_schema);
    return rc == SQLITE_OK ? run(handle, sqlite_upgrade) : rc;
}

enum dlock_status sqlite_layout_check_version(sqlite3 *handle, const struct sqlite_config *config,
                                              struct dlock_error *err)
{
    int rc = SQLITE_OK;
    int64_t version = version_of(handle, &rc);

    if (rc != SQLITE_OK)
        return sqlite_errmap_fail(err, handle, config, sqlite_errmap_status(rc), rc);
    if (version == SQ_SCHEMA_VERSION)
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                      "%.150s has layout %lld; open it once to lock, by a user who may write it",
                      config->path, (long long)version);
}

int sqlite_layout_upgrade(sqlite3 *handle)
{
    int rc = SQLITE_OK;

    if (version_of(handle, &rc) == SQ_SCHEMA_VERSION || rc != SQLITE_OK)
        return rc;
    rc = run(handle, "BEGIN IMMEDIATE");
    if (rc != SQLITE_OK)
        return rc;
    rc = upgrade_inside(handle);
    if (rc == SQLITE_OK)
        rc = run(handle, "COMMIT");
    if (!sqlite3_get_autocommit(handle))
        (void)run(handle, "ROLLBACK");
    return rc;
}
