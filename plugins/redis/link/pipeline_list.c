/* SPDX-License-Identifier: MIT */
#include "redis/link/pipeline_list.h"

#include <stdlib.h>
#include <string.h>

#define OUT_FIRST 4096

void redis_pipeline_list_add(struct redis_pipeline *pipeline, struct redis_exchange *exchange)
{
    if (pipeline->last != NULL)
        pipeline->last->next = exchange;
    else
        pipeline->first = exchange;
    pipeline->last = exchange;
    pipeline->askers += exchange->ends_group;
}

struct redis_exchange *redis_pipeline_list_pop(struct redis_pipeline *pipeline)
{
    struct redis_exchange *exchange = pipeline->first;

    pipeline->first = exchange->next;
    if (pipeline->first == NULL)
        pipeline->last = NULL;
    pipeline->askers -= exchange->ends_group;
    return exchange;
}

size_t redis_pipeline_list_answer_max(const struct redis_exchange *exchange)
{
    return exchange->skip > 0 && exchange->skip_max > exchange->reply_max ? exchange->skip_max
                                                                          : exchange->reply_max;
}

/* The answer to `next` comes after the answer to `gone`, which may be as long as `gone` allows. */
static void skip_more(struct redis_exchange *next, const struct redis_exchange *gone,
                      unsigned answers)
{
    size_t longest = redis_pipeline_list_answer_max(gone);

    if (next->skip == 0 || next->skip_max < longest)
        next->skip_max = longest;
    next->skip += answers;
}

static void list_cut(struct redis_pipeline *pipeline, struct redis_exchange *exchange)
{
    struct redis_exchange *before = NULL;

    for (struct redis_exchange *at = pipeline->first; at != exchange; at = at->next)
        before = at;
    if (before != NULL)
        before->next = exchange->next;
    else
        pipeline->first = exchange->next;
    if (pipeline->last == exchange)
        pipeline->last = before;
    pipeline->askers -= exchange->ends_group;
}

/* Removes a request of which no byte was sent. */
static void out_cut(struct redis_pipeline *pipeline, const struct redis_exchange *exchange)
{
    size_t first = exchange->begins - (pipeline->asked - pipeline->out_len);
    size_t after = first + exchange->len;

    memmove(pipeline->out + first, pipeline->out + after, pipeline->out_len - after);
    pipeline->out_len -= exchange->len;
    pipeline->asked -= exchange->len;
    for (struct redis_exchange *at = exchange->next; at != NULL; at = at->next)
        at->begins -= exchange->len;
}

void redis_pipeline_list_give_up(struct redis_pipeline *pipeline, struct redis_exchange *exchange)
{
    bool unsent = exchange->begins >= pipeline->bytes_sent;

    list_cut(pipeline, exchange);
    if (unsent) { /* nor were later requests sent */
        out_cut(pipeline, exchange);
        if (exchange->next != NULL && exchange->skip > exchange->before)
            skip_more(exchange->next, exchange, exchange->skip - exchange->before);
    } else {
        atomic_store(&pipeline->dead, true);
        if (exchange->next != NULL) /* its answer may still come, before the next one */
            skip_more(exchange->next, exchange, exchange->skip + 1);
    }
    exchange->status = unsent ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN;
    (void)snprintf(exchange->why, sizeof exchange->why,
                   unsent ? "no time was left" : "no answer in time");
}

bool redis_pipeline_list_reserve(struct redis_pipeline *pipeline, size_t len)
{
    size_t size = pipeline->out_size == 0 ? OUT_FIRST : pipeline->out_size;
    char *longer = NULL;

    while (size < pipeline->out_len + len)
        size *= 2;
    if (size == pipeline->out_size)
        return true;
    longer = realloc(pipeline->out, size);
    if (longer == NULL)
        return false;
    pipeline->out = longer;
    pipeline->out_size = size;
    return true;
}

void redis_pipeline_list_write(struct redis_pipeline *pipeline,
                               const struct redis_exchange *exchange)
{
    memcpy(pipeline->out + pipeline->out_len, exchange->bytes, exchange->len);
    pipeline->out_len += exchange->len;
    pipeline->asked += exchange->len;
}
