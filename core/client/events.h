/* SPDX-License-Identifier: MIT */
/*
 * events.h - losses on their way to the application: a queue threaded through the handles, and a
 * descriptor that polls readable while it is not empty. The client's mutex guards it.
 */
#ifndef DL_EVENTS_H
#define DL_EVENTS_H

#include <dlock/dlock.h>
#include <stdbool.h>

/* Part of a handle: the loss of its last acquisition is not yet told. */
struct dl_event_node {
    struct dl_event_node *next, **at; /* at: what points to it; NULL: it is not in */
};

struct dl_events {
    struct dl_event_node *first, **last;
    int fd; /* -1: nobody polls */
};

/* pollable: make the descriptor. 0, or an errno. */
int dl_events_init(struct dl_events *events, bool pollable);
void dl_events_fini(struct dl_events *events);

void dl_events_push(struct dl_events *events, struct dl_event_node *node);

/* The oldest, taken out; NULL: none. */
struct dl_event_node *dl_events_pop(struct dl_events *events);

/* Copies as much as the caller's struct_size says; less than the first published size counts as
 * that. */
void dl_events_export(struct dlock_notice *to, const struct dlock_notice *from);

/* Takes node out if it is in. */
void dl_events_remove(struct dl_events *events, struct dl_event_node *node);

#endif
