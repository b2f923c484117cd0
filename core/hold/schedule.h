/* SPDX-License-Identifier: MIT */
/*
 * schedule.h - what comes due when: a binary heap of moments embedded in their owners. Pure.
 *
 * Room is reserved when an owner is made, so that putting it in cannot fail. Not thread-safe: the
 * client's mutex guards it.
 */
#ifndef DL_SCHEDULE_H
#define DL_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dl_due {
    int64_t at_ns;
    size_t heap_index; /* 0: not in the schedule; else its index + 1 */
};

struct dl_schedule {
    struct dl_due **heap;
    size_t count, room, reserved;
};

void dl_schedule_fini(struct dl_schedule *schedule);

/* Room for one more owner, and giving that back. false: no memory. */
bool dl_schedule_reserve(struct dl_schedule *schedule);
void dl_schedule_unreserve(struct dl_schedule *schedule);

/* Puts it in, or moves it, to at_ns. */
void dl_schedule_set(struct dl_schedule *schedule, struct dl_due *due, int64_t at_ns);

/* Takes it out; nothing happens when it is not in. */
void dl_schedule_remove(struct dl_schedule *schedule, struct dl_due *due);

/* The earliest, still in; NULL: none. */
struct dl_due *dl_schedule_first(const struct dl_schedule *schedule);

#endif
