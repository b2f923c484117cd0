/* SPDX-License-Identifier: MIT */
/*
 * history.h - what clients did to locks, and what was done to them, one record an event. Written by
 * log.h or by the simulator, read by check.h.
 *
 * An *attempt* is one call of lock with the lease it may yield: its records, up to the answer to
 * unlock, carry one attempt_id that no other attempt of the history has. Times are nanoseconds of
 * one clock for all processes.
 */
#ifndef DLT_HISTORY_H
#define DLT_HISTORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 *   X(name)        what the fields mean besides clock_ns, pid, name_id, mode and attempt_id
 *
 *   INV_LOCK       until_ns: deadline of the call, 0: none. status: bits of DLT_CALL_*
 *   QUEUED         the store confirmed a place in its queue; until_ns: sure to last until then;
 *                  status: how many ms ago it was asked
 *   LEFT           the place is being given up, or was found gone. status: 1 if it is the turn
 *                  among the threads of its process
 *   RET_LOCK       status; of OK: until_ns of the lease, fence; data: when the acquisition began,
 *                  as the handle says; 0: not asked
 *   INV_RENEW      mode: the mode asked for (SHARED on an exclusive lease: downgrade). status: 1 if
 *                  the application asked for it
 *   RET_RENEW      status; of OK: until_ns
 *   INV_UNLOCK     the claim ends; data: for how many ms from the beginning of the acquisition on
 *                  the name, or the permit, is to be kept; 0: not at all
 *   RET_UNLOCK     status
 *   LOST           the application was told
 *   HELD_STAMP     status: 1 if the handle said "held", asked after clock_ns was read. until_ns:
 *                  until when, as far as the handle said so; 0: not asked
 *   WRITE_*        at a resource guarded by fences; fence
 *   SEEN           an inspect showed a holder; until_ns: when that call began; mode, fence, data:
 *                  of the holder
 *   NEMESIS_*      pid: whom it hits, 0: nobody or all. FAULT: anything but a process; name_id:
 *                  which name it hits, or DLT_ALL_NAMES; status: 1 if it began before and goes on;
 *                  pid: > 0: exchanges of that process hang; all its operations wait (C19)
 */
#define DLT_EVENT_MAP(X) \
    X(INV_LOCK)          \
    X(QUEUED)            \
    X(LEFT)              \
    X(RET_LOCK)          \
    X(INV_RENEW)         \
    X(RET_RENEW)         \
    X(INV_UNLOCK)        \
    X(RET_UNLOCK)        \
    X(LOST)              \
    X(HELD_STAMP)        \
    X(WRITE_TRY)         \
    X(WRITE_ACCEPT)      \
    X(WRITE_REJECT)      \
    X(SEEN)              \
    X(NEMESIS_STOP)      \
    X(NEMESIS_CONT)      \
    X(NEMESIS_KILL)      \
    X(NEMESIS_FAULT)

#define DLT_EVENT_ENUM(name) DLT_##name,
enum dlt_event { DLT_EVENT_MAP(DLT_EVENT_ENUM) DLT_EVENT_COUNT };
#undef DLT_EVENT_ENUM

#define DLT_ALL_NAMES UINT32_MAX

enum {
    DLT_CALL_WAITS = 1, /* the caller waits for its turn */
    DLT_CALL_KEPT = 2   /* the lease is to be renewed for as long as it is held */
};

struct dlt_record {
    uint64_t seq; /* 1 and on within its file; 0: not written to the end */
    int64_t clock_ns;
    int32_t pid, tid;
    uint32_t name_id;
    uint8_t mode;  /* enum dlock_mode */
    uint8_t event; /* enum dlt_event */
    uint16_t status;
    uint64_t attempt_id;
    uint64_t fence;
    int64_t until_ns;
    uint32_t limit;  /* of INV_LOCK: of a semaphore; 0 or 1: a lock */
    uint32_t permit; /* of RET_LOCK with OK: of a semaphore */
    uint64_t data;   /* of INV_LOCK, SEEN: what the holder publishes, as a number; 0: nothing */
};

/* Records of any number of sources, owned. */
struct dlt_history {
    struct dlt_record *records;
    size_t count, room;
};

void dlt_history_fini(struct dlt_history *history);

/* NULL: no memory. The place is good until the next call. */
struct dlt_record *dlt_history_add(struct dlt_history *history);

/* By time; records of the same moment stay in their order. */
void dlt_history_sort(struct dlt_history *history);

const char *dlt_event_name(unsigned event);

/* One line. */
void dlt_record_print(FILE *out, const struct dlt_record *record);

#endif
