/* SPDX-License-Identifier: MIT */
/*
 * All SQL that runs when locks are taken and given back. schema.c says what the columns mean.
 *
 * Assignments of an UPDATE are made from left to right, and those on the right see those on the
 * left: their order matters here. The connection counts rows that were found, not rows that
 * changed. LAST_INSERT_ID(x) is how an UPDATE tells what it stored, in the same exchange.
 *
 * A name is held by `token` while until_us is in the future, or by readers while readers_us is. The
 * clock is that of the start of the statement, which may have waited for the row since: a lease so
 * counts from before its execution, and what was live at the start is judged by the row as it is
 * now, after the wait.
 */
#include "my.h"

#define LIVE   "until_us > " MY_NOW
#define OVER   "until_us <= " MY_NOW
#define UNREAD "readers_us <= " MY_NOW
#define UNTIL  "(" MY_NOW " + @d)"

#define MAY_TAKE "(next_us <= " MY_NOW " OR next_token = @t)"

#define NEXT_FENCE "GREATEST(fence + 32, " MY_NOW ")"
_Static_assert(MY_FENCE_STEP == 32, "NEXT_FENCE spells it out");

/* Shared by row and insert. */
#define LOOK_TEXT                                                                    \
    "SELECT token = @t, until_us - " MY_NOW ", readers_us - " MY_NOW " FROM {names}" \
    " WHERE name = @n"
#define EXTEND_TEXT                                               \
    "UPDATE {names} SET until_us = GREATEST(until_us, " UNTIL ")" \
    " WHERE name = @n AND token = @t AND " LIVE
#define STEP_DOWN_TEXT "UPDATE {names} SET until_us = 0, token = '' WHERE name = @n"
#define READERS_TEXT   "SELECT COALESCE(MAX(until_us), 0) FROM {readers} WHERE name = @n"

#define ROW_GUARD                                                                         \
    "SELECT fence, token = @t, until_us - " MY_NOW ", readers_us - " MY_NOW ", " MAY_TAKE \
    " FROM {names} WHERE name = @n FOR UPDATE"
#define INSERT_GUARD                                                          \
    "SELECT COALESCE((SELECT f.fence FROM {fences} f WHERE f.name = @n), 0)," \
    " token = @t, until_us - " MY_NOW ", readers_us - " MY_NOW ","            \
    " COALESCE((SELECT " MAY_TAKE " FROM {fences} WHERE name = @n), 1)"       \
    " FROM {names} WHERE name = @n FOR UPDATE"

#define READER_STATEMENTS                                                                        \
    [MY_READER_ADD] = {"INSERT INTO {readers} (name, token, since_us, until_us, label)"          \
                       " VALUES (@n, @t, " MY_NOW ", " UNTIL ", @l)"                             \
                       " ON DUPLICATE KEY UPDATE until_us = GREATEST(until_us, " UNTIL ")",      \
                       ""},                                                                      \
    [MY_READER_EXTEND] = {"UPDATE {readers} SET until_us = GREATEST(until_us, " UNTIL ")"        \
                          " WHERE name = @n AND token = @t AND " LIVE,                           \
                          ""},                                                                   \
    [MY_READER_REMOVE] = {"DELETE FROM {readers} WHERE name = @n AND token = @t AND " LIVE, ""}, \
    [MY_READER_BREAK] = {"DELETE FROM {readers} WHERE name = @n AND " LIVE, ""},                 \
    [MY_READER_REAP] = {"DELETE FROM {readers} WHERE name = @n AND " OVER, ""},                  \
    [MY_SETTLE] = {"UPDATE {names} SET token = IF(" LIVE ", token, ''),"                         \
                   " until_us = IF(" LIVE ", until_us, 0),"                                      \
                   " readers_us = (" READERS_TEXT ") WHERE name = @n",                           \
                   ""}

#define HOLDERS(fence, from)                                                 \
    "SELECT 0, " fence ", n.until_us - " MY_NOW ", " MY_NOW " - n.since_us," \
    " n.name, n.token, n.label FROM " from " WHERE n.until_us > " MY_NOW " AND n.name "
#define HOLDING_READERS(fence, from)                                         \
    "SELECT 1, " fence ", r.until_us - " MY_NOW ", " MY_NOW " - r.since_us," \
    " r.name, r.token, r.label FROM " from " WHERE r.until_us > " MY_NOW " AND r.name "

#define ROW_HOLDERS HOLDERS("n.fence", "{names} n")
#define ROW_READERS HOLDING_READERS("n.fence", "{readers} r JOIN {names} n ON n.name = r.name")
#define INSERT_HOLDERS \
    HOLDERS("COALESCE(f.fence, 0)", "{names} n LEFT JOIN {fences} f ON f.name = n.name")
#define INSERT_READERS \
    HOLDING_READERS("COALESCE(f.fence, 0)", "{readers} r LEFT JOIN {fences} f ON f.name = r.name")

/* Those who got it, and whose connection is there: @i is what they may have left. The last
 * exclusive grant ended all before it, and a shared one after it ended the exclusive one. */
#define SESSION_HOLDERS                                                        \
    "SELECT 0, n.fence, @i, " MY_NOW " - n.since_us, n.name, n.token, n.label" \
    " FROM {fences} n JOIN information_schema.processlist p ON p.id = n.conn"  \
    " WHERE NOT EXISTS (SELECT 1 FROM {readers} x"                             \
    " WHERE x.name = n.name AND x.since_us > n.since_us) AND n.name "
#define SESSION_READERS                                                                     \
    "SELECT 1, COALESCE(f.fence, 0), @i, " MY_NOW " - r.since_us, r.name, r.token, r.label" \
    " FROM {readers} r JOIN information_schema.processlist p ON p.id = r.conn"              \
    " LEFT JOIN {fences} f ON f.name = r.name"                                              \
    " WHERE r.since_us > COALESCE(f.since_us, 0) AND r.name "

/* LEFT() and not LIKE: a name may hold any byte. */
#define ONE        "= @n"
#define ALL(alias) ">= @n AND LEFT(" alias ".name, LENGTH(@n)) = @n"

static const struct my_sql row[MY_STATEMENTS] = {
    /* This is half of what an uncontended lock costs; a row that keeps its size is cheaper to
     * write, which is why the token of a lock that was released stays. */
    [MY_TAKE] = {"UPDATE {names} SET fence = LAST_INSERT_ID(" NEXT_FENCE "), since_us = " MY_NOW ","
                 " until_us = " UNTIL ", token = @t, label = @l"
                 " WHERE name = @n AND " OVER " AND " UNREAD " AND next_us <= " MY_NOW,
                 ""},
    /* Who finds until_us in the future here is its holder, who asks again. */
    [MY_TAKE_AGAIN] = {"UPDATE {names} SET"
                       " fence = LAST_INSERT_ID(IF(" LIVE ", fence, " NEXT_FENCE ")),"
                       " since_us = IF(" LIVE ", since_us, " MY_NOW "),"
                       " until_us = GREATEST(until_us, " UNTIL "), token = @t, label = @l,"
                       " next_us = IF(next_token = @t, 0, next_us)"
                       " WHERE name = @n AND " UNREAD " AND ((" LIVE " AND token = @t)"
                       " OR (" OVER " AND " MAY_TAKE "))",
                       ""},
    [MY_RESERVE] = {"UPDATE {names} SET next_token = @t, next_us = " MY_NOW " + @i WHERE name = @n",
                    ""},
    [MY_UNRESERVE] = {"UPDATE {names} SET next_us = 0 WHERE name = @n AND next_token = @t", ""},
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
    [MY_LOOK] = {LOOK_TEXT, "iii"},
    [MY_EXTEND] = {EXTEND_TEXT, ""},
    [MY_EXTEND_NOW] = {"@w" EXTEND_TEXT, ""},
    [MY_RELEASE] = {"UPDATE {names} SET until_us = 0"
                    " WHERE name = @n AND token = @t AND " LIVE,
                    ""},
    [MY_BREAK] = {"UPDATE {names} SET until_us = 0, token = ''"
                  " WHERE name = @n AND " LIVE " AND (token = @t OR @i)",
                  ""},
    [MY_GUARD] = {ROW_GUARD, "iiiii"},
    [MY_GUARD_NOW] = {ROW_GUARD " NOWAIT", "iiiii"},
    [MY_STEP_DOWN] = {STEP_DOWN_TEXT, ""},
    READER_STATEMENTS,
    [MY_INSPECT] = {ROW_HOLDERS ONE " UNION ALL " ROW_READERS ONE, "iiiibbb"},
    [MY_LIST] = {ROW_HOLDERS ALL("n") " UNION ALL " ROW_READERS ALL("r") " ORDER BY 5", "iiiibbb"},
};

/* Whoever lost the row before its number was made gets none, which would be above the next
 * holder's. */
#define HELD "EXISTS (SELECT 1 FROM {names} WHERE name = @n AND token = @t AND " LIVE ")"

static const struct my_sql insert[MY_STATEMENTS] = {
    [MY_TAKE] = {"INSERT INTO {names} (name, token, since_us, until_us, readers_us, label)"
                 " SELECT @n, @t, " MY_NOW ", " UNTIL ", 0, @l FROM DUAL WHERE NOT EXISTS"
                 " (SELECT 1 FROM {fences} WHERE name = @n AND NOT " MAY_TAKE ")",
                 ""},
    [MY_RESERVE] = {"UPDATE {fences} SET next_token = @t, next_us = " MY_NOW
                    " + @i WHERE name = @n",
                    ""},
    [MY_UNRESERVE] = {"UPDATE {fences} SET next_us = 0 WHERE name = @n AND next_token = @t", ""},
    [MY_SWEEP] = {"DELETE FROM {names} WHERE name = @n AND " OVER " AND " UNREAD, ""},
    [MY_FENCE] = {"UPDATE {fences} SET fence = LAST_INSERT_ID(" NEXT_FENCE "),"
                  " next_us = IF(next_token = @t, 0, next_us) WHERE name = @n AND " HELD,
                  ""},
    [MY_FENCE_FIRST] = {"INSERT INTO {fences} (name, fence, next_token, next_us)"
                        " SELECT @n, LAST_INSERT_ID(" MY_NOW "), '', 0 FROM DUAL WHERE " HELD,
                        ""},
    [MY_ENSURE] = {"INSERT IGNORE INTO {names} (name, token, since_us, until_us, readers_us, label)"
                   " VALUES (@n, '', 0, 0, 0, '')",
                   ""},
    [MY_LOOK] = {LOOK_TEXT, "iii"},
    [MY_EXTEND] = {EXTEND_TEXT, ""},
    [MY_EXTEND_NOW] = {"@w" EXTEND_TEXT, ""},
    [MY_RELEASE] = {"DELETE FROM {names} WHERE name = @n AND token = @t AND " LIVE, ""},
    [MY_BREAK] = {"DELETE FROM {names} WHERE name = @n AND " LIVE " AND (token = @t OR @i)", ""},
    [MY_GUARD] = {INSERT_GUARD, "iiiii"},
    [MY_GUARD_NOW] = {INSERT_GUARD " NOWAIT", "iiiii"},
    [MY_STEP_DOWN] = {STEP_DOWN_TEXT, ""},
    READER_STATEMENTS,
    [MY_INSPECT] = {INSERT_HOLDERS ONE " UNION ALL " INSERT_READERS ONE, "iiiibbb"},
    [MY_LIST] = {INSERT_HOLDERS ALL("n") " UNION ALL " INSERT_READERS ALL("r") " ORDER BY 5",
                 "iiiibbb"},
};

static const struct my_sql session[MY_STATEMENTS] = {
    [MY_ENSURE] = {"@wINSERT IGNORE INTO {names} (name) VALUES (@n)", ""},
    [MY_ROW_NOWAIT] = {"SELECT 1 FROM {names} WHERE name = @n FOR UPDATE NOWAIT", "i"},
    [MY_ROW_WAIT] = {"SELECT 1 FROM {names} WHERE name = @n FOR UPDATE", "i"},
    [MY_SHARE_NOWAIT] = {"SELECT 1 FROM {names} WHERE name = @n @s NOWAIT", "i"},
    [MY_SHARE_WAIT] = {"SELECT 1 FROM {names} WHERE name = @n @s", "i"},
    [MY_PROBE_FREE] = {"SELECT 1 FROM {names} WHERE name = @n FOR UPDATE SKIP LOCKED", "i"},
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
    /* Connections of another user are not to be seen: hence the day. */
    [MY_READER_REAP] = {"DELETE FROM {readers} WHERE name = @n AND (since_us <"
                        " (SELECT since_us FROM {fences} WHERE name = @n)"
                        " OR (since_us < " MY_NOW " - 86400000000 AND conn NOT IN"
                        " (SELECT id FROM information_schema.processlist)))",
                        ""},
    [MY_INSPECT] = {SESSION_HOLDERS ONE " UNION ALL " SESSION_READERS ONE, "iiiibbb"},
    [MY_LIST] = {SESSION_HOLDERS ALL("n") " UNION ALL " SESSION_READERS ALL("r") " ORDER BY 5",
                 "iiiibbb"},
};

/* The leases come first: a scan of {names} would stop at rows that others have locked. */
#define BATCH_JOIN  ") v STRAIGHT_JOIN {names} n ON n.name = v.name AND n.token = v.token"
#define BATCH_LIVES " WHERE n.until_us > " MY_NOW

const struct my_sql_batch my_sql_batches[] = {
    [MY_BATCH_EXTEND] = {"@wUPDATE (", BATCH_JOIN " SET n.until_us = GREATEST(n.until_us, " MY_NOW
                                                  " + v.ttl_us)" BATCH_LIVES},
    [MY_BATCH_LIVE] = {"SELECT v.i FROM (", BATCH_JOIN BATCH_LIVES},
    [MY_BATCH_FREE] = {"SELECT v.i FROM (", BATCH_JOIN BATCH_LIVES " FOR UPDATE SKIP LOCKED"},
};

const struct my_sql *my_sql(enum my_strategy strategy, enum my_statement which)
{
    static const struct my_sql *const strategies[] = {
        [MY_ROW] = row, [MY_INSERT] = insert, [MY_SESSION] = session};

    return &strategies[strategy][which];
}
