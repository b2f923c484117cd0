/* SPDX-License-Identifier: MIT */
/*
 * schedule.h - what is due when: a binary heap of moments that are members of their owners. Pure.
 *
 * Room is reserved when an owner is made, so that adding it cannot fail. The client's mutex guards
 * it.
 */
#ifndef DL_SCHEDULE_H
#define DL_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dl_due {
    int64_t at_ns;
    size_t heap_index; /* 0: not in the heap; else its index + 1 */
};

struct dl_schedule {
    struct dl_due **heap;
    size_t count, room, reserved;
};

void dl_schedule_fini(struct dl_schedule *schedule);

/* Reserves room for one more owner, and gives it back. false: no memory. */
bool dl_schedule_reserve(struct dl_schedule *schedule);
void dl_schedule_unreserve(struct dl_schedule *schedule);

/* Adds the moment, or moves it to at_ns. */
void dl_schedule_set(struct dl_schedule *schedule, struct dl_due *due, int64_t at_ns);

/* Takes it out; does nothing if it is not in the heap. */
void dl_schedule_remove(struct dl_schedule *schedule, struct dl_due *due);

/* The earliest, which stays in; NULL: none. */
struct dl_due *dl_schedule_first(const struct dl_schedule *schedule);

#endif
