/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/layout.c */
/* Is a store of layout 1 brought up to date with all that it holds, once, and does a program of
 * that layout keep off afterwards? */
#include "peer_kit.h"
#include "session.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <string.h>

#define FENCE INT64_C(4000000000000000000)

/* As that version made it. */
static const char layout_1[] = "PRAGMA journal_mode = WAL;"
                               "CREATE TABLE names ("
                               "  name     BLOB    NOT NULL PRIMARY KEY,"
                               "  fence    INTEGER NOT NULL,"
                               "  token    BLOB,"
                               "  boot     BLOB,"
                               "  since_ns INTEGER,"
                               "  until_ns INTEGER,"
                               "  label    TEXT"
                               ") STRICT, WITHOUT ROWID;"
                               "PRAGMA application_id = 1145850707;"
                               "PRAGMA user_version = 1;";

static char directory[64], path[64];
static struct dlt_store s;
static struct sqlite_clock clock_now;

static void sql(sqlite3 *db, const char *text)
{
    char *why = NULL;

    cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, &why), SQLITE_OK, "%s", why);
}

static sqlite3 *connect_raw(void)
{
    sqlite3 *db = NULL;

    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

/* "job" is held by aaaa... for a minute, "free" is not. */
static void fill(sqlite3 *db)
{
    sqlite3_stmt *row = NULL;
    int64_t now = sqlite_clock_now(&clock_now);

    cr_assert_eq(sqlite3_prepare_v2(db,
                                    "INSERT INTO names VALUES (x'6a6f62', ?1, ?2, ?3, ?4, ?5,"
                                    " 'old'), (x'66726565', ?1, NULL, NULL, NULL, NULL, NULL)",
                                    -1, &row, NULL),
                 SQLITE_OK);
    (void)sqlite3_bind_int64(row, 1, FENCE);
    (void)sqlite3_bind_blob(row, 2, "aaaaaaaaaaaaaaaa", DLOCK_TOKEN_SIZE, SQLITE_STATIC);
    (void)sqlite3_bind_blob(row, 3, clock_now.boot, SQ_BOOT_SIZE, SQLITE_STATIC);
    (void)sqlite3_bind_int64(row, 4, now);
    (void)sqlite3_bind_int64(row, 5, now + 60 * DL_NS_PER_S);
    cr_assert_eq(sqlite3_step(row), SQLITE_DONE);
    (void)sqlite3_finalize(row);
}

static void set_up(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    sqlite3 *db = NULL;

    cr_assert_eq(sqlite_clock_init(&clock_now, &err), DLOCK_OK);
    dlt_store_directory(directory, path);
    dlt_store_init(&s, path);
    db = connect_raw();
    sql(db, layout_1);
    fill(db);
    (void)sqlite3_close(db);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(upgrade, .init = set_up, .fini = tear_down, .timeout = 60);

static int64_t number(sqlite3 *db, const char *text)
{
    sqlite3_stmt *row = NULL;
    int64_t value = -1;

    cr_assert_eq(sqlite3_prepare_v2(db, text, -1, &row, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    if (sqlite3_step(row) == SQLITE_ROW)
        value = sqlite3_column_int64(row, 0);
    (void)sqlite3_finalize(row);
    return value;
}

Test(upgrade, what_is_held_stays_held)
{
    struct dlt_request a, b;
    struct dlt_holder holder;
    size_t count = 1;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_store_request(&s, &a, "job", 'a', 90000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_store_inspect(&s, "job", &holder, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holder.label, "old");
    cr_assert_eq(holder.fence, (uint64_t)FENCE);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 30000);
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK, "by who has the token");
    cr_assert_gt(s.grant.lease_ms, 80000);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
}

Test(upgrade, TRY_6_fences_go_on_from_where_they_were)
{
    struct dlt_request b;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_request(&s, &b, "free", 'b', 60000);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_gt(s.grant.fence, (uint64_t)FENCE);
}

Test(upgrade, all_that_is_new_works_in_an_old_store)
{
    struct dlt_request a, b, r;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    dlt_store_request(&s, &r, "job", 'r', 60000);
    r.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_store_enqueue(&s, &r), DLOCK_BUSY);
    cr_assert_eq(dlt_store_enqueue(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_watch(&s, &r, 30000), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &r), DLOCK_OK);
    cr_assert_eq(dlt_store_watch(&s, &b, 30000), DLOCK_OK);
}

/* The same text makes both, so that the layouts cannot drift apart. */
Test(upgrade, an_upgraded_store_is_like_a_new_one)
{
    sqlite3 *db = NULL;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    db = connect_raw();
    cr_assert_eq(number(db, "PRAGMA user_version"), 3);
    cr_assert_eq(number(db, "PRAGMA application_id"), 0x444C4B53);
    cr_assert_eq(number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'names'"), 0);
    cr_assert_eq(number(db, "SELECT count(*) FROM locks WHERE crowd = 0"), 2);
    (void)sqlite3_close(db);
}

/* create=off: a program that only looks changes nothing under a running program of layout 1. */
Test(upgrade, CONFIG_with_create_off_and_nothing_is_changed)
{
    sqlite3 *db = NULL;

    s.target.create_off = 1;
    cr_assert_eq(dlt_store_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "layout 1"), "%s", s.err.message);
    db = connect_raw();
    cr_assert_eq(number(db, "PRAGMA user_version"), 1);
    cr_assert_eq(number(db, "SELECT count(*) FROM names"), 2);
    cr_assert_eq(sqlite3_close(db), SQLITE_OK);
    s.target.create_off = 0;
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

/* One that was opened before: its statements are those of layout 1. */
Test(upgrade, an_old_program_that_is_running_fails_and_takes_nothing)
{
    sqlite3 *db = connect_raw();
    sqlite3_stmt *take = NULL;

    cr_assert_eq(sqlite3_prepare_v3(db,
                                    "UPDATE names SET token = x'00', until_ns = 1"
                                    " WHERE name = x'66726565'",
                                    -1, SQLITE_PREPARE_PERSISTENT, &take, NULL),
                 SQLITE_OK);
    cr_assert_eq(sqlite3_step(take), SQLITE_DONE);
    (void)sqlite3_reset(take);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(sqlite3_step(take), SQLITE_ERROR, "which that version calls CONFIG");
    (void)sqlite3_finalize(take);
    cr_assert_eq(sqlite3_prepare_v2(db, "SELECT token FROM names", -1, &take, NULL), SQLITE_ERROR);
    (void)sqlite3_close(db);
}

Test(upgrade, programs_that_open_it_at_once_upgrade_it_once)
{
    enum { PEERS = 6 };
    struct dlt_peer peers[PEERS];
    struct dlt_answer answer;

    for (int i = 0; i < PEERS; i++)
        dlt_peer_start(&peers[i], NULL);
    for (int i = 0; i < PEERS; i++)
        dlt_peer_say(&peers[i], "open %s normal", path);
    for (int i = 0; i < PEERS; i++) {
        answer = dlt_peer_hear(&peers[i]);
        cr_assert_eq(answer.status, DLOCK_OK, "%s", answer.message);
    }
    for (int i = 0; i < PEERS; i++) {
        cr_assert_eq(dlt_peer_ask(&peers[i], "try job b 60000 1000").status, DLOCK_BUSY);
        dlt_peer_kill(&peers[i]);
    }
}

/* Nothing is half done when it cannot be done. */
Test(upgrade, UNAVAILABLE_while_a_transaction_is_open_and_nothing_changed)
{
    sqlite3 *db = connect_raw();

    sql(db, "BEGIN IMMEDIATE");
    cr_assert_eq(dlt_store_open(&s), DLOCK_UNAVAILABLE);
    sql(db, "ROLLBACK");
    cr_assert_eq(number(db, "PRAGMA user_version"), 1);
    cr_assert_eq(number(db, "SELECT count(*) FROM names"), 2);
    (void)sqlite3_close(db);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
}

static const char layout_2[] = "DELETE FROM names;" /* what layout 2 had, and a reader of it */
                               "DROP TABLE names;"
                               "CREATE TABLE locks (name BLOB NOT NULL PRIMARY KEY,"
                               " fence INTEGER NOT NULL, crowd INTEGER NOT NULL, token BLOB,"
                               " boot BLOB, since_ns INTEGER, until_ns INTEGER, label TEXT"
                               ") STRICT, WITHOUT ROWID;"
                               "CREATE TABLE readers (name BLOB NOT NULL, token BLOB NOT NULL,"
                               " boot BLOB NOT NULL, since_ns INTEGER NOT NULL,"
                               " until_ns INTEGER NOT NULL, fence INTEGER NOT NULL, label TEXT,"
                               " PRIMARY KEY (name, token)) STRICT, WITHOUT ROWID;"
                               "CREATE TABLE waiters (name BLOB NOT NULL, place INTEGER NOT NULL,"
                               " token BLOB NOT NULL, boot BLOB NOT NULL, mode INTEGER NOT NULL,"
                               " until_ns INTEGER NOT NULL, lease_ns INTEGER NOT NULL, label TEXT,"
                               " PRIMARY KEY (name, place), UNIQUE (name, token)"
                               ") STRICT, WITHOUT ROWID;"
                               "INSERT INTO locks (name, fence, crowd) VALUES (x'6a6f62', 99, 1);"
                               "PRAGMA user_version = 2;";

/* A reader that layout 2 has written is a reader, and not a permit. */
Test(upgrade, of_layout_2_keeps_readers_and_learns_permits)
{
    sqlite3 *db = connect_raw();
    sqlite3_stmt *row = NULL;
    struct dlt_request writer, reader, permits[3];

    sql(db, layout_2);
    cr_assert_eq(sqlite3_prepare_v2(db,
                                    "INSERT INTO readers VALUES (x'6a6f62', zeroblob(16), ?1, ?2,"
                                    " ?3, 98, 'old')",
                                    -1, &row, NULL),
                 SQLITE_OK, "%s", sqlite3_errmsg(db));
    (void)sqlite3_bind_blob(row, 1, clock_now.boot, SQ_BOOT_SIZE, SQLITE_STATIC);
    (void)sqlite3_bind_int64(row, 2, sqlite_clock_now(&clock_now));
    (void)sqlite3_bind_int64(row, 3, sqlite_clock_now(&clock_now) + 60 * DL_NS_PER_S);
    cr_assert_eq(sqlite3_step(row), SQLITE_DONE, "%s", sqlite3_errmsg(db));
    (void)sqlite3_finalize(row);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(number(db, "PRAGMA user_version"), 3);
    dlt_store_request(&s, &writer, "job", 'w', 60000);
    dlt_store_request(&s, &reader, "job", 'r', 60000);
    reader.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_store_try(&s, &writer), DLOCK_BUSY);
    cr_assert_eq(dlt_store_try(&s, &reader), DLOCK_OK);
    for (uint32_t i = 0; i < 3; i++) {
        dlt_store_request(&s, &permits[i], "gpu", (unsigned char)('a' + i), 60000);
        permits[i].req.limit = 2;
        cr_assert_eq(dlt_store_try(&s, &permits[i]), i < 2 ? DLOCK_OK : DLOCK_BUSY);
        cr_assert_eq(s.grant.permit, i < 2 ? i : 0);
    }
    /* By this bit of crowd a program of layout 2 sees that there is something it does not know. */
    cr_assert_eq(number(db, "SELECT crowd FROM locks WHERE name = x'677075'"), 4);
    (void)sqlite3_close(db);
}
