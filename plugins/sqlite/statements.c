/* SPDX-License-Identifier: MIT */
/*
 * All SQL. A name is held by `token` while `boot` is this boot and until_ns is in the future;
 * otherwise it is free, whatever else the row says. Rows are never deleted, so that `fence`, the
 * last number given out, survives.
 *
 * Times are nanoseconds of sqlite_clock_now. What later versions add (readers, waiters) goes into
 * tables of their own and raises user_version.
 */
#include "sqlite.h"

/* The numbers are those of sqlite.h; a test compares them. */
const char sqlite_schema[] = "CREATE TABLE names ("
                             "  name     BLOB    NOT NULL PRIMARY KEY,"
                             "  fence    INTEGER NOT NULL,"
                             "  token    BLOB," /* NULL: free */
                             "  boot     BLOB,"
                             "  since_ns INTEGER,"
                             "  until_ns INTEGER,"
                             "  label    TEXT"
                             ") STRICT, WITHOUT ROWID;"
                             "PRAGMA application_id = 1145850707;"
                             "PRAGMA user_version = 1;";

_Static_assert(SQ_APPLICATION_ID == 1145850707 && SQ_SCHEMA_VERSION == 1,
               "sqlite_schema spells them out");

/* ?1 name, ?2 token, ?3 boot, ?4 now, ?5 until, ?6 fence, ?7 label */
const char *const sqlite_statement_text[SQ_STATEMENTS] = {
    [SQ_BEGIN] = "BEGIN IMMEDIATE",
    [SQ_COMMIT] = "COMMIT",
    [SQ_ROLLBACK] = "ROLLBACK",

    [SQ_FIND] = "SELECT name, fence, token, boot, since_ns, until_ns, label"
                " FROM names WHERE name = ?1",

    [SQ_TAKE] = "INSERT INTO names (name, token, boot, since_ns, until_ns, fence, label)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                " ON CONFLICT (name) DO UPDATE SET token = ?2, boot = ?3, since_ns = ?4,"
                " until_ns = ?5, fence = ?6, label = ?7",

    [SQ_EXTEND] = "UPDATE names SET until_ns = max(until_ns, ?5)"
                  " WHERE name = ?1 AND token = ?2 AND boot = ?3 AND until_ns > ?4"
                  " RETURNING name, fence, token, boot, since_ns, until_ns, label",

    [SQ_RELEASE] = "UPDATE names SET token = NULL"
                   " WHERE name = ?1 AND token = ?2 AND boot = ?3 AND until_ns > ?4",

    [SQ_LIST] = "SELECT name, fence, token, boot, since_ns, until_ns, label"
                " FROM names WHERE name >= ?1 AND token IS NOT NULL ORDER BY name",
};
