/* SPDX-License-Identifier: MIT */
/*
 * name.h - one name in a write transaction: its row, its holder and its readers.
 *
 * A name begins with sqlite_name_init and usually sqlite_name_find. It ends with sqlite_name_save
 * or sqlite_queue_pass_on if anything may have changed. A lease never gets shorter. Functions
 * return SQLite's codes; SQLITE_MISMATCH: the row was not written by dlock.
 */
#ifndef SQLITE_NAME_H
#define SQLITE_NAME_H

#include "session.h"

#define SQ_FENCE_ROOM 31u /* numbers of a grant besides its first */

struct sqlite_name {
    struct sqlite_session *session;
    const unsigned char *bytes;
    uint32_t len;
    int64_t now_ns;

    bool found;                            /* there is a row, known after find */
    bool held;                             /* exclusively */
    unsigned char token[DLOCK_TOKEN_SIZE]; /* of the holder, while held */
    int64_t until_ns;                      /* the end of that lease, or of the last reader's */
    unsigned waiters_mask;    /* rows that there may be of the name: SQ_READERS and so on */
    int64_t readers, waiters; /* alive; known if the mask is 0, and after sqlite_queue_advance */
    uint32_t limit;           /* of the readers: they are permits, or (1) a kept lock; 0: readers */
    uint64_t fence;           /* the first number of the last grant */
    uint32_t permit;          /* of the last grant of a semaphore, by sqlite_name_take */

    bool freed;  /* the holder was taken out, which is not written yet */
    bool writes; /* there is something to commit */
    int changes; /* rows, by the last statement */
    unsigned stored_mask;
    uint64_t stored_fence;
};

/* A lease of DLOCK_TTL_NONE: it ends with its process, and its end in the file does not come. */
static inline bool sqlite_name_is_endless(int64_t left_ns)
{
    return left_ns / DL_NS_PER_MS > DLOCK_TTL_NONE / 2;
}

/* Parameters of a statement besides the name, the boot and the time; it takes those that it has. */
struct sqlite_values {
    const unsigned char *token;
    int64_t until_ns, lease_ns;
    uint64_t fence;
    unsigned waiters_mask;
    uint32_t mode; /* or the limit of a semaphore, as sqlite_name_mode */
    const char *label;
};

struct sqlite_count {
    int64_t all, alive;
    int64_t until_ns; /* the end of the last one, of permits of the first; 0: none, or waiters */
    uint32_t limit;   /* of permits and of what is kept */
};

/* What a request asks for, in one number: the limit of a semaphore, 2 or more, or its mode. */
static inline uint32_t sqlite_name_mode(const struct dlock_request *req)
{
    return req->limit > 1 ? req->limit : (uint32_t)req->mode;
}

void sqlite_name_init(struct sqlite_name *name, struct sqlite_session *session,
                      const unsigned char *bytes, uint32_t len);

/* Reads the row. */
int sqlite_name_find(struct sqlite_name *name);

bool sqlite_name_is_held_by(const struct sqlite_name *name, const unsigned char *token);

/* Of a counted name that is not held exclusively: the readers leave room for one more. */
bool sqlite_name_has_room(const struct sqlite_name *name, uint32_t mode);

/* Of an advanced name: a newcomer may have it now. */
bool sqlite_name_is_open_to(const struct sqlite_name *name, uint32_t mode);

/* Of an advanced name: the limit of those who have it, if it is not that of the mode; else 0. */
uint32_t sqlite_name_other_limit(const struct sqlite_name *name, uint32_t mode);

/* A lease for lease_ns from now, with the next fence, and with a permit of a semaphore. */
int sqlite_name_take(struct sqlite_name *name, const struct sqlite_values *values);

/* Extends the exclusive lease of the token, or the shared one; *held: there was one. Both work
 * without sqlite_name_find. */
int sqlite_name_extend(struct sqlite_name *name, const struct dlock_request *req, bool *held,
                       struct dlock_grant *grant);
int sqlite_name_extend_shared(struct sqlite_name *name, const struct dlock_request *req, bool *held,
                              struct dlock_grant *grant);

/* The holder becomes a reader. */
int sqlite_name_downgrade(struct sqlite_name *name, const struct dlock_request *req);

/* Ends the exclusive lease of the token, or its permit, and takes it for nobody until until_ns.
 * *ended: there was one. */
int sqlite_name_keep(struct sqlite_name *name, const unsigned char *token, int64_t until_ns,
                     bool *ended);

/* Ends the token's lease of either kind; NULL: all leases. *ended: there was one. */
int sqlite_name_end(struct sqlite_name *name, const unsigned char *token, bool *ended);

/* Writes what is not written yet, of an advanced name. */
int sqlite_name_save(struct sqlite_name *name);

/* Counts by SQ_READERS_COUNT or SQ_WAITERS_COUNT. */
int sqlite_name_count(struct sqlite_name *name, enum sqlite_statement which,
                      struct sqlite_count *count);

/* Runs a statement that changes something, to its end. */
int sqlite_name_run(struct sqlite_name *name, enum sqlite_statement which,
                    const struct sqlite_values *values);

/* Runs a statement to its first row, if any: SQLITE_ROW or SQLITE_DONE. Reset it afterwards. */
int sqlite_name_ask(struct sqlite_name *name, enum sqlite_statement which,
                    const struct sqlite_values *values, sqlite3_stmt **row);

#endif
