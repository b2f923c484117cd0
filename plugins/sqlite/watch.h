/* SPDX-License-Identifier: MIT */
/*
 * watch.h - the attempts of a client that wait without a thread, for slot wait_any.
 *
 * An attempt is listed when its trylock was BUSY, with the count of its bucket of the wake file
 * from before that trylock. It leaves the list when its number was told, and when its next trylock
 * begins. One thread sleeps for all of them, on a word of the wake file.
 *
 * A list lives as long as sessions of its client and listed attempts. Its mutex is a leaf.
 */
#ifndef SQLITE_WATCH_H
#define SQLITE_WATCH_H

#include "wake_file.h"

/* In slot init. False: no memory. */
bool sqlite_wait_list_init(void);

/* The list of the client that `host` stands for, with a reference; NULL: no memory. */
struct sqlite_wait_list *sqlite_wait_list_find(const struct dlock_host *host);
void sqlite_wait_list_unref(struct sqlite_wait_list *list);

/* Of a waiter that was noted, and is in no list. */
void sqlite_wait_list_add(struct sqlite_wait_list *list, struct sqlite_waiter *waiter,
                          uint32_t number);
/* Harmless for a waiter that is in no list. */
void sqlite_wait_list_remove(struct sqlite_waiter *waiter);

/* Ends the await that runs, or else the next one [INT-4]. */
void sqlite_wait_list_interrupt(struct sqlite_wait_list *list);

#endif
