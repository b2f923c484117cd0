/* SPDX-License-Identifier: MIT */
/*
 * name_state.h - what a client knows of one name, for all its handles of that name: the bytes, the
 * queue of the threads that wait, and the number of its handles that hold the lock.
 *
 * A handle keeps its name for its whole life, so that locking looks up nothing. The client's mutex
 * guards all of it.
 */
#ifndef DL_NAME_STATE_H
#define DL_NAME_STATE_H

#include "client/stats.h"

#include <dlock/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The local queue: the threads of one client that wait for one name, in the order of their arrival.
 * Pure.
 *
 * Only admitted waiters go to the store: the first waiter and, if it is a reader, the readers
 * directly behind it. A reader does not pass a waiting writer.
 */

struct dl_local_waiter {
    struct dl_local_waiter *prev, *next;
    enum dlock_mode mode;
    bool queued, admitted;
};

struct dl_local_queue {
    struct dl_local_waiter *first, *last;
};

/* Whether a new waiter would be admitted at once. */
bool dl_local_queue_open_to(const struct dl_local_queue *queue, enum dlock_mode mode);

void dl_local_queue_push(struct dl_local_queue *queue, struct dl_local_waiter *waiter,
                         enum dlock_mode mode);

/* Takes the waiter out; does nothing if it is not in the queue. */
void dl_local_queue_remove(struct dl_local_queue *queue, struct dl_local_waiter *waiter);

/* Admits one more waiter and returns it; NULL: none can be admitted now. */
struct dl_local_waiter *dl_local_queue_admit(struct dl_local_queue *queue);

struct dl_name_state {
    struct dl_local_queue queue;
    enum dlock_status
        failure; /* the present failure of the store for the first waiter; DLOCK_OK: none */
    uint32_t len;
    int64_t
        contended_since_ns; /* since when other clients count as waiting; DL_NEVER: they do not */
    unsigned refs;
    unsigned writers, readers;    /* handles that hold the lock, or whose release is in progress */
    unsigned queue_entries;       /* entries of this client in the store's queue */
    struct dl_stats_class *stats; /* of its class; set by the first handle */
    unsigned char bytes[];
};

/* All names of a client: a binary search tree (tsearch). */
struct dl_name_states {
    void *root;
};

#define DL_NAME_TEXT 168 /* room for a name in a message; a longer one is cut */

/* The name, printable, for a message. Returns out. */
const char *dl_name_state_text(const struct dl_name_state *name, char out[DL_NAME_TEXT]);

/* Finds the name, or makes it at its first use. NULL: no memory. */
struct dl_name_state *dl_name_state_ref(struct dl_name_states *names, const void *bytes,
                                        size_t len);
void dl_name_state_unref(struct dl_name_states *names, struct dl_name_state *name);

/* The store reports its number of waiters, `own` of them of this client. UINT32_MAX: it does not
 * know. */
void dl_name_state_note_waiters(struct dl_name_state *name, uint32_t waiters, unsigned own,
                                int64_t now_ns);
/* The same for a grant: the time of hand-offs counts from here. */
void dl_name_state_note_grant(struct dl_name_state *name, uint32_t waiters, unsigned own,
                              int64_t now_ns);

/* Whether handles of this client hold the lock so that mode cannot be granted. */
bool dl_name_state_held_against(const struct dl_name_state *name, enum dlock_mode mode);

#endif
