/* SPDX-License-Identifier: MIT */
/* ticket_kit.h - a ticket lock that a test shares with its threads and children. */
#ifndef DLT_TICKET_KIT_H
#define DLT_TICKET_KIT_H

#include "ticket_lock.h"

#include <sys/types.h>

#define DLT_RACERS  4
#define DLT_LONG_MS 20000 /* what takes that did not go on */

struct dlt_door {
    struct sqlite_ticket_lock lock;
    _Atomic uint32_t entries[DLT_RACERS];
};

/* In memory that the children of a test have, too. A new one for each test. */
extern struct dlt_door *door;
void dlt_door_set_up(void);
void dlt_door_tear_down(void);

/* For at most that long. As sqlite_ticket_lock_enter. */
int dlt_door_enter(struct sqlite_ticket_pass *pass, int64_t timeout_ms);
/* Enters and leaves; fails the test if that takes long. */
void dlt_door_goes_on(struct sqlite_ticket_pass *pass);

/* Returns when so many tickets were given out. */
void dlt_door_wait_tickets(uint32_t count);

/* SIGKILL, and waits. */
void dlt_door_kill(pid_t pid);

/* Numbers that look random, the same in each run. */
uint32_t dlt_door_random(void);

#endif
