/* SPDX-License-Identifier: MIT */
#include "proxy.h"

#include <stdlib.h>
#include <string.h>

#define PART_MAX ((size_t)32 << 20) /* a longer frame is passed on in parts */

void proxy_pipe_init(struct proxy_pipe *pipe, enum dlt_framing framing)
{
    memset(pipe, 0, sizeof *pipe);
    dlt_framer_init(&pipe->framer, framing);
    pipe->end = &pipe->first;
}

void proxy_frame_release(struct proxy *proxy, struct proxy_pipe *pipe, struct proxy_frame *frame,
                         bool awaited)
{
    frame->held = false;
    pipe->counts.held--;
    frame->awaited = awaited;
    proxy->delivering += awaited;
    proxy->again = true;
}

void proxy_pipe_pop(struct proxy *proxy, struct proxy_pipe *pipe)
{
    struct proxy_frame *frame = pipe->first;

    pipe->first = frame->next;
    if (pipe->first == NULL)
        pipe->end = &pipe->first;
    pipe->queued -= frame->len;
    pipe->counts.held -= frame->held;
    proxy->delivering -= frame->awaited;
    free(frame);
}

void proxy_pipe_discard(struct proxy *proxy, struct proxy_pipe *pipe)
{
    while (pipe->first != NULL)
        proxy_pipe_pop(proxy, pipe);
}

void proxy_pipe_fini(struct proxy *proxy, struct proxy_pipe *pipe)
{
    proxy_pipe_discard(proxy, pipe);
    free(pipe->part);
    pipe->part = NULL;
    pipe->part_len = pipe->part_room = 0;
}

/* What was gathered becomes a frame, and meets the rules. */
static void frame_add(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir, bool whole)
{
    struct proxy_pipe *pipe = &link->pipe[dir];
    struct proxy_frame *frame = malloc(sizeof *frame + pipe->part_len);
    struct proxy_rule rule;

    if (frame == NULL)
        abort();
    memset(frame, 0, sizeof *frame);
    frame->len = pipe->part_len;
    memcpy(frame->bytes, pipe->part, pipe->part_len);
    frame->came_ns = proxy_now();
    frame->due_ns = frame->came_ns + pipe->shape.delay_ns;
    pipe->part_len = 0;
    pipe->counts.seen += whole;
    pipe->counts.swallowed += pipe->shape.blackhole;
    if (whole && proxy_rule_take(proxy, link->number, dir, pipe->counts.seen, frame, &rule)) {
        if (rule.kind == PROXY_DROP) {
            pipe->counts.dropped++;
            free(frame);
            return;
        }
        frame->held = true;
        frame->until_dir = rule.until_dir;
        frame->until_left = rule.until;
        pipe->counts.held++;
        pipe->counts.withheld++;
    }
    *pipe->end = frame;
    pipe->end = &frame->next;
    pipe->queued += frame->len;
}

static void part_add(struct proxy_pipe *pipe, const unsigned char *bytes, size_t len)
{
    if (len > pipe->part_room - pipe->part_len) {
        size_t room = (pipe->part_len + len) * 2;
        unsigned char *grown = realloc(pipe->part, room);

        if (grown == NULL)
            abort();
        pipe->part = grown;
        pipe->part_room = room;
    }
    memcpy(pipe->part + pipe->part_len, bytes, len);
    pipe->part_len += len;
}

void proxy_pipe_feed(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir,
                     const unsigned char *bytes, size_t len)
{
    struct proxy_pipe *pipe = &link->pipe[dir];
    bool was_broken = pipe->framer.broken;

    if (pipe->out_ended)
        return;
    for (size_t at = 0; at < len;) {
        bool ended = false;
        size_t took = dlt_framer_feed(&pipe->framer, bytes + at, len - at, &ended);

        part_add(pipe, bytes + at, took);
        at += took;
        if (ended || pipe->part_len > PART_MAX)
            frame_add(proxy, link, dir, ended);
    }
    pipe->counts.broken += pipe->framer.broken && !was_broken;
}

void proxy_pipe_flush(struct proxy *proxy, struct proxy_link *link, enum proxy_dir dir)
{
    if (link->pipe[dir].part_len > 0)
        frame_add(proxy, link, dir, false);
}
