/* SPDX-License-Identifier: MIT */
/*
 * name.h - one name in a write transaction: who holds it, who reads, who waits.
 *
 * The rules of the queue: a free name goes to the first waiter that is alive, whoever asks; readers
 * at the head are granted together, and none passes a waiting writer; a place, and a grant that was
 * not asked for, last for the waiter's lease and no longer; nothing makes a lease shorter.
 *
 * A name begins with init and usually find, and ends with save or pass_on if anything may have
 * changed. Functions return SQLite's codes; SQLITE_MISMATCH: the row was not written by dlock.
 */
#ifndef SQLITE_NAME_H
#define SQLITE_NAME_H

#include "sqlite.h"

#define SQ_FENCE_ROOM 31u /* numbers of a grant besides its first */

struct sqlite_name {
    struct sqlite_session *session;
    const unsigned char *bytes;
    uint32_t len;
    int64_t now_ns;

    int found;                             /* there is a row, known after find */
    int held;                              /* exclusively */
    unsigned char token[DLOCK_TOKEN_SIZE]; /* by whom, while held */
    int64_t until_ns;                      /* when that ends, or the last lease of readers */
    unsigned crowd;           /* where there may be rows of the name: SQ_READERS, SQ_WAITERS */
    int64_t readers, waiters; /* alive; known if crowd is 0, and once settled */
    uint64_t fence;           /* the first number of the last grant */

    int freed;   /* the holder was taken out, which is not written yet */
    int changes; /* rows, by the last statement */
    int writes;  /* non-zero: there is something to commit */
    unsigned stored_crowd;
    uint64_t stored_fence;
};

/* Parameters of a statement besides the name, the boot and the time; it takes those it has. */
struct sqlite_values {
    const unsigned char *token;
    int64_t until_ns, lease_ns;
    uint64_t fence;
    unsigned crowd;
    uint32_t mode;
    const char *label;
};

/* ---- name.c ---- */

void sqlite_name_init(struct sqlite_name *name, struct sqlite_session *session,
                      const unsigned char *bytes, uint32_t len);

/* Reads the row. */
int sqlite_name_find(struct sqlite_name *name);

int sqlite_name_held_by(const struct sqlite_name *name, const unsigned char *token);

/* Non-zero, of a settled name: a newcomer may have it now. */
int sqlite_name_open_to(const struct sqlite_name *name, uint32_t mode);

/* A lease for lease_ns from now, with the next fence, for whom it is open to. */
int sqlite_name_take(struct sqlite_name *name, const struct sqlite_values *values);

/* Extends the exclusive lease of the token, or the shared one; *held: there was one. Both do
 * without find. */
int sqlite_name_extend(struct sqlite_name *name, const struct dlock_request *req, int *held,
                       struct dlock_grant *grant);
int sqlite_name_extend_shared(struct sqlite_name *name, const struct dlock_request *req, int *held,
                              struct dlock_grant *grant);

/* The holder becomes a reader. */
int sqlite_name_downgrade(struct sqlite_name *name, const struct dlock_request *req);

/* Ends the token's lease of either kind, or all of them; *ended: there was one. */
int sqlite_name_end(struct sqlite_name *name, const unsigned char *token, int *ended);
int sqlite_name_end_all(struct sqlite_name *name, int *ended);

/* Writes what is not written yet; of a settled name. */
int sqlite_name_save(struct sqlite_name *name);

/* Runs a statement that changes something, to its end. */
int sqlite_name_run(struct sqlite_name *name, enum sqlite_statement which,
                    const struct sqlite_values *values);

/* Runs one to its first row, if any: SQLITE_ROW or SQLITE_DONE. Reset it afterwards. */
int sqlite_name_ask(struct sqlite_name *name, enum sqlite_statement which,
                    const struct sqlite_values *values, sqlite3_stmt **row);

/* ---- queue.c ---- */

/* Forgets who is dead, and grants the name to those at the head of the queue who can have it. */
int sqlite_name_settle(struct sqlite_name *name);

/* Counts the waiters that are alive into grant->waiters, no matter what is known of the name. */
int sqlite_name_count(struct sqlite_name *name, struct dlock_grant *grant);

/* Of a settled name: keeps the token's place, or gives it one at the end if req wants that.
 * *queued: it has one, and grant tells about it. */
int sqlite_name_queue(struct sqlite_name *name, const struct dlock_request *req, int *queued,
                      struct dlock_grant *grant);
int sqlite_name_leave(struct sqlite_name *name, const unsigned char *token);

/* After an end, a downgrade or a leave: settles, saves, and has those woken to whom it matters. */
int sqlite_name_pass_on(struct sqlite_name *name);

#endif
