/* SPDX-License-Identifier: MIT */
/*
 * All SQL that runs when locks are taken and given back. schema.c says what the columns mean.
 *
 * The assignments of an UPDATE are made from left to right, and each sees the ones before it: their
 * order matters here. The connection counts rows that were found, not rows that changed. By
 * LAST_INSERT_ID(x) an UPDATE reports what it stored, in the same exchange.
 *
 * A name is held by `token` while until_us is in the future, or by readers while readers_us is. The
 * clock is read at the start of the statement, which may have waited for the row since. So a lease
 * counts from before its execution, and the row is judged as it is after the wait.
 */
#include "statements.h"

#include "connection.h"
#include "lib/text.h"
#include "query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The server's time in microseconds since 1970, UTC, fixed at the start of the statement. */
#define MY_NOW "TIMESTAMPDIFF(MICROSECOND,TIMESTAMP'1970-01-01 00:00:00',UTC_TIMESTAMP(6))"

#define LIVE   "until_us > " MY_NOW
#define OVER   "until_us <= " MY_NOW
#define UNREAD "readers_us <= " MY_NOW
#define UNTIL  "(" MY_NOW " + @d)"

/* What seems to be later is of before a step back of the clock. row_queue.c makes reservations of
 * 1.25 s at most. */
#define SOON         "10000000 + " MY_NOW
#define RESERVED     "next_us BETWEEN 1 + " MY_NOW " AND " SOON
#define NOT_RESERVED "NOT (" RESERVED ")"
#define MAY_TAKE     "(" NOT_RESERVED " OR next_token = @t)"
#define RESERVE(reservations) \
    "UPDATE " reservations " SET next_token = @t, next_us = " MY_NOW " + @i WHERE name = @n"
/* What is below 0 reserves nothing, and says when a head was there last. Only a head may say so:
 * the others would wait for the next one again. */
#define UNRESERVED_IF(is_head) \
    "next_us = IF(IF(" RESERVED ", next_token = @t, " is_head "), -" MY_NOW ", next_us)"
#define UNRESERVED    UNRESERVED_IF("1")
#define UNRESERVED_BY UNRESERVED_IF("@i")
#define IS_SILENT(reservations)                                                       \
    "SELECT ABS(next_us) NOT BETWEEN " MY_NOW " - @i AND " SOON " FROM " reservations \
    " WHERE name = @n"

#define NEXT_FENCE "GREATEST(fence + 32, " MY_NOW ")"
_Static_assert(MY_FENCE_STEP == 32, "NEXT_FENCE spells it out");

/* Shared by row and insert. */
/* No token: the name has permits, or is kept (row_shared.h). */
#define HAS_PERMITS "token = '' AND " LIVE

#define POLL_TEXT                                                                     \
    "SELECT token = @t, until_us - " MY_NOW ", readers_us - " MY_NOW ", " HAS_PERMITS \
    " FROM {names} WHERE name = @n"
#define EXTEND_TEXT                                               \
    "UPDATE {names} SET until_us = GREATEST(until_us, " UNTIL ")" \
    " WHERE name = @n AND token = @t AND " LIVE
/* The leases come first: a scan of {names} would stop at rows that others have locked. */
#define LEASES      "(@b) v STRAIGHT_JOIN {names} n ON n.name = v.name AND n.token = v.token"
#define LEASES_LIVE " WHERE n.until_us > " MY_NOW
#define LEASES_STATEMENTS                                                                  \
    [MY_EXTEND_ALL] = {"@wUPDATE " LEASES " SET n.until_us = GREATEST(n.until_us, " MY_NOW \
                       " + v.ttl_us)" LEASES_LIVE,                                         \
                       ""},                                                                \
    [MY_FREE_OF] = {"SELECT v.i FROM " LEASES LEASES_LIVE " FOR UPDATE SKIP LOCKED", "i"}

/* Of many names: a scan of the table would stop at rows that others have locked. */
#define BY_KEY " FORCE INDEX (PRIMARY)"

#define STEP_DOWN_TEXT "UPDATE {names} SET until_us = 0, token = '' WHERE name = @n"
#define READERS_TEXT   "SELECT COALESCE(MAX(until_us), 0) FROM {readers} WHERE name = @n"

#define ROW_GUARD                                                                         \
    "SELECT fence, token = @t, until_us - " MY_NOW ", readers_us - " MY_NOW ", " MAY_TAKE \
    ", " HAS_PERMITS " FROM {names} WHERE name = @n FOR UPDATE"
#define INSERT_GUARD                                                                  \
    "SELECT COALESCE((SELECT f.fence FROM {fences} f WHERE f.name = @n), 0),"         \
    " token = @t, until_us - " MY_NOW ", readers_us - " MY_NOW ","                    \
    " COALESCE((SELECT " MAY_TAKE " FROM {fences} WHERE name = @n), 1), " HAS_PERMITS \
    " FROM {names} WHERE name = @n FOR UPDATE"

#define READER_STATEMENTS                                                                        \
    [MY_READER_ADD] = {"INSERT INTO {readers} (name, token, since_us, until_us, label)"          \
                       " VALUES (@n, @t, " MY_NOW ", " UNTIL ", @l)"                             \
                       " ON DUPLICATE KEY UPDATE until_us = GREATEST(until_us, " UNTIL ")",      \
                       ""},                                                                      \
    [MY_READER_STEP_DOWN] = {"INSERT INTO {readers} (name, token, since_us, until_us, label)"    \
                             " SELECT @n, @t, " MY_NOW ", GREATEST(until_us, " UNTIL "), @l"     \
                             " FROM {names} WHERE name = @n",                                    \
                             ""},                                                                \
    [MY_READER_EXTEND] = {"UPDATE {readers} SET until_us = GREATEST(until_us, " UNTIL ")"        \
                          " WHERE name = @n AND token = @t AND " LIVE,                           \
                          ""},                                                                   \
    [MY_READER_REMOVE] = {"DELETE FROM {readers} WHERE name = @n AND token = @t AND " LIVE, ""}, \
    [MY_READER_BREAK] = {"DELETE FROM {readers} WHERE name = @n AND " LIVE, ""},                 \
    [MY_READER_REAP] = {"DELETE FROM {readers} WHERE name = @n AND " OVER, ""},                  \
    [MY_READERS_UPDATE] = {"UPDATE {names} SET token = IF(" LIVE ", token, ''),"                 \
                           " until_us = IF(" LIVE ", until_us, 0),"                              \
                           " readers_us = (" READERS_TEXT ") WHERE name = @n",                   \
                           ""}

/* The first column is 2 if the holders are in {permits}. */
#define HOLDERS(fence, from, which)                                                        \
    "SELECT IF(n.token = '', 2, 0) AS kind, " fence " AS fence, n.until_us - " MY_NOW      \
    " AS left_us, " MY_NOW " - n.since_us AS held_us, n.name, n.token, n.label FROM " from \
    " WHERE n.until_us > " MY_NOW which " AND n.name "
#define HOLDING_READERS(fence, from)                                         \
    "SELECT 1, " fence ", r.until_us - " MY_NOW ", " MY_NOW " - r.since_us," \
    " r.name, r.token, r.label FROM " from " WHERE r.until_us > " MY_NOW " AND r.name "
#define WITH_DATA(holders)                                                                      \
    "SELECT h.kind, h.fence, h.left_us, h.held_us, h.name, h.token, h.label, @j FROM (" holders \
    ") h"

/* fence: of the name, in a subquery. Kept rows have the token backwards: it holds nothing any more.
 */
#define PERMIT_COLUMNS "(name, token, since_us, until_us, label, fence, lim, permit, kept)"
#define PERMIT_STATEMENTS(fence)                                                                 \
    [MY_PERMIT_LIST] = {"SELECT token = @t AND kept = 0, lim, permit, until_us - " MY_NOW        \
                        ", fence"                                                                \
                        " FROM {permits} WHERE name = @n AND " LIVE,                             \
                        "iiiii"},                                                                \
    [MY_PERMIT_POLL] = {"SELECT COUNT(*) FROM {permits} WHERE name = @n AND " LIVE, "i"},        \
    [MY_LIMIT] = {"SELECT COALESCE(MAX(lim), 0) FROM {permits} WHERE name = @n AND " LIVE, "i"}, \
    [MY_PERMIT_ADD] = {"INSERT INTO {permits} " PERMIT_COLUMNS " VALUES (@n, @t, " MY_NOW        \
                       ", " UNTIL ", @l, LAST_INSERT_ID(), @i DIV 4096, @i MOD 4096, 0)",        \
                       ""},                                                                      \
    [MY_PERMIT_EXTEND] = {"UPDATE {permits} SET until_us = GREATEST(until_us, " UNTIL ")"        \
                          " WHERE name = @n AND token = @t AND kept = 0 AND " LIVE,              \
                          ""},                                                                   \
    [MY_PERMIT_REMOVE] = {"DELETE FROM {permits}"                                                \
                          " WHERE name = @n AND token = @t AND kept = 0 AND " LIVE,              \
                          ""},                                                                   \
    [MY_PERMIT_BREAK] = {"DELETE FROM {permits} WHERE name = @n AND " LIVE, ""},                 \
    [MY_PERMIT_REAP] = {"DELETE FROM {permits} WHERE name = @n AND " OVER, ""},                  \
    [MY_PERMIT_CLEAR] = {"DELETE FROM {permits} WHERE name = @n", ""},                           \
    [MY_PERMIT_KEEP] = {"UPDATE {permits} SET token = REVERSE(token), kept = 1,"                 \
                        " until_us = " MY_NOW " + @i"                                            \
                        " WHERE name = @n AND token = @t AND kept = 0 AND " LIVE,                \
                        ""},                                                                     \
    [MY_KEEP_LOCK] = {"INSERT INTO {permits} " PERMIT_COLUMNS                                    \
                      " SELECT name, REVERSE(token), since_us, " MY_NOW " + @i, label, " fence   \
                      ", 1, 0, 1 FROM {names} WHERE name = @n AND token = @t AND " LIVE,         \
                      ""},                                                                       \
    [MY_PERMITS_MARK] = {"UPDATE {names} SET token = '', until_us ="                             \
                         " (SELECT COALESCE(MAX(p.until_us), 0) FROM {permits} p"                \
                         " WHERE p.name = @n) WHERE name = @n",                                  \
                         ""},                                                                    \
    [MY_INSPECT_PERMITS] = {"SELECT h.lim, h.fence, h.until_us - " MY_NOW ", " MY_NOW            \
                            " - h.since_us, h.permit, h.kept, h.name, h.token, h.label, @j"      \
                            " FROM {permits} h WHERE h.until_us > " MY_NOW " AND h.name = @n",   \
                            "iiiiiibbbb"}
_Static_assert(MY_PERMIT_SCALE == 4096, "MY_PERMIT_ADD spells it out");

/* row_shared.h: a day is more than a request may be under way. */
#define GONE_FROM(table)                                             \
    " AND NOT EXISTS (SELECT 1 FROM {" table "} x WHERE x.name = @n" \
    " AND x.token = {data}.token)"
#define REAP_DATA                                                                                  \
    "DELETE FROM {data} WHERE name = @n AND made_us < " MY_NOW " - 86400000000" GONE_FROM("names") \
        GONE_FROM("readers")
#define DATA_STATEMENTS                                                                            \
    [MY_DATA_PUT] = {"INSERT INTO {data} (name, token, made_us, data)"                             \
                     " VALUES (@n, @t, " MY_NOW ", @v)"                                            \
                     " ON DUPLICATE KEY UPDATE made_us = " MY_NOW,                                 \
                     ""},                                                                          \
    [MY_DATA_REMOVE] = {"DELETE FROM {data} WHERE name = @n AND token = @t", ""},                  \
    [MY_DATA_REAP] = {REAP_DATA GONE_FROM("permits") " LIMIT 100", ""},                            \
    [MY_DATA_REAP_FEW] = {REAP_DATA " AND NOT EXISTS (SELECT 1 FROM {names} x"                     \
                                    " WHERE x.name = @n AND x.token = '' AND x.until_us > " MY_NOW \
                                    ") LIMIT 100",                                                 \
                          ""}

/* Waiters sleep in GET_LOCK, but the head, which polls, and has the name reserved meanwhile. The
 * server shows the connections of the same user. */
#define WAITERS(reservations)                                            \
    "SELECT COUNT(*) + COALESCE((SELECT " RESERVED " FROM " reservations \
    " WHERE name = @n), 0) FROM @p WHERE state = 'User lock'"            \
    " AND db = DATABASE() AND info = x'@b'"

#define ROW_HOLDERS HOLDERS("n.fence", "{names} n", "")
#define ROW_READERS HOLDING_READERS("n.fence", "{readers} r JOIN {names} n ON n.name = r.name")
/* Who has the row, but no number yet, is no holder: see NO_NUMBER_YET. From 5 s on it will hardly
 * come back for one, and the name is taken: it is shown with the least that it could get. */
#define HAS_NUMBER "COALESCE(f.fence, 0) > -n.readers_us"
#define INSERT_HOLDERS                                                                      \
    HOLDERS("IF(" HAS_NUMBER ", f.fence, GREATEST(COALESCE(f.fence, 0) + 32, n.since_us))", \
            "{names} n LEFT JOIN {fences} f ON f.name = n.name",                            \
            " AND (" HAS_NUMBER " OR n.since_us < " MY_NOW " - 5000000)")
#define INSERT_READERS \
    HOLDING_READERS("COALESCE(f.fence, 0)", "{readers} r LEFT JOIN {fences} f ON f.name = r.name")

/* The owners that got it and whose connection is there: @i is the time that they may have left. The
 * last exclusive grant ended all before it, and a shared one after it ended the exclusive one. */
#define SESSION_HOLDERS                                                        \
    "SELECT 0, n.fence, @i, " MY_NOW " - n.since_us, n.name, n.token, n.label" \
    " FROM {fences} n JOIN @p p ON p.id = n.conn"                              \
    " WHERE NOT EXISTS (SELECT 1 FROM {readers} x"                             \
    " WHERE x.name = n.name AND x.since_us > n.since_us) AND n.name "
#define SESSION_READERS                                                                     \
    "SELECT 1, COALESCE(f.fence, 0), @i, " MY_NOW " - r.since_us, r.name, r.token, r.label" \
    " FROM {readers} r JOIN @p p ON p.id = r.conn"                                          \
    " LEFT JOIN {fences} f ON f.name = r.name"                                              \
    " WHERE r.since_us > COALESCE(f.since_us, 0) AND r.name "

/* LEFT() and not LIKE: a name may hold any byte. */
#define ONE        "= @n"
#define ALL(alias) ">= @n AND LEFT(" alias ".name, LENGTH(@n)) = @n"

static const struct my_sql of_row[MY_STATEMENTS] = {
    /* This is half of what an uncontended lock costs; a row that keeps its size is cheaper to
     * write. Therefore the token stays after an unlock. */
    [MY_TAKE] = {"UPDATE {names} SET fence = LAST_INSERT_ID(" NEXT_FENCE "), since_us = " MY_NOW ","
                 " until_us = " UNTIL ", token = @t, label = @l"
                 " WHERE name = @n AND " OVER " AND " UNREAD " AND " NOT_RESERVED,
                 ""},
    /* Where until_us is in the future here, its holder tries again. */
    [MY_TAKE_AGAIN] = {"UPDATE {names} SET"
                       " fence = LAST_INSERT_ID(IF(" LIVE ", fence, " NEXT_FENCE ")),"
                       " since_us = IF(" LIVE ", since_us, " MY_NOW "),"
                       " until_us = GREATEST(until_us, " UNTIL "), token = @t, label = @l,"
                       " " UNRESERVED_BY " WHERE name = @n AND " UNREAD " AND ((" LIVE
                       " AND token = @t)"
                       " OR (" OVER " AND " MAY_TAKE "))",
                       ""},
    [MY_RESERVE] = {"@w" RESERVE("{names}"), ""},
    [MY_RESERVE_IN_LINE] = {"@q" RESERVE("{names}"), ""},
    [MY_UNRESERVE] = {"UPDATE {names} SET " UNRESERVED " WHERE name = @n", ""},
    [MY_QUEUE_SILENT] = {IS_SILENT("{names}"), "i"},
    [MY_CREATE] = {"INSERT INTO {names} (name, fence, token, since_us, until_us, readers_us, label,"
                   " next_token, next_us)"
                   " VALUES (@n, LAST_INSERT_ID(" MY_NOW "), @t, " MY_NOW ", " UNTIL
                   ", 0, @l, '', 0)",
                   ""},
    [MY_ENSURE] =
        {"INSERT IGNORE INTO {names}"
         " (name, fence, token, since_us, until_us, readers_us, label, next_token, next_us)"
         " VALUES (@n, " MY_NOW ", '', 0, 0, 0, '', '', 0)",
         ""},
    [MY_POLL] = {POLL_TEXT, "iiii"},
    [MY_EXTEND] = {EXTEND_TEXT, ""},
    LEASES_STATEMENTS,
    [MY_UNLOCK] = {"UPDATE {names} SET until_us = 0"
                   " WHERE name = @n AND token = @t AND " LIVE,
                   ""},
    [MY_ENSURE_ALL] = {"@wINSERT IGNORE INTO {names} (name, fence, token, since_us, until_us,"
                       " readers_us, label, next_token, next_us)"
                       " SELECT v.name, 0, '', 0, 0, 0, '', '', 0 FROM (@b) v",
                       ""},
    [MY_TAKE_ALL] = {"@wUPDATE {names}" BY_KEY " SET fence = " NEXT_FENCE ", since_us = " MY_NOW
                     ", until_us = " UNTIL ", token = @t, label = @l"
                     " WHERE name IN (@b) AND " OVER " AND " UNREAD " AND " NOT_RESERVED,
                     ""},
    [MY_READ_ALL] = {"SELECT name, token, until_us - " MY_NOW ", readers_us - " MY_NOW ", fence"
                     " FROM {names}" BY_KEY " WHERE name IN (@b)",
                     "bbiii"},
    [MY_UNLOCK_ALL] = {"@wUPDATE {names}" BY_KEY " SET until_us = 0"
                       " WHERE name IN (@b) AND token = @t AND " LIVE,
                       ""},
    [MY_BREAK] = {"UPDATE {names} SET until_us = 0, token = ''"
                  " WHERE name = @n AND " LIVE " AND token <> '' AND (token = @t OR @i)",
                  ""},
    [MY_GUARD] = {ROW_GUARD, "iiiiii"},
    [MY_OVER_ALL] = {"SELECT name, token, until_us, readers_us, fence"
                     " FROM {names}" BY_KEY " WHERE name IN (@b)",
                     "bbiii"},
    [MY_GUARD_NOW] = {ROW_GUARD " NOWAIT", "iiiiii"},
    [MY_STEP_DOWN] = {STEP_DOWN_TEXT, ""},
    READER_STATEMENTS,
    PERMIT_STATEMENTS("fence"),
    DATA_STATEMENTS,
    [MY_PERMIT_FENCE] = {"UPDATE {names} SET fence = LAST_INSERT_ID(" NEXT_FENCE ")"
                         " WHERE name = @n",
                         ""},
    [MY_WAITERS] = {WAITERS("{names}"), "i"},
    [MY_INSPECT] = {WITH_DATA(ROW_HOLDERS ONE " UNION ALL " ROW_READERS ONE), "iiiibbbb"},
    [MY_LIST] = {WITH_DATA(ROW_HOLDERS ALL("n") " UNION ALL " ROW_READERS ALL("r")) " ORDER BY 5",
                 "iiiibbbb"},
};

/* An owner that lost the row before its number was made gets none: it would be above the number of
 * the next holder. */
#define HELD "EXISTS (SELECT 1 FROM {names} WHERE name = @n AND token = @t AND " LIVE ")"

/* For readers_us: no reader, and the number of the owner before, below 0. */
#define NO_NUMBER_YET "-COALESCE((SELECT fence FROM {fences} WHERE name = @n), 0)"

static const struct my_sql of_insert[MY_STATEMENTS] = {
    [MY_TAKE] = {"INSERT INTO {names} (name, token, since_us, until_us, readers_us, label)"
                 " SELECT @n, @t, " MY_NOW ", " UNTIL ", " NO_NUMBER_YET
                 ", @l FROM DUAL WHERE NOT EXISTS"
                 " (SELECT 1 FROM {fences} WHERE name = @n AND NOT " MAY_TAKE ")",
                 ""},
    [MY_RESERVE] = {"@w" RESERVE("{fences}"), ""},
    [MY_RESERVE_IN_LINE] = {"@q" RESERVE("{fences}"), ""},
    /* As MY_ENSURE_ALL: any number that follows is above 0. */
    [MY_RESERVE_FIRST] = {"@wINSERT IGNORE INTO {fences} (name, fence, next_token, next_us)"
                          " VALUES (@n, 0, @t, " MY_NOW " + @i)",
                          ""},
    [MY_UNRESERVE] = {"UPDATE {fences} SET " UNRESERVED " WHERE name = @n", ""},
    [MY_QUEUE_SILENT] = {IS_SILENT("{fences}"), "i"},
    [MY_SWEEP] = {"DELETE FROM {names} WHERE name = @n AND " OVER " AND " UNREAD, ""},
    [MY_FENCE] = {"UPDATE {fences} SET fence = LAST_INSERT_ID(" NEXT_FENCE "),"
                  " " UNRESERVED_BY " WHERE name = @n AND " HELD,
                  ""},
    [MY_FENCE_FIRST] = {"INSERT INTO {fences} (name, fence, next_token, next_us)"
                        " SELECT @n, LAST_INSERT_ID(" MY_NOW "), '', 0 FROM DUAL WHERE " HELD,
                        ""},
    [MY_ENSURE] = {"INSERT IGNORE INTO {names} (name, token, since_us, until_us, readers_us, label)"
                   " VALUES (@n, '', 0, 0, 0, '')",
                   ""},
    [MY_POLL] = {POLL_TEXT, "iiii"},
    [MY_EXTEND] = {EXTEND_TEXT, ""},
    LEASES_STATEMENTS,
    [MY_UNLOCK] = {"DELETE FROM {names} WHERE name = @n AND token = @t AND " LIVE, ""},
    [MY_ENSURE_ALL] = {"@wINSERT IGNORE INTO {fences} (name, fence, next_token, next_us)"
                       " SELECT v.name, 0, '', 0 FROM (@b) v",
                       ""},
    [MY_TAKE_ALL] = {"@wINSERT IGNORE INTO {names}"
                     " (name, token, since_us, until_us, readers_us, label)"
                     " SELECT name, @t, " MY_NOW ", " UNTIL ", -fence, @l FROM {fences}" BY_KEY
                     " WHERE name IN (@b) AND " NOT_RESERVED,
                     ""},
    [MY_FENCE_ALL] = {"@wUPDATE {fences} f" BY_KEY " SET fence = " NEXT_FENCE
                      " WHERE f.name IN (@b) AND EXISTS (SELECT 1 FROM {names} n"
                      " WHERE n.name = f.name AND n.token = @t AND n." LIVE ")",
                      ""},
    [MY_READ_ALL] = {"SELECT n.name, n.token, n.until_us - " MY_NOW ", n.readers_us - " MY_NOW
                     ", COALESCE(f.fence, 0) FROM {names} n" BY_KEY
                     " LEFT JOIN {fences} f ON f.name = n.name WHERE n.name IN (@b)",
                     "bbiii"},
    [MY_UNLOCK_ALL] = {"@wDELETE n FROM {names} n" BY_KEY
                       " WHERE n.name IN (@b) AND n.token = @t AND n." LIVE,
                       ""},
    [MY_BREAK] = {"DELETE FROM {names} WHERE name = @n AND " LIVE " AND token <> ''"
                  " AND (token = @t OR @i)",
                  ""},
    [MY_GUARD] = {INSERT_GUARD, "iiiiii"},
    [MY_GUARD_NOW] = {INSERT_GUARD " NOWAIT", "iiiiii"},
    [MY_OVER_ALL] = {"SELECT name, token, until_us, readers_us, 0"
                     " FROM {names}" BY_KEY " WHERE name IN (@b)",
                     "bbiii"},
    [MY_STEP_DOWN] = {STEP_DOWN_TEXT, ""},
    READER_STATEMENTS,
    DATA_STATEMENTS,
    PERMIT_STATEMENTS("COALESCE((SELECT f.fence FROM {fences} f WHERE f.name = @n), 0)"),
    [MY_PERMIT_FENCE] = {"UPDATE {fences} SET fence = LAST_INSERT_ID(" NEXT_FENCE ")"
                         " WHERE name = @n",
                         ""},
    [MY_FENCE_ANEW] = {"INSERT INTO {fences} (name, fence, next_token, next_us)"
                       " VALUES (@n, LAST_INSERT_ID(" MY_NOW "), '', 0)",
                       ""},
    [MY_WAITERS] = {WAITERS("{fences}"), "i"},
    [MY_INSPECT] = {WITH_DATA(INSERT_HOLDERS ONE " UNION ALL " INSERT_READERS ONE), "iiiibbbb"},
    [MY_LIST] = {WITH_DATA(
                     INSERT_HOLDERS ALL("n") " UNION ALL " INSERT_READERS ALL("r")) " ORDER BY 5",
                 "iiiibbbb"},
};

static const struct my_sql of_session[MY_STATEMENTS] = {
    [MY_ENSURE] = {"@wINSERT IGNORE INTO {names} (name) VALUES (@n)", ""},
    [MY_ROW_NOWAIT] = {"SELECT 1 FROM {names} WHERE name = @n FOR UPDATE NOWAIT", "i"},
    [MY_ROW_WAIT] = {"SELECT 1 FROM {names} WHERE name = @n FOR UPDATE", "i"},
    [MY_SHARE_NOWAIT] = {"SELECT 1 FROM {names} WHERE name = @n @s NOWAIT", "i"},
    [MY_SHARE_WAIT] = {"SELECT 1 FROM {names} WHERE name = @n @s", "i"},
    [MY_PROBE_FREE] = {"SELECT 1 FROM {names} WHERE name = @n FOR UPDATE SKIP LOCKED;ROLLBACK",
                       "i"},
    [MY_FENCE] = {"UPDATE {fences} SET fence = LAST_INSERT_ID(" NEXT_FENCE "), token = @t,"
                  " since_us = " MY_NOW ", conn = @i, label = @l WHERE name = @n",
                  ""},
    [MY_FENCE_FIRST] = {"INSERT INTO {fences} (name, fence, token, since_us, conn, label)"
                        " VALUES (@n, LAST_INSERT_ID(" MY_NOW "), @t, " MY_NOW ", @i, @l)",
                        ""},
    [MY_FENCE_READ] = {"SELECT fence FROM {fences} WHERE name = @n", "i"},
    [MY_READER_ADD] = {"INSERT INTO {readers} (name, token, since_us, conn, label)"
                       " VALUES (@n, @t, " MY_NOW ", @i, @l) ON DUPLICATE KEY UPDATE conn = @i",
                       ""},
    [MY_READER_REMOVE] = {"DELETE FROM {readers} WHERE name = @n AND token = @t", ""},
    /* The list does not show connections of another user: hence the day. */
    [MY_READER_REAP] = {"DELETE FROM {readers} WHERE name = @n AND (since_us <"
                        " (SELECT since_us FROM {fences} WHERE name = @n)"
                        " OR (since_us < " MY_NOW " - 86400000000 AND conn NOT IN"
                        " (SELECT id FROM @p)))",
                        ""},
    [MY_INSPECT] = {SESSION_HOLDERS ONE " UNION ALL " SESSION_READERS ONE, "iiiibbb"},
    [MY_LIST] = {SESSION_HOLDERS ALL("n") " UNION ALL " SESSION_READERS ALL("r") " ORDER BY 5",
                 "iiiibbb"},
};

const struct my_sql *my_statements_get(enum my_strategy strategy, enum my_statement which)
{
    static const struct my_sql *const strategies[] = {
        [MY_ROW] = of_row, [MY_INSERT] = of_insert, [MY_SESSION] = of_session};

    return &strategies[strategy][which];
}

bool my_statements_expand(const char *text, const char *prefix, char *out, size_t size)
{
    size_t len = 0;

    for (; *text != '\0'; text++) {
        int more = 1;

        if (*text == '{')
            more = snprintf(out + len, size - len, "`%s", prefix);
        else
            out[len] = *text == '}' ? '`' : *text;
        len += (size_t)more;
        if (len + 1 >= size)
            return false;
    }
    out[len] = '\0';
    return true;
}

/*
 * ---- a statement is run ----
 *
 * The first time a statement is used in a connection it is sent as text, in one exchange. The
 * second time it is prepared, which costs one exchange more and makes each execution cheaper. A
 * program that takes one lock and ends prepares nothing.
 */

#define TEXT_MAX 4096

void my_statements_input_name(struct my_connection *conn, const unsigned char *name,
                              uint32_t name_len)
{
    conn->input.name_len = name_len < MY_NAME_MAX ? name_len : MY_NAME_MAX;
    if (conn->input.name_len > 0)
        memcpy(conn->input.name, name, conn->input.name_len);
}

void my_statements_input(struct my_connection *conn, const struct dlock_request *req)
{
    struct my_input *input = &conn->input;

    my_statements_input_name(conn, req->name, req->name_len);
    memcpy(input->token, req->token, sizeof input->token);
    input->token_len = sizeof input->token;
    input->label_len = req->label != NULL ? strnlen(req->label, sizeof input->label) : 0;
    if (input->label_len > 0)
        memcpy(input->label, req->label, input->label_len);
    input->data_len = req->data_len <= sizeof input->data ? req->data_len : 0;
    if (input->data_len > 0)
        memcpy(input->data, req->data, input->data_len);
    input->ttl_us = req->ttl_ms * MY_US_PER_MS;
}

/* What stands for a mark, where dialects or tables differ; NULL: it is none. */
static const char *mark_text(const struct my_connection *conn, const char *mark)
{
    switch (mark[0] == '@' ? mark[1] : '\0') {
    case 's':
        return conn->dialect->share;
    case 'w':
        return conn->dialect->at_once;
    case 'q':
        return conn->dialect->in_line;
    case 'p':
        return conn->dialect->processlist;
    case 'j':
        return conn->with_data ? MY_DATA_OF_HOLDER : "''";
    default:
        return NULL;
    }
}

/* A statement for this dialect and this prefix, with its inputs @x. false: no room. */
static bool template_make(const struct my_connection *conn, const char *template, char *text)
{
    char dialect[TEXT_MAX];
    size_t len = 0;

    while (*template != '\0' && len < sizeof dialect) {
        const char *mark = mark_text(conn, template);

        if (mark != NULL)
            len += (size_t)snprintf(dialect + len, sizeof dialect - len, "%s", mark);
        else
            dialect[len++] = *template;
        template += mark != NULL ? 2 : 1;
    }
    if (len >= sizeof dialect)
        return false;
    dialect[len] = '\0';
    return my_statements_expand(dialect, conn->config->prefix, text, TEXT_MAX);
}

/* Whether an @x begins here. */
static bool is_input(const char *text)
{
    return text[0] == '@' && text[1] != '\0' && strchr("ntlvdib", text[1]) != NULL;
}

/* ---- as text, with the values in it ---- */

/* What stands for an input instead of its value; NULL: nothing does. */
static const char *input_text(const struct my_input *input, char letter)
{
    switch (letter) {
    case 'b':
        return input->leases;
    case 't':
        return input->tokens;
    case 'l':
        return input->labels;
    case 'd':
        return input->ttls;
    default:
        return NULL;
    }
}

/* Bytes in hex, so that there is nothing to escape. */
static void value_write(FILE *out, const struct my_input *input, char letter)
{
    const char *text = input_text(input, letter);
    char hex[2 * MY_BYTES + 1];

    if (text != NULL) {
        (void)fputs(text, out);
        return;
    }
    switch (letter) {
    case 'n':
        dl_hex_encode(hex, input->name, input->name_len);
        break;
    case 't':
        dl_hex_encode(hex, input->token, input->token_len);
        break;
    case 'l':
        dl_hex_encode(hex, (const unsigned char *)input->label, input->label_len);
        break;
    case 'v':
        dl_hex_encode(hex, input->data, input->data_len);
        break;
    default:
        (void)fprintf(out, "%lld", letter == 'd' ? input->ttl_us : input->number);
        return;
    }
    (void)fprintf(out, "x'%s'", hex);
}

char *my_statements_text(struct my_connection *conn, enum my_statement which)
{
    const struct my_sql *sql = my_statements_get(conn->config->strategy, which);
    char template[TEXT_MAX];
    char *text = NULL;
    size_t size = 0;
    FILE *out = NULL;

    if (sql->text == NULL || !template_make(conn, sql->text, template))
        return NULL;
    out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    for (const char *in = template; *in != '\0'; in++) {
        if (is_input(in))
            value_write(out, &conn->input, *++in);
        else
            (void)fputc(*in, out);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static enum dlock_status statement_unusable(struct dlock_error *err, enum my_statement which)
{
    return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d does not fit, or no memory",
                      (int)which);
}

static enum dlock_status text_execute(struct my_connection *conn, enum my_statement which,
                                      struct dlock_error *err)
{
    const unsigned columns =
        (unsigned)strlen(my_statements_get(conn->config->strategy, which)->out);
    char *text = my_statements_text(conn, which);
    enum dlock_status status = DLOCK_INTERNAL;

    if (text == NULL)
        return statement_unusable(err, which);
    status = my_query_select(conn, text, columns, &conn->answers[which], err);
    free(text);
    return status;
}

/* NULL is 0, or no bytes. */
static void row_read(struct my_row *row, const char *out, MYSQL_ROW values,
                     const unsigned long *lengths)
{
    size_t numbers = 0, blobs = 0;

    for (size_t i = 0; out[i] != '\0'; i++) {
        const char *value = values[i] != NULL ? values[i] : "";

        if (out[i] == 'i') {
            row->number[numbers++] = strtoll(value, NULL, 10);
            continue;
        }
        row->length[blobs] = lengths[i] < MY_BYTES ? lengths[i] : MY_BYTES;
        memcpy(row->bytes[blobs], value, row->length[blobs]);
        row->bytes[blobs][row->length[blobs]] = '\0';
        blobs++;
    }
}

static bool text_fetch(struct my_connection *conn, enum my_statement which)
{
    MYSQL_RES *result = conn->answers[which];
    MYSQL_ROW values = mysql_fetch_row(result);

    if (values == NULL)
        return false;
    row_read(&conn->row, my_statements_get(conn->config->strategy, which)->out, values,
             mysql_fetch_lengths(result));
    return true;
}

/* ---- prepared ---- */

/* The text with a question mark for each @x, whose letters are in inputs. false: no room. */
static bool marks_make(const struct my_connection *conn, const char *template, char *text,
                       char *inputs)
{
    char *out = text;
    size_t count = 0;

    if (!template_make(conn, template, text))
        return false;
    for (const char *in = text; *in != '\0'; in++) {
        *out = *in;
        if (is_input(in)) {
            if (count == MY_INPUTS)
                return false;
            inputs[count++] = *++in;
            *out = '?';
        }
        out++;
    }
    *out = inputs[count] = '\0';
    return true;
}

static MYSQL_BIND input_bind(struct my_input *input, char letter)
{
    switch (letter) {
    case 'n':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->name,
                            .buffer_length = sizeof input->name,
                            .length = &input->name_len};
    case 't':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->token,
                            .buffer_length = sizeof input->token,
                            .length = &input->token_len};
    case 'l':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->label,
                            .buffer_length = sizeof input->label,
                            .length = &input->label_len};
    case 'v':
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_BLOB,
                            .buffer = input->data,
                            .buffer_length = sizeof input->data,
                            .length = &input->data_len};
    default:
        return (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG,
                            .buffer = letter == 'd' ? &input->ttl_us : &input->number};
    }
}

static bool inputs_bind(struct my_connection *conn, MYSQL_STMT *stmt, const char *inputs)
{
    MYSQL_BIND binds[MY_INPUTS] = {0};

    for (size_t i = 0; inputs[i] != '\0'; i++)
        binds[i] = input_bind(&conn->input, inputs[i]);
    return inputs[0] == '\0' || mysql_stmt_bind_param(stmt, binds) == 0;
}

static bool row_bind(struct my_connection *conn, MYSQL_STMT *stmt, const char *out)
{
    MYSQL_BIND binds[MY_NUMBERS + MY_BLOBS] = {0};
    struct my_row *row = &conn->row;
    size_t numbers = 0, blobs = 0, i = 0;

    for (; out[i] != '\0'; i++) {
        if (out[i] == 'i') {
            binds[i].buffer_type = MYSQL_TYPE_LONGLONG;
            binds[i].buffer = &row->number[numbers++];
        } else {
            binds[i].buffer_type = MYSQL_TYPE_BLOB;
            binds[i].buffer = row->bytes[blobs];
            binds[i].buffer_length = MY_BYTES;
            binds[i].length = &row->length[blobs++];
        }
    }
    return i == 0 || mysql_stmt_bind_result(stmt, binds) == 0;
}

/* A statement that is only prepared has no effect. One that the server refused is forgotten, and
 * prepared anew the next time: the reason may pass. */
static enum dlock_status prepare_failed(struct my_connection *conn, enum my_statement which,
                                        enum dlock_status status, struct dlock_error *err)
{
    MYSQL_STMT *stmt = conn->statements[which];
    const bool before = conn->in_transaction;

    conn->in_transaction = true;
    if (status != DLOCK_OK) {
        status = my_connection_unanswered(conn, status, err);
    } else {
        status = my_connection_refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
        if (!conn->dead) {
            (void)mysql_stmt_close(stmt); /* the server has none: nothing is sent */
            conn->statements[which] = NULL;
        }
    }
    conn->in_transaction = before;
    return status;
}

static enum dlock_status prepare(struct my_connection *conn, enum my_statement which,
                                 struct dlock_error *err)
{
    const struct my_sql *sql = my_statements_get(conn->config->strategy, which);
    char text[TEXT_MAX], inputs[MY_INPUTS + 1];
    struct my_call call = {.kind = MY_PREPARE, .text = text};
    MYSQL_STMT *stmt = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (sql->text == NULL || !marks_make(conn, sql->text, text, inputs))
        return statement_unusable(err, which);
    stmt = mysql_stmt_init(conn->mysql);
    if (stmt == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a statement");
    conn->statements[which] = call.stmt = stmt;
    conn->prepared_with_data[which] = conn->with_data;
    status = my_connection_call(conn, &call);
    if (status != DLOCK_OK || call.failed)
        return prepare_failed(conn, which, status, err);
    if (mysql_stmt_param_count(stmt) != strlen(inputs) ||
        mysql_stmt_field_count(stmt) != strlen(sql->out))
        return my_connection_bad_reply(conn, err);
    if (!inputs_bind(conn, stmt, inputs) || !row_bind(conn, stmt, sql->out))
        return dlock_fail(err, MY_ORIGIN, DLOCK_INTERNAL, 0, "statement %d: %.180s", (int)which,
                          mysql_stmt_error(stmt));
    return DLOCK_OK;
}

static enum dlock_status statement_failed(struct my_connection *conn, MYSQL_STMT *stmt,
                                          enum dlock_status status, struct dlock_error *err)
{
    if (status != DLOCK_OK)
        return my_connection_unanswered(conn, status, err);
    conn->answered_ns = my_connection_now(conn);
    return my_connection_refused(conn, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), err);
}

static enum dlock_status prepared_execute(struct my_connection *conn, enum my_statement which,
                                          struct dlock_error *err)
{
    struct my_call call = {.kind = MY_EXECUTE};
    enum dlock_status status = DLOCK_OK;

    if (conn->statements[which] == NULL)
        status = prepare(conn, which, err);
    if (status != DLOCK_OK)
        return status;
    call.stmt = conn->statements[which];
    status = my_connection_call(conn, &call);
    if (status == DLOCK_OK && !call.failed && mysql_stmt_field_count(call.stmt) > 0) {
        call.kind = MY_STMT_STORE;
        status = my_connection_call(conn, &call);
    }
    if (status != DLOCK_OK || call.failed)
        return statement_failed(conn, call.stmt, status, err);
    if (mysql_stmt_field_count(call.stmt) !=
        strlen(my_statements_get(conn->config->strategy, which)->out))
        return my_connection_bad_reply(conn, err);
    conn->answered_ns = my_connection_now(conn);
    conn->affected = mysql_stmt_affected_rows(call.stmt);
    conn->insert_id = mysql_stmt_insert_id(call.stmt);
    return DLOCK_OK;
}

/* ---- either ---- */

/* It has been prepared, and since then {data} has come or gone. */
static bool is_outdated(const struct my_connection *conn, enum my_statement which)
{
    return conn->statements[which] != NULL && conn->prepared_with_data[which] != conn->with_data &&
           strstr(my_statements_get(conn->config->strategy, which)->text, "@j") != NULL;
}

enum dlock_status my_statements_run(struct my_connection *conn, enum my_statement which,
                                    struct dlock_error *err)
{
    const bool prepared = conn->used_before[which];
    enum dlock_status status = DLOCK_INTERNAL;

    conn->used_before[which] = true;
    conn->with_data = atomic_load(&conn->tables->has_data);
    if (!prepared || is_outdated(conn, which))
        return text_execute(conn, which, err);
    status = prepared_execute(conn, which, err);
    if (status == DLOCK_UNKNOWN && my_statements_get(conn->config->strategy, which)->out[0] != '\0')
        return DLOCK_UNAVAILABLE; /* a SELECT */
    return status;
}

static bool prepared_fetch(struct my_connection *conn, enum my_statement which)
{
    struct my_row *row = &conn->row;
    int rc = mysql_stmt_fetch(conn->statements[which]);

    if (rc != 0 && rc != MYSQL_DATA_TRUNCATED)
        return false;
    for (size_t i = 0; i < MY_BLOBS; i++) {
        if (row->length[i] > MY_BYTES)
            row->length[i] = MY_BYTES;
        row->bytes[i][row->length[i]] = '\0';
    }
    return true;
}

bool my_statements_fetch(struct my_connection *conn, enum my_statement which)
{
    return conn->answers[which] != NULL ? text_fetch(conn, which) : prepared_fetch(conn, which);
}

void my_statements_done(struct my_connection *conn, enum my_statement which)
{
    if (conn->answers[which] != NULL)
        mysql_free_result(conn->answers[which]);
    else
        (void)mysql_stmt_free_result(conn->statements[which]);
    conn->answers[which] = NULL;
}

enum dlock_status my_statements_row(struct my_connection *conn, enum my_statement which,
                                    bool *found, struct dlock_error *err)
{
    enum dlock_status status = my_statements_run(conn, which, err);

    *found = false;
    if (status != DLOCK_OK)
        return status;
    *found = my_statements_fetch(conn, which);
    my_statements_done(conn, which);
    return DLOCK_OK;
}
