/* SPDX-License-Identifier: MIT */
#include "layout.h"
#include "errmap.h"
#include "os_error.h"

#include <string.h>

#define SQ_APPLICATION_ID 0x444C4B53 /* "DLKS" */
#define SQ_SCHEMA_VERSION 3
#define SQ_SCHEMA_OLDEST  1 /* that can be upgraded */

/*
 * All SQL. Times are nanoseconds of sqlite_clock_now. A row of another boot is dead, and so is a
 * row whose until_ns is not in the future.
 *
 *   locks    a row for each name ever locked. It is never deleted, so that `fence`, the first
 *            number of the last grant, survives. `token` holds the name exclusively while it
 *            lives. `crowd` is the waiters_mask of the name: the tables in which there may be
 *            rows of it. Usually it is 0, and the other tables are not read.
 *   readers  a row for each lease beside which there may be others: a shared one (lim is 0), or a
 *            permit of a semaphore (lim is its limit). Also a row for what is kept for nobody: a
 *            permit, or a lock (lim is 1); its token is new, and nobody has it
 *   waiters  a row for each queue entry of a name, in the order of `place`: the time of its
 *            arrival, or one more than the last place if that is later. lease_ns is how long
 *            a grant to this waiter lasts: waiter_lease, or the ttl if that is shorter. `mode` is
 *            the limit of a semaphore, 2 or more, or the mode of a lock.
 *
 * A label may have data and a mark behind it (life.h). It is written and copied with the token in
 * all versions, so that no mark stays when an older program takes the name.
 *
 * Layout 1 had one table, "names". The upgrade drops it and does not extend it: a program of that
 * layout that has the file open fails at its next statement, and cannot overlook readers and queue.
 * Layout 2 had no permits. A program of that layout that has the file open refuses a name that has
 * some, because of a bit in crowd that it does not know.
 */

#define LEASE_COLUMNS "name, fence, token, boot, since_ns, until_ns, label"

/* The numbers are those above; the assertion compares them. */
static const char schema[] = "CREATE TABLE locks ("
                             "  name     BLOB    NOT NULL PRIMARY KEY,"
                             "  fence    INTEGER NOT NULL,"
                             "  crowd    INTEGER NOT NULL,"
                             "  token    BLOB," /* NULL: not held exclusively */
                             "  boot     BLOB,"
                             "  since_ns INTEGER,"
                             "  until_ns INTEGER,"
                             "  label    TEXT"
                             ") STRICT, WITHOUT ROWID;"
                             "CREATE TABLE readers ("
                             "  name     BLOB    NOT NULL,"
                             "  token    BLOB    NOT NULL,"
                             "  boot     BLOB    NOT NULL,"
                             "  since_ns INTEGER NOT NULL,"
                             "  until_ns INTEGER NOT NULL,"
                             "  fence    INTEGER NOT NULL,"
                             "  label    TEXT,"
                             "  lim      INTEGER NOT NULL DEFAULT 0,"
                             "  permit   INTEGER NOT NULL DEFAULT 0,"
                             "  kept     INTEGER NOT NULL DEFAULT 0,"
                             "  PRIMARY KEY (name, token)"
                             ") STRICT, WITHOUT ROWID;"
                             "CREATE TABLE waiters ("
                             "  name     BLOB    NOT NULL,"
                             "  place    INTEGER NOT NULL,"
                             "  token    BLOB    NOT NULL,"
                             "  boot     BLOB    NOT NULL,"
                             "  mode     INTEGER NOT NULL,"
                             "  until_ns INTEGER NOT NULL,"
                             "  lease_ns INTEGER NOT NULL,"
                             "  label    TEXT,"
                             "  PRIMARY KEY (name, place),"
                             "  UNIQUE (name, token)"
                             ") STRICT, WITHOUT ROWID;"
                             "PRAGMA application_id = 1145850707;"
                             "PRAGMA user_version = 3;";

_Static_assert(SQ_APPLICATION_ID == 1145850707 && SQ_SCHEMA_VERSION == 3, "schema spells them out");

/* From layout 1, after the schema. */
static const char upgrade_1[] = "INSERT INTO locks (" LEASE_COLUMNS ", crowd)"
                                " SELECT " LEASE_COLUMNS ", 0 FROM names;"
                                "DROP TABLE names;";

static const char upgrade_2[] = "ALTER TABLE readers ADD COLUMN lim INTEGER NOT NULL DEFAULT 0;"
                                "ALTER TABLE readers ADD COLUMN permit INTEGER NOT NULL DEFAULT 0;"
                                "ALTER TABLE readers ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;"
                                "PRAGMA user_version = 3;";

/* Rows that are alive: ?3 is the present boot, ?4 the time. A row with a token of another length
 * was not written by dlock. */
#define LIVE          "boot = ?3 AND until_ns > ?4 AND length(token) = 16"
#define MINE          "name = ?1 AND token = ?2 AND boot = ?3 AND until_ns > ?4"
#define LIVE_WAITERS  "(SELECT count(*) FROM waiters WHERE waiters.name = held.name AND " LIVE ")"
#define DEAD_OF(name) "DELETE FROM " name " WHERE name = ?1 AND NOT (" LIVE ")"

/* When a waiter was queued. dlock 0.2 counted places from 1. A place that is no time becomes one
 * that is a millisecond ahead: its age is -1, not known. */
#define ARRIVAL "iif(place BETWEEN 1000000000 AND ?4, place, ?4 + 1000000)"

/* Takes the mark of life.h off a label. */
#define UNMARK(table)                                                                       \
    "UPDATE " table " SET label = substr(label, 1, instr(label, char(31)) - 1) WHERE " MINE \
    " AND instr(label, char(31)) > 0"

/* The holders of the names for which `name <how> ?1`, and the number of waiters of each name. */
#define HOLDERS(how)                                                                         \
    "SELECT " LEASE_COLUMNS ", 0, CASE WHEN crowd = 0 THEN 0 ELSE " LIVE_WAITERS " END,"     \
    " 0, 0, 0"                                                                               \
    " FROM locks AS held WHERE name " how " ?1 AND token IS NOT NULL AND " LIVE " UNION ALL" \
    " SELECT " LEASE_COLUMNS ", lim = 0, " LIVE_WAITERS ", lim, permit, kept"                \
    " FROM readers AS held WHERE name " how " ?1 AND " LIVE " ORDER BY 1"

/* The parameters are those of enum sqlite_parameter. */
const char *const sqlite_statement_text[SQ_STATEMENTS] = {
    [SQ_BEGIN] = "BEGIN IMMEDIATE",
    [SQ_COMMIT] = "COMMIT",
    [SQ_ROLLBACK] = "ROLLBACK",

    [SQ_FIND] = "SELECT fence, crowd, token, boot, until_ns FROM locks WHERE name = ?1",

    [SQ_TAKE_FIRST] =
        "INSERT INTO locks (name, token, boot, since_ns, until_ns, fence, crowd, label)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",

    [SQ_TAKE] = "UPDATE locks SET token = ?2, boot = ?3, since_ns = ?4, until_ns = ?5, fence = ?6,"
                " crowd = ?7, label = ?8 WHERE name = ?1",

    [SQ_MARK] = "INSERT INTO locks (name, fence, crowd) VALUES (?1, ?6, ?7)"
                " ON CONFLICT (name) DO UPDATE SET fence = ?6, crowd = ?7",

    [SQ_FREE] = "UPDATE locks SET token = NULL, fence = ?6, crowd = ?7 WHERE name = ?1",

    [SQ_EXTEND] = "UPDATE locks SET until_ns = max(until_ns, ?5) WHERE " MINE
                  " AND fence >= 0 RETURNING fence, until_ns, crowd",

    /* No waiter has to get the name. A column that is NULL needs no copying. */
    [SQ_RELEASE] = "UPDATE locks SET token = NULL, boot = NULL, since_ns = NULL, until_ns = NULL,"
                   " label = NULL WHERE " MINE " AND crowd = 0",

    [SQ_READERS_COUNT] = "SELECT count(*), count(*) FILTER (WHERE " LIVE "),"
                         " iif(max(lim) > 1, min(until_ns) FILTER (WHERE " LIVE "),"
                         " max(until_ns) FILTER (WHERE " LIVE ")),"
                         " max(lim) FILTER (WHERE " LIVE ") FROM readers WHERE name = ?1",
    [SQ_READERS_REAP] = DEAD_OF("readers"),
    [SQ_READERS_END] = "DELETE FROM readers WHERE name = ?1 AND " LIVE,

    [SQ_READER_TAKE] = "INSERT INTO readers (name, token, boot, since_ns, until_ns, fence, label)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?8)",
    [SQ_READER_KEEP] = "INSERT OR REPLACE INTO readers (" LEASE_COLUMNS ")"
                       " SELECT name, fence, token, boot, since_ns, max(until_ns, ?5), label"
                       " FROM locks WHERE " MINE,
    [SQ_READER_EXTEND] = "UPDATE readers SET until_ns = max(until_ns, ?5) WHERE " MINE
                         " AND fence >= 0 RETURNING fence, until_ns, permit",
    [SQ_READER_RELEASE] = "DELETE FROM readers WHERE " MINE,

    /* The dead were removed before. */
    [SQ_PERMIT_TAKE] =
        "INSERT INTO readers (name, token, boot, since_ns, until_ns, fence, label, lim, permit)"
        " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?8, ?9, min(free) FROM (SELECT 0 AS free UNION ALL"
        " SELECT permit + 1 FROM readers WHERE name = ?1)"
        " WHERE free NOT IN (SELECT permit FROM readers WHERE name = ?1) RETURNING permit",
    [SQ_PERMIT_KEEP] = "UPDATE readers SET token = randomblob(16), until_ns = ?5, kept = 1"
                       " WHERE lim > 1 AND " MINE,
    [SQ_LOCK_KEEP] = "INSERT INTO readers (" LEASE_COLUMNS ", lim, kept)"
                     " SELECT name, fence, randomblob(16), boot, since_ns, ?5, label, 1, 1"
                     " FROM locks WHERE " MINE,

    [SQ_WAITERS_COUNT] = "SELECT count(*), count(*) FILTER (WHERE " LIVE ")"
                         " FROM waiters WHERE name = ?1",
    [SQ_WAITERS_REAP] = DEAD_OF("waiters"),
    [SQ_WAITERS_HEAD] = "SELECT token, mode, lease_ns, label FROM waiters WHERE name = ?1"
                        " ORDER BY place LIMIT 1",

    [SQ_WAITER_JOIN] =
        "INSERT INTO waiters (name, place, token, boot, mode, until_ns, lease_ns, label)"
        " VALUES (?1, (SELECT max(ifnull(max(place), 0) + 1, ?4) FROM waiters WHERE name = ?1),"
        " ?2, ?3, ?9, ?5, ?10, ?8)",
    [SQ_WAITER_STAY] = "UPDATE waiters SET until_ns = max(until_ns, ?5) WHERE " MINE,
    [SQ_WAITER_AHEAD] = "SELECT count(*) FROM waiters WHERE name = ?1 AND " LIVE
                        " AND place < (SELECT place FROM waiters WHERE name = ?1 AND token = ?2)",
    [SQ_WAITER_LEAVE] = "DELETE FROM waiters WHERE name = ?1 AND token = ?2",

    [SQ_GRANTED] = "SELECT fence, until_ns, 0 FROM locks WHERE " MINE " UNION ALL"
                   " SELECT fence, until_ns, permit FROM readers WHERE " MINE,

    [SQ_LIVES] =
        "SELECT token, label FROM locks WHERE name = ?1 AND token IS NOT NULL AND " LIVE
        " UNION ALL SELECT token, label FROM readers WHERE name = ?1 AND kept = 0 AND " LIVE,
    [SQ_LIVES_NOT] = UNMARK("locks"),
    [SQ_LIVES_NOT_READER] = UNMARK("readers"),

    [SQ_INSPECT] = HOLDERS("="),
    [SQ_INSPECT_WAITERS] = "SELECT name, 0, token, boot, " ARRIVAL ", until_ns, label, mode = 1, 0,"
                           " 0, 0, 0 FROM waiters"
                           " WHERE name = ?1 AND " LIVE " ORDER BY place",
    [SQ_LIST] = HOLDERS(">="),
};

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
        rc = run(handle, schema);
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
        return run(handle, upgrade_2);
    rc = run(handle, schema);
    return rc == SQLITE_OK ? run(handle, upgrade_1) : rc;
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
