/* SPDX-License-Identifier: MIT */
/* priority.h - how soon the scheduler lets the calling thread run. */
#ifndef DL_PRIORITY_H
#define DL_PRIORITY_H

/* The greater, the sooner: SCHED_IDLE, then by nice value, then real time. */
int dl_priority_of_thread(void);

#endif
