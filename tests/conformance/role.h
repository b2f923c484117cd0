/* SPDX-License-Identifier: MIT */
/*
 * role.h - the other process of a case.
 *
 * --role holder: commands on stdin, answers on stdout, one line each. H is a handle's number, 0 to
 * 7; NAME is without blanks. The first answer, "ready", comes when the client is open.
 *
 *   new H NAME TTL_MS RENEW      a handle; RENEW 1 or 0                     OK
 *   try H                        dlock_trylock                              STATUS FENCE
 *   lock H TIMEOUT_MS            dlock_timedlock                            STATUS FENCE
 *   unlock H | renew H                                                      STATUS
 *   state H                      dlock_state and dlock_remaining_ms         STATE MS
 *   watch H TTL_MS DURATION_MS   reads the state of a lock that is acquired now with TTL_MS, in
 *                                a tight loop                               (see state_watch)
 *   count H TURNS FILE           TURNS times: lock, add 1 to the number in FILE, append the fence
 *                                to FILE.fences, unlock                     OK
 *
 * --role descriptors: prints what is open beyond 0, 1 and 2, and exits.
 */
#ifndef DLT_ROLE_H
#define DLT_ROLE_H

/* The exit status. */
int dlt_role_holder(const char *uri, const char *defaults);
int dlt_role_descriptors(void);

#endif
