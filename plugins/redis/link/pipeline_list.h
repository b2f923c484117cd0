/* SPDX-License-Identifier: MIT */
/* pipeline_list.h - the requests of a connection without an answer, in their order, and the bytes
 * of the requests that were not sent. All functions need the pipeline's mutex. */
#ifndef REDIS_PIPELINE_LIST_H
#define REDIS_PIPELINE_LIST_H

#include "redis/link/pipeline.h"

void redis_pipeline_list_add(struct redis_pipeline *pipeline, struct redis_exchange *exchange);
struct redis_exchange *redis_pipeline_list_pop(struct redis_pipeline *pipeline);

/* Bytes of the longest answer that may come before, and of its own. */
size_t redis_pipeline_list_answer_max(const struct redis_exchange *exchange);

/* Takes a request out whose time is over. UNAVAILABLE: no byte of it was sent, and none will be.
 * UNKNOWN: its answer is dropped on arrival, and the connection is dead. */
void redis_pipeline_list_give_up(struct redis_pipeline *pipeline, struct redis_exchange *exchange);

/* Room for len more bytes; false: no memory. And adds the bytes of a request. */
bool redis_pipeline_list_reserve(struct redis_pipeline *pipeline, size_t len);
void redis_pipeline_list_write(struct redis_pipeline *pipeline,
                               const struct redis_exchange *exchange);

#endif
