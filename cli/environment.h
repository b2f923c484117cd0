/* SPDX-License-Identifier: MIT */
/*
 * environment.h - the variables that describe the lock, for the command and for a nested dlock. A
 * process that outlives the run keeps them: that they are there does not mean that the lock is
 * held.
 *
 *   DLOCK_NAME   the name; absent if it has a NUL byte
 *   DLOCK_FENCE  the fencing token; absent if the store gives none
 *   DLOCK_PERMIT the permit; absent without --limit
 *   DLOCK_TOKEN  the owner token
 *   DLOCK_FENCE_0, DLOCK_FENCE_1 ...   of a set: the fencing token of each name; the three above
 * are those of the first name
 *   DLOCK_URI    the store, if -u named it; *** in it stands for a password, and is refused.
 * Without -u it stays as it is DLOCK_HELD   "<name in hex>:<token>" of this and every enclosing
 * run, separated by spaces
 */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include <dlock/dlock.h>
#include <stdbool.h>

struct environment_lock {
    const void *name;
    size_t name_len;
    const char *token;
    uint64_t fence;     /* 0: none */
    const char *permit; /* of a semaphore; NULL: it is a lock */
    const char *uri;    /* NULL: DLOCK_URI stays as it is */
};

/* Our own environment with these variables replaced; NULL: no memory. Free with environment_free.
 * count: more than one: a set. uri: of the first one. */
char **environment_new(const struct environment_lock *locks, size_t count);
void environment_free(char **env);

/* The index'th token with which an enclosing run holds the name, from DLOCK_HELD. False: no more.
 */
bool environment_holder(const void *name, size_t name_len, unsigned index,
                        char token[DLOCK_TOKEN_CHARS]);

#endif
