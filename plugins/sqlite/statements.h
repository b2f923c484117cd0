/* SPDX-License-Identifier: MIT */
/* statements.h - the schema of a store and all SQL text. */
#ifndef SQLITE_STATEMENTS_H
#define SQLITE_STATEMENTS_H

#define SQ_APPLICATION_ID 0x444C4B53 /* "DLKS" */
#define SQ_SCHEMA_VERSION 3
#define SQ_SCHEMA_OLDEST  1 /* that can be upgraded */

extern const char sqlite_schema[];
extern const char sqlite_upgrade[];   /* from layout 1, after the schema */
extern const char sqlite_upgrade_2[]; /* from layout 2 */

/* Bits of waiters_mask: the rows that there may be of the name. SQ_PERMITS are rows of the table of
 * readers, too: permits, and what is kept. */
enum { SQ_READERS = 1, SQ_WAITERS = 2, SQ_PERMITS = 4, SQ_SHARES = SQ_READERS | SQ_PERMITS };

enum sqlite_statement {
    SQ_BEGIN,
    SQ_COMMIT,
    SQ_ROLLBACK,
    SQ_FIND,
    SQ_TAKE_FIRST,
    SQ_TAKE,
    SQ_MARK,
    SQ_FREE,
    SQ_EXTEND,
    SQ_RELEASE,
    SQ_READERS_COUNT,
    SQ_READERS_REAP,
    SQ_READERS_END,
    SQ_READER_TAKE,
    SQ_READER_KEEP,
    SQ_READER_EXTEND,
    SQ_READER_RELEASE,
    SQ_PERMIT_TAKE,
    SQ_PERMIT_KEEP,
    SQ_LOCK_KEEP,
    SQ_WAITERS_COUNT,
    SQ_WAITERS_REAP,
    SQ_WAITERS_HEAD,
    SQ_WAITER_JOIN,
    SQ_WAITER_STAY,
    SQ_WAITER_AHEAD,
    SQ_WAITER_LEAVE,
    SQ_GRANTED,
    SQ_LIVES,
    SQ_LIVES_NOT,
    SQ_LIVES_NOT_READER,
    SQ_INSPECT,
    SQ_INSPECT_WAITERS,
    SQ_LIST,
    SQ_STATEMENTS
};

/* Each statement has some of them. */
enum sqlite_parameter {
    SQ_P_NAME = 1,
    SQ_P_TOKEN,
    SQ_P_BOOT,
    SQ_P_NOW,
    SQ_P_UNTIL,
    SQ_P_FENCE,
    SQ_P_WAITERS_MASK,
    SQ_P_LABEL,
    SQ_P_MODE,
    SQ_P_LEASE
};

extern const char *const sqlite_statement_text[SQ_STATEMENTS];

#endif
