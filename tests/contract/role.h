/* SPDX-License-Identifier: MIT */
/*
 * role.h - the other party of a case: a client of its own, which does as it is told.
 *
 * Commands come in, answers go out, one line each. H is a handle's number, 0 to 7; NAME is without
 * blanks; MODE is x or s, exclusive or shared. The first answer, "ready", comes when the client is
 * open.
 *
 *   new H NAME TTL_MS RENEW [ttl]   a handle; RENEW 1 or 0; ttl: DLOCK_END_TTL   OK
 *   semaphore H NAME TTL_MS LIMIT    a handle, of an H that has none        OK
 *   try H | tryrd H              dlock_trylock, dlock_tryrdlock             STATUS FENCE
 *   lock H TIMEOUT_MS            dlock_timedlock                            STATUS FENCE
 *   rdlock H TIMEOUT_MS          dlock_timedrdlock                          STATUS FENCE
 *   wait H MODE TIMEOUT_MS HOLD_MS   acquires in a thread, and unlocks after HOLD_MS unless that
 *                                is -1. Answers when the call was entered    OK
 *   waited H                     the end of it: the moment of the grant, on CLOCK_BOOTTIME
 *                                                                           STATUS FENCE NS
 *   cancel H                     dlock_cancel                               OK
 *   unlock H | renew H | downgrade H                                        STATUS
 *   token H                      dlock_token                                OK TOKEN
 *   adopt H TOKEN                dlock_adopt                                STATUS FENCE
 *   state H                      dlock_state and dlock_remaining_ms         STATE MS
 *   watch H TTL_MS DURATION_MS   reads the state of a lock that is acquired now with TTL_MS, in
 *                                a tight loop                               (see role_work.c)
 *   count H TURNS FILE           TURNS times: lock, add 1 to the number in FILE, append the fence
 *                                to FILE.fences, unlock                     OK
 *   race H PREFIX THREADS DURATION_MS SEED FILE   see race.h; the history goes to FILE   OK
 *   exit H                       exit(0) with all that is held, and waited for
 */
#ifndef DLT_ROLE_H
#define DLT_ROLE_H

#include "waiter.h"

#define DLT_ROLE_HANDLES 8

struct dlt_role {
    const struct dlt_run *run;
    struct dlock_client *client;
    struct dlock_handle *handles[DLT_ROLE_HANDLES];
    struct dlt_waiter waiters[DLT_ROLE_HANDLES];
    FILE *in, *out;
};

/* Serves until `in` ends. defaults: NULL or options of the client. */
void dlt_role_serve(const struct dlt_run *run, const char *defaults, FILE *in, FILE *out);

/* --role holder: that, on stdin and stdout. The exit status. */
int dlt_role_holder(const struct dlt_run *run, const char *defaults);

/* --role descriptors: prints what is open beyond 0, 1 and 2. */
int dlt_role_descriptors(void);

/* A command: its verb, whom it is for, and the words after those. */
struct dlt_words {
    struct dlt_role *role;
    const char *verb;
    struct dlock_handle **lock;
    struct dlt_waiter *waiter;
    char *rest;
};

int64_t dlt_words_number(struct dlt_words *words);
const char *dlt_words_next(struct dlt_words *words);

/* role_work.c: the verbs that work for a while. */
void dlt_role_watch(struct dlt_words *words);
void dlt_role_count(struct dlt_words *words);
void dlt_role_race(struct dlt_words *words);

#endif
