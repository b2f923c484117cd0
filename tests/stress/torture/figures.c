/* SPDX-License-Identifier: MIT */
#include "figures.h"
#include "shared.h"

#include <dlock/types.h>
#include <stdlib.h>

#define NS_PER_S  INT64_C(1000000000)
#define BEFORE_NS NS_PER_S

/* One record's surroundings. */
struct spot {
    const struct dlt_record *record;
    int64_t fault_ns;  /* the last thing that the nemesis did before */
    int64_t next_ns;   /* ... and does afterwards */
    uint32_t acquired; /* of its name, so far */
};

/* A process that takes locks. */
struct client {
    int32_t pid;
    int64_t fault_ns; /* the first beginning or end of a fault since its last lock; 0: none */
};

struct reader {
    const struct dlt_history *history;
    struct spot *spots; /* of clients, by attempt and time */
    size_t count;
    struct client *clients;
    size_t client_count;
    int64_t *recoveries;
    size_t recovery_count;
    struct figures *figures;
};

static bool of_nemesis(const struct dlt_record *record)
{
    return record->event >= DLT_NEMESIS_STOP;
}

static int by_attempt(const void *left, const void *right)
{
    const struct spot *a = left, *b = right;

    if (a->record->attempt_id != b->record->attempt_id)
        return a->record->attempt_id < b->record->attempt_id ? -1 : 1;
    return a->record < b->record ? -1 : a->record > b->record;
}

static int by_length(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return *a < *b ? -1 : *a > *b;
}

static struct client *client_of(struct reader *reader, int32_t pid)
{
    size_t i = 0;

    while (i < reader->client_count && reader->clients[i].pid != pid)
        i++;
    if (i == reader->client_count)
        reader->clients[reader->client_count++].pid = pid;
    return &reader->clients[i];
}

/* Whom it hits is not in the history. */
static void clients_hit(struct reader *reader, int64_t now_ns)
{
    for (size_t i = 0; i < reader->client_count; i++)
        if (reader->clients[i].fault_ns == 0)
            reader->clients[i].fault_ns = now_ns;
}

static void client_look(struct reader *reader, const struct dlt_record *record, bool got)
{
    struct client *client = client_of(reader, record->pid);

    if (!got || client->fault_ns == 0)
        return;
    reader->recoveries[reader->recovery_count++] = record->clock_ns - client->fault_ns;
    client->fault_ns = 0;
}

/* Forward: what came before each record, and how long clients took to recover. */
static void read_forward(struct reader *reader)
{
    uint32_t acquired[NAMES_MOST] = {0};
    int64_t fault_ns = INT64_MIN / 2;

    for (size_t i = 0; i < reader->history->count; i++) {
        const struct dlt_record *r = &reader->history->records[i];
        bool got = r->event == DLT_RET_LOCK && r->status == DLOCK_OK;

        if (of_nemesis(r)) {
            fault_ns = r->clock_ns;
            if (r->event != DLT_NEMESIS_FAULT || r->status == 0)
                clients_hit(reader, r->clock_ns);
            continue;
        }
        if (r->name_id >= NAMES_MOST)
            continue;
        acquired[r->name_id] += got;
        client_look(reader, r, got);
        reader->spots[reader->count++] =
            (struct spot){.record = r, .fault_ns = fault_ns, .acquired = acquired[r->name_id]};
    }
}

/* Backward: what came after. Spots are still in the order of time. */
static void read_backward(struct reader *reader)
{
    int64_t next_ns = INT64_MAX;
    size_t spot = reader->count;

    for (size_t i = reader->history->count; i-- > 0;) {
        const struct dlt_record *r = &reader->history->records[i];

        if (of_nemesis(r))
            next_ns = r->clock_ns;
        else if (r->name_id < NAMES_MOST)
            reader->spots[--spot].next_ns = next_ns;
    }
}

/* Did something happen to the process or its ways between the two? */
static bool disturbed(const struct spot *first, const struct spot *last)
{
    return last->fault_ns >= first->record->clock_ns - BEFORE_NS ||
           first->next_ns <= last->record->clock_ns;
}

static void unknown_look(struct reader *reader, const struct spot *call, const struct spot *ret)
{
    if (ret->record->status == DLOCK_UNKNOWN && !disturbed(call, ret))
        reader->figures->unexplained++;
}

static void keep_most(int64_t *most, int64_t value)
{
    if (value > *most)
        *most = value;
}

/* The records of one attempt. */
static void attempt_read(struct reader *reader, const struct spot *spots, size_t count)
{
    const struct spot *call = NULL;
    int64_t until_ns = 0;
    bool lost = false;

    for (size_t i = 0; i < count; i++) {
        const struct dlt_record *r = spots[i].record;

        lost |= r->event == DLT_LOST || (r->event == DLT_RET_UNLOCK && r->status == DLOCK_LOST);

        if (r->event == DLT_INV_LOCK || r->event == DLT_INV_UNLOCK)
            call = &spots[i];
        if (call != NULL && (r->event == DLT_RET_LOCK || r->event == DLT_RET_UNLOCK)) {
            unknown_look(reader, call, &spots[i]);
            if (call->record->until_ns != 0 && !disturbed(call, &spots[i]))
                keep_most(&reader->figures->overrun_ns, r->clock_ns - call->record->until_ns);
            if (r->event == DLT_RET_LOCK && r->status == DLOCK_OK &&
                spots[i].acquired - call->acquired - 1 > reader->figures->overtaken)
                reader->figures->overtaken = spots[i].acquired - call->acquired - 1;
        }
        if (r->until_ns > until_ns &&
            (r->event == DLT_RET_LOCK || r->event == DLT_HELD_STAMP || r->event == DLT_RET_RENEW))
            until_ns = r->until_ns;
        if (r->event == DLT_LOST && until_ns != 0 && spots[i].fault_ns < until_ns)
            keep_most(&reader->figures->late_loss_ns, r->clock_ns - until_ns);
    }
    reader->figures->lost += lost;
}

static void attempts_read(struct reader *reader)
{
    size_t first = 0;

    qsort(reader->spots, reader->count, sizeof *reader->spots, by_attempt);
    for (size_t i = 1; i <= reader->count; i++) {
        if (i < reader->count &&
            reader->spots[i].record->attempt_id == reader->spots[first].record->attempt_id)
            continue;
        attempt_read(reader, &reader->spots[first], i - first);
        first = i;
    }
}

static void recoveries_sum_up(struct reader *reader)
{
    struct figures *figures = reader->figures;
    size_t count = reader->recovery_count;

    figures->recoveries = count;
    if (count == 0)
        return;
    qsort(reader->recoveries, count, sizeof *reader->recoveries, by_length);
    figures->recovery_median_ns = reader->recoveries[count / 2];
    figures->recovery_p99_ns = reader->recoveries[(count * 99 - 1) / 100];
    figures->recovery_most_ns = reader->recoveries[count - 1];
}

bool figures_make(const struct dlt_history *history, struct figures *figures)
{
    struct reader reader = {.history = history, .figures = figures};
    bool ready;

    *figures = (struct figures){0};
    reader.spots = calloc(history->count + 1, sizeof *reader.spots);
    reader.clients = calloc(history->count + 1, sizeof *reader.clients);
    reader.recoveries = calloc(history->count + 1, sizeof *reader.recoveries);
    ready = reader.spots != NULL && reader.clients != NULL && reader.recoveries != NULL;
    if (ready) {
        read_forward(&reader);
        read_backward(&reader);
        attempts_read(&reader);
        recoveries_sum_up(&reader);
    }
    free(reader.spots);
    free(reader.clients);
    free(reader.recoveries);
    return ready;
}
