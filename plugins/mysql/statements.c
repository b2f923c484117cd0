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

#include <stdio.h>

/* The server's time in microseconds since 1970, UTC, fixed at the start of the statement. */
#define MY_NOW "TIMESTAMPDIFF(MICROSECOND,TIMESTAMP'1970-01-01 00:00:00',UTC_TIMESTAMP(6))"

#define LIVE   "until_us > " MY_NOW
#define OVER   "until_us <= " MY_NOW
#define UNREAD "readers_us <= " MY_NOW
#define UNTIL  "(" MY_NOW " + @d)"

/* What seems to be later is of before a step back of the clock. watch.c makes reservations of
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
/* No token: the name has permits, or is kept (permit.h). */
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

/* data.h. A day is more than a request may be under way. */
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

static const struct my_sql row[MY_STATEMENTS] = {
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

static const struct my_sql insert[MY_STATEMENTS] = {
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

static const struct my_sql session[MY_STATEMENTS] = {
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
        [MY_ROW] = row, [MY_INSERT] = insert, [MY_SESSION] = session};

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
