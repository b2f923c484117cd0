/* SPDX-License-Identifier: MIT */
#include "hold/schedule.h"

#include <stdlib.h>

void dl_schedule_fini(struct dl_schedule *schedule)
{
    free(schedule->heap);
    *schedule = (struct dl_schedule){0};
}

bool dl_schedule_reserve(struct dl_schedule *schedule)
{
    if (schedule->reserved == schedule->room) {
        size_t room = schedule->room + schedule->room / 4 + 16;
        struct dl_due **heap = realloc(schedule->heap, room * sizeof *heap);

        if (heap == NULL)
            return false;
        schedule->heap = heap;
        schedule->room = room;
    }
    schedule->reserved++;
    return true;
}

void dl_schedule_unreserve(struct dl_schedule *schedule)
{
    schedule->reserved--;
}

static void heap_put(struct dl_schedule *schedule, size_t at, struct dl_due *due)
{
    schedule->heap[at] = due;
    due->heap_index = at + 1;
}

static void heap_rise(struct dl_schedule *schedule, size_t at, struct dl_due *due)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;

        if (schedule->heap[parent]->at_ns <= due->at_ns)
            break;
        heap_put(schedule, at, schedule->heap[parent]);
        at = parent;
    }
    heap_put(schedule, at, due);
}

static void heap_sink(struct dl_schedule *schedule, size_t at, struct dl_due *due)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < schedule->count &&
            schedule->heap[child + 1]->at_ns < schedule->heap[child]->at_ns)
            child++;
        if (child >= schedule->count || schedule->heap[child]->at_ns >= due->at_ns)
            break;
        heap_put(schedule, at, schedule->heap[child]);
        at = child;
    }
    heap_put(schedule, at, due);
}

void dl_schedule_set(struct dl_schedule *schedule, struct dl_due *due, int64_t at_ns)
{
    if (due->heap_index == 0) {
        due->at_ns = at_ns;
        schedule->count++;
        heap_rise(schedule, schedule->count - 1, due);
    } else if (at_ns < due->at_ns) {
        due->at_ns = at_ns;
        heap_rise(schedule, due->heap_index - 1, due);
    } else {
        due->at_ns = at_ns;
        heap_sink(schedule, due->heap_index - 1, due);
    }
}

void dl_schedule_remove(struct dl_schedule *schedule, struct dl_due *due)
{
    size_t at = due->heap_index;
    struct dl_due *last;

    if (at == 0)
        return;
    at--;
    due->heap_index = 0;
    last = schedule->heap[--schedule->count];
    if (last == due)
        return;
    if (last->at_ns < due->at_ns)
        heap_rise(schedule, at, last);
    else
        heap_sink(schedule, at, last);
}

struct dl_due *dl_schedule_first(const struct dl_schedule *schedule)
{
    return schedule->count == 0 ? NULL : schedule->heap[0];
}
