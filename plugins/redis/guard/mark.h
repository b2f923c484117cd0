/* SPDX-License-Identifier: MIT */
/*
 * mark.h - where the failover guard keeps its record in a cluster (view.lua): a key needs a slot of
 * the server that it is about. Pure.
 *
 * All clients choose the same slot as long as the server has the same slots. Few slots that come or
 * go change the choice seldom. If it changes, the record is lost, and the guard begins anew.
 */
#ifndef REDIS_MARK_H
#define REDIS_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define REDIS_MARK_SIZE 16

/* Reads the answer to CLUSTER NODES. *tag: "{...}", in a slot of the server that answered which
 * does not move just now. *replicas: how many it has, also of those that are down. False: it has no
 * such slot, or the answer makes no sense. */
bool redis_mark_choose(const char *nodes, char tag[REDIS_MARK_SIZE], int64_t *replicas);

#endif
