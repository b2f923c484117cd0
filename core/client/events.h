/* SPDX-License-Identifier: MIT */
/*
 * events.h - notices on their way to the application: a queue that is linked through the handles,
 * and a file descriptor that is readable while the queue is not empty. The client's mutex guards
 * it.
 */
#ifndef DL_EVENTS_H
#define DL_EVENTS_H

#include <dlock/dlock.h>
#include <stdbool.h>

/* Part of a handle or of its operation; in the queue while its notice is not taken. */
struct dl_event_node {
    struct dl_event_node *next,
        **at;                    /* at: the pointer to this node; NULL: it is not in the queue */
    enum dlock_notice_kind kind; /* set when its owner is made; push and remove keep it */
};

struct dl_events {
    struct dl_event_node *first, **last;
    int fd;    /* -1: none */
    bool held; /* the descriptor is raised by let_go */
};

/* pollable: make the descriptor. Returns 0 or an errno. */
int dl_events_init(struct dl_events *events, bool pollable);
void dl_events_fini(struct dl_events *events);

void dl_events_push(struct dl_events *events, struct dl_event_node *node);

/* Many nodes are pushed between hold and let_go, and wake the application once. */
void dl_events_hold(struct dl_events *events);
void dl_events_let_go(struct dl_events *events);

/* Takes the oldest node out; NULL: none. */
struct dl_event_node *dl_events_pop(struct dl_events *events);

/* Takes the node out if it is in the queue. */
void dl_events_remove(struct dl_events *events, struct dl_event_node *node);

#endif
