/* SPDX-License-Identifier: MIT */
#include "history.h"

#include <dlock/types.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

void dlt_history_fini(struct dlt_history *history)
{
    free(history->records);
    *history = (struct dlt_history){0};
}

struct dlt_record *dlt_history_add(struct dlt_history *history)
{
    if (history->count == history->room) {
        size_t room = history->room == 0 ? 1024 : history->room * 2;
        struct dlt_record *records = realloc(history->records, room * sizeof *records);

        if (records == NULL)
            return NULL;
        history->records = records;
        history->room = room;
    }
    history->records[history->count] = (struct dlt_record){0};
    return &history->records[history->count++];
}

/* glibc's qsort merges, and so keeps the order of equals, unless memory is short: seq decides
 * within a process. */
static int by_time(const void *left, const void *right)
{
    const struct dlt_record *a = left, *b = right;

    if (a->clock_ns != b->clock_ns)
        return a->clock_ns < b->clock_ns ? -1 : 1;
    if (a->pid == b->pid && a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    return 0;
}

void dlt_history_sort(struct dlt_history *history)
{
    for (size_t i = 1; i < history->count; i++)
        if (by_time(&history->records[i - 1], &history->records[i]) > 0) {
            qsort(history->records, history->count, sizeof *history->records, by_time);
            return;
        }
}

const char *dlt_event_name(unsigned event)
{
#define DLT_EVENT_NAME(name) #name,
    static const char *const names[] = {DLT_EVENT_MAP(DLT_EVENT_NAME)};
#undef DLT_EVENT_NAME

    return event < DLT_EVENT_COUNT ? names[event] : "?";
}

/* What the member status means in this event; "": nothing. */
static const char *status_text(const struct dlt_record *record)
{
    static const char *const calls[] = {" one attempt", " waits", " one attempt, renewed",
                                        " waits, renewed"};

    switch (record->event) {
    case DLT_INV_LOCK:
        return calls[record->status & (DLT_CALL_WAITS | DLT_CALL_KEPT)];
    case DLT_LEFT:
        return record->status != 0 ? " first in the process" : "";
    case DLT_INV_RENEW:
        return record->status != 0 ? " by the application" : "";
    case DLT_HELD_STAMP:
        return record->status != 0 ? " held" : " not held";
    case DLT_NEMESIS_FAULT:
        return record->status != 0 ? " goes on" : "";
    default:
        return "";
    }
}

static bool is_answer(const struct dlt_record *record)
{
    return record->event == DLT_RET_LOCK || record->event == DLT_RET_RENEW ||
           record->event == DLT_RET_UNLOCK;
}

void dlt_record_print(FILE *out, const struct dlt_record *record)
{
    (void)fprintf(out,
                  "%" PRId64 ".%09" PRId64 " pid %" PRId32 " name %" PRId32 " attempt %" PRIx64
                  " %s %s%s%s",
                  record->clock_ns / 1000000000, record->clock_ns % 1000000000, record->pid,
                  (int32_t)record->name_id, record->attempt_id, dlt_event_name(record->event),
                  record->mode == DLOCK_SHARED ? "shared" : "exclusive",
                  is_answer(record) ? " " : status_text(record),
                  is_answer(record) ? dlock_status_name(record->status) : "");
    if (record->fence != 0)
        (void)fprintf(out, " fence %" PRIu64, record->fence);
    if (record->data != 0)
        (void)fprintf(out, " data %" PRIx64, record->data);
    if (record->until_ns != 0)
        (void)fprintf(out, " until %" PRId64 ".%09" PRId64, record->until_ns / 1000000000,
                      record->until_ns % 1000000000);
    (void)fputc('\n', out);
}
