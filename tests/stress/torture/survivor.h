/* SPDX-License-Identifier: MIT */
/*
 * survivor.h - programs that clients start while they hold a name (DLOCK_END_PROGRAMS). The claim
 * of a client that is killed lasts as long as its program lives, and its lease: in shared memory it
 * becomes that of the program, which others must not meet (C23).
 */
#ifndef TORTURE_SURVIVOR_H
#define TORTURE_SURVIVOR_H

#include "shared.h"

#include <sys/types.h>

#define SURVIVORS_MOST (PLACES_MOST / 2) /* places whose threads may start one */

/* Starts a program that lives for life_ms, or until the claim of that attempt at that place ends
 * without a kill. 0: none was started. */
pid_t survivor_start(const char *directory, uint32_t name, unsigned place, uint64_t attempt,
                     int64_t life_ms);

/* Waits for it; the claim has ended. pid may be 0. */
void survivor_reap(pid_t pid);

/* The client at that place stands still and is about to be killed: what it claims and has a program
 * for becomes the program's. Before oracle_leave. */
void survivor_inherit(struct shared *shared, uint32_t name, unsigned place);

/* The program. words: of survivor_start. Its exit status. */
int survivor_main(char **words);

#endif
