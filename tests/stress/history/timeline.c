/* SPDX-License-Identifier: MIT */
#include "timeline.h"

#include <dlock/types.h>
#include <inttypes.h>
#include <stdlib.h>

#define LANES_MOST 64
#define LEFT       140
#define WIDTH      1200
#define LANE       22
#define TOP        40

struct lane {
    int32_t pid, tid;
    uint64_t attempt; /* whose claim is open; 0: none */
    uint8_t mode;
    int64_t call_ns, start_ns, until_ns;
    uint64_t fence;
    int64_t stopped_ns; /* 0: it runs */
};

struct picture {
    FILE *out;
    const struct dlt_violation *violation;
    int64_t from_ns, to_ns;
    struct lane lanes[LANES_MOST];
    unsigned count;
};

static double x_of(const struct picture *picture, int64_t ns)
{
    if (ns < picture->from_ns)
        ns = picture->from_ns;
    if (ns > picture->to_ns)
        ns = picture->to_ns;
    return LEFT +
           (double)(ns - picture->from_ns) * WIDTH / (double)(picture->to_ns - picture->from_ns);
}

static int y_of(const struct picture *picture, const struct lane *lane)
{
    return TOP + LANE * (int)(lane - picture->lanes);
}

/* NULL: too many. */
static struct lane *lane_of(struct picture *picture, int32_t pid, int32_t tid)
{
    for (unsigned i = 0; i < picture->count; i++)
        if (picture->lanes[i].pid == pid && picture->lanes[i].tid == tid)
            return &picture->lanes[i];
    if (picture->count == LANES_MOST)
        return NULL;
    picture->lanes[picture->count] = (struct lane){.pid = pid, .tid = tid};
    return &picture->lanes[picture->count++];
}

static void box(const struct picture *picture, const struct lane *lane, int64_t from_ns,
                int64_t to_ns, const char *colour, const char *text)
{
    double x = x_of(picture, from_ns), width = x_of(picture, to_ns) - x;

    if (to_ns < picture->from_ns || from_ns > picture->to_ns)
        return;
    (void)fprintf(
        picture->out,
        "<rect x='%.1f' y='%d' width='%.1f' height='%d' fill='%s'><title>%s</title></rect>\n", x,
        y_of(picture, lane) + 3, width < 1 ? 1 : width, LANE - 6, colour, text);
}

static void claim_draw(struct picture *picture, struct lane *lane, int64_t end_ns)
{
    char text[128];
    const struct dlt_violation *v = picture->violation;
    bool involved = lane->attempt == v->attempt_id || lane->attempt == v->other_id;

    if (lane->attempt == 0)
        return;
    if (lane->until_ns < end_ns)
        end_ns = lane->until_ns;
    (void)snprintf(text, sizeof text, "attempt %" PRIx64 ", fence %" PRIu64 ", %.3f ms",
                   lane->attempt, lane->fence, (double)(end_ns - lane->start_ns) / 1e6);
    if (lane->mode == DLOCK_SHARED)
        box(picture, lane, lane->start_ns, end_ns, involved ? "#0050c8" : "#80b0e0", text);
    else
        box(picture, lane, lane->start_ns, end_ns, involved ? "#c80000" : "#e09080", text);
    lane->attempt = 0;
}

static void nemesis_draw(struct picture *picture, const struct dlt_record *r)
{
    double x = x_of(picture, r->clock_ns);

    for (unsigned i = 0; i < picture->count; i++) {
        struct lane *lane = &picture->lanes[i];

        if (lane->pid != r->pid)
            continue;
        if (r->event == DLT_NEMESIS_STOP)
            lane->stopped_ns = r->clock_ns;
        if (r->event != DLT_NEMESIS_STOP && lane->stopped_ns != 0)
            box(picture, lane, lane->stopped_ns, r->clock_ns, "#00000040", "stopped");
        if (r->event == DLT_NEMESIS_CONT)
            lane->stopped_ns = 0;
        if (r->event == DLT_NEMESIS_KILL)
            claim_draw(picture, lane, r->clock_ns);
    }
    if (r->clock_ns < picture->from_ns || r->clock_ns > picture->to_ns)
        return;
    (void)fprintf(picture->out,
                  "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='#808000' "
                  "stroke-dasharray='3'><title>%s pid %" PRId32 "</title></line>\n",
                  x, x, TOP - 15, TOP + LANE * (int)picture->count, dlt_event_name(r->event),
                  r->pid);
}

static void client_draw(struct picture *picture, const struct dlt_record *r)
{
    struct lane *lane = lane_of(picture, r->pid, r->tid);
    bool ok = r->status == DLOCK_OK;

    if (r->event == DLT_LOST) /* told by another thread */
        for (unsigned i = 0; i < picture->count; i++)
            if (picture->lanes[i].attempt == r->attempt_id)
                claim_draw(picture, &picture->lanes[i], r->clock_ns);
    if (lane == NULL || r->event == DLT_LOST)
        return;
    if (r->event == DLT_INV_LOCK || r->event == DLT_INV_UNLOCK)
        lane->call_ns = r->clock_ns;
    if (r->event == DLT_INV_UNLOCK)
        claim_draw(picture, lane, r->clock_ns);
    if (r->event == DLT_RET_LOCK || r->event == DLT_RET_UNLOCK)
        box(picture, lane, lane->call_ns, r->clock_ns, ok ? "#d0d0d0" : "#f0e0b0",
            dlock_status_name(r->status));
    if (r->event == DLT_RET_LOCK && ok) {
        lane->attempt = r->attempt_id;
        lane->mode = r->mode;
        lane->fence = r->fence;
        lane->start_ns = r->clock_ns;
    }
    if (r->until_ns != 0 && r->attempt_id == lane->attempt && r->event != DLT_INV_UNLOCK)
        lane->until_ns = r->until_ns;
}

static void lanes_find(struct picture *picture, const struct dlt_history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct dlt_record *r = &history->records[i];

        if (r->event == DLT_INV_LOCK && r->name_id == picture->violation->name_id &&
            r->clock_ns >= picture->from_ns - (picture->to_ns - picture->from_ns) &&
            r->clock_ns <= picture->to_ns)
            (void)lane_of(picture, r->pid, r->tid);
    }
}

static void draw(struct picture *picture, const struct dlt_history *history)
{
    double x = x_of(picture, picture->violation->clock_ns);

    for (size_t i = 0; i < history->count; i++) {
        const struct dlt_record *r = &history->records[i];

        if (r->clock_ns > picture->to_ns)
            break;
        if (r->event >= DLT_NEMESIS_STOP)
            nemesis_draw(picture, r);
        else if (r->name_id == picture->violation->name_id)
            client_draw(picture, r);
    }
    for (unsigned i = 0; i < picture->count; i++)
        claim_draw(picture, &picture->lanes[i], picture->to_ns);
    (void)fprintf(picture->out,
                  "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='black' stroke-width='2'/>\n",
                  x, x, TOP - 15, TOP + LANE * (int)picture->count);
}

bool dlt_timeline_write(const char *path, const struct dlt_history *history,
                        const struct dlt_violation *violation, int64_t window_ns)
{
    struct picture picture = {.out = fopen(path, "w"),
                              .violation = violation,
                              .from_ns = violation->clock_ns - window_ns,
                              .to_ns = violation->clock_ns + window_ns};

    if (picture.out == NULL)
        return false;
    lanes_find(&picture, history);
    (void)fprintf(picture.out,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "font-family='monospace' font-size='12'>\n"
                  "<rect width='100%%' height='100%%' fill='white'/>\n"
                  "<text x='10' y='16'>%s, name %" PRIu32 ", %.3f s about %" PRId64 ".%09" PRId64
                  " - red: exclusive, blue: shared, grey: calls</text>\n",
                  LEFT + WIDTH + 20, TOP + LANE * (int)picture.count + 20,
                  dlt_rule_name(violation->rule), violation->name_id, (double)(2 * window_ns) / 1e9,
                  violation->clock_ns / 1000000000, violation->clock_ns % 1000000000);
    for (unsigned i = 0; i < picture.count; i++)
        (void)fprintf(picture.out, "<text x='5' y='%d'>%" PRId32 "/%" PRId32 "</text>\n",
                      TOP + LANE * (int)i + 15, picture.lanes[i].pid, picture.lanes[i].tid);
    draw(&picture, history);
    (void)fputs("</svg>\n", picture.out);
    return fclose(picture.out) == 0;
}
