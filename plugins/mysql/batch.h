/* SPDX-License-Identifier: MIT */
/*
 * batch.h - strategies row and insert: one exchange for the leases of many names.
 *
 * The statements of an exchange are sent in one piece, and each is a transaction of its own: a
 * client that is stopped has locked no row (ADR 0015). Each reads or writes the rows of all names,
 * in the order of the primary key, and fails at once where another transaction has locked one of
 * them: it waits for none, and so no two of them wait for each other. On MySQL, which cannot say
 * that for one statement, they wait for a second, and their order keeps them from a deadlock.
 */
#ifndef MY_BATCH_H
#define MY_BATCH_H

#include "connection.h"

#define MY_BATCH_MOST       64
#define MY_BATCH_STATEMENTS 4

enum my_batch_state {
    MY_BATCH_OPEN,
    MY_BATCH_MISSING, /* there is no row of the name */
    MY_BATCH_ALONE,   /* it needs a call of its own */
    MY_BATCH_LAST, /* needs a single call, after those of MY_BATCH_ALONE: it may wait for a row */
    MY_BATCH_DONE  /* op has the answer */
};

struct my_batch_item {
    struct dlock_batch_op *op;
    enum my_batch_state state;
    bool repeated; /* a statement before this one may have been executed */
    /* What MY_READ_ALL or MY_OVER_ALL found. */
    bool found;
    bool is_ours;     /* the token of the request holds the name, or held it last */
    bool is_unlocked; /* of MY_OVER_ALL, row: that token has been given back */
    bool has_permits; /* or is kept */
    int64_t left_us, readers_us;
    uint64_t fence;
};

/* The statements before the first one that failed. */
struct my_batch_answer {
    size_t count;
    uint64_t affected[MY_BATCH_STATEMENTS];
};

/* Puts items into the order of their names. */
void my_batch_sort(struct my_batch_item **items, size_t n);
bool my_batch_is_same_name(const struct my_batch_item *a, const struct my_batch_item *b);

/* How many of the elements one exchange has room for, at least one. */
size_t my_batch_room(struct dlock_batch_op *const *ops, size_t n);

/* Sends `count` statements of MY_..._ALL for items that are in order and have different names. OK:
 * each was executed. */
enum dlock_status my_batch_run(struct my_connection *conn, struct my_batch_item *const *items,
                               size_t n, const enum my_statement *which, size_t count,
                               struct my_batch_answer *answer, struct dlock_error *err);

#endif
