/* SPDX-License-Identifier: MIT */
#include "client/events.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int dl_events_init(struct dl_events *events, bool pollable)
{
    *events = (struct dl_events){.fd = -1};
    events->last = &events->first;
    if (pollable) {
        events->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (events->fd < 0)
            return errno;
    }
    return 0;
}

void dl_events_fini(struct dl_events *events)
{
    if (events->fd >= 0)
        (void)close(events->fd);
    events->fd = -1;
}

/* This eventfd never fills up, and only this file reads it: no error is possible. */
static void fd_raise(const struct dl_events *events)
{
    if (events->fd >= 0)
        (void)eventfd_write(events->fd, 1);
}

static void fd_lower(const struct dl_events *events)
{
    eventfd_t count;

    if (events->fd >= 0 && events->first == NULL)
        (void)eventfd_read(events->fd, &count);
}

void dl_events_push(struct dl_events *events, struct dl_event_node *node)
{
    bool first = events->first == NULL;

    node->at = events->last;
    node->next = NULL;
    *events->last = node;
    events->last = &node->next;
    if (first && !events->held)
        fd_raise(events);
}

void dl_events_hold(struct dl_events *events)
{
    events->held = events->first == NULL; /* else it is raised already */
}

void dl_events_let_go(struct dl_events *events)
{
    if (events->held && events->first != NULL)
        fd_raise(events);
    events->held = false;
}

void dl_events_remove(struct dl_events *events, struct dl_event_node *node)
{
    if (node->at == NULL)
        return;
    *node->at = node->next;
    if (node->next != NULL)
        node->next->at = node->at;
    else
        events->last = node->at;
    node->at = NULL;
    fd_lower(events);
}

struct dl_event_node *dl_events_pop(struct dl_events *events)
{
    struct dl_event_node *node = events->first;

    if (node != NULL)
        dl_events_remove(events, node);
    return node;
}
