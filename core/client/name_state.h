/* SPDX-License-Identifier: MIT */
/*
 * name_state.h - what a client keeps once a name, for all its handles of that name: the bytes, the
 * queue of the threads that wait, and how many of its handles hold it.
 *
 * A handle keeps its name from birth to end, so that locking looks nothing up. The client's mutex
 * guards all of it.
 */
#ifndef DL_NAME_STATE_H
#define DL_NAME_STATE_H

#include "client/local_queue.h"

#include <stddef.h>
#include <stdint.h>

struct dl_name_state {
    struct dl_local_queue queue;
    enum dlock_status failure; /* how the store failed the first in line just now; OK: not */
    int64_t
        contended_since_ns; /* since when the store is taken to have other waiters; DL_NEVER: not */
    unsigned refs;
    unsigned writers, readers; /* handles that hold it, or whose release is on its way */
    unsigned queue_entries;    /* waiters of this client that the store has in its queue */
    uint32_t len;
    unsigned char bytes[];
};

/* All names of a client: a binary search tree. */
struct dl_name_states {
    void *root;
};

/* The name, made at its first use; NULL: no memory. Drop it as often. */
struct dl_name_state *dl_name_state_ref(struct dl_name_states *names, const void *bytes,
                                        size_t len);
void dl_name_state_unref(struct dl_name_states *names, struct dl_name_state *name);

/* The same in a forked child, which must not trust the tree: that leaks. */
void dl_name_state_unref_after_fork(struct dl_name_state *name);

/* The store says that it has so many waiters, `own` of them of this client. UINT32_MAX: it does not
 * know. */
void dl_name_state_note_waiters(struct dl_name_state *name, uint32_t waiters, unsigned own,
                                int64_t now_ns);
/* The same of a grant, from which the time of hand-offs counts. */
void dl_name_state_note_grant(struct dl_name_state *name, uint32_t waiters, unsigned own,
                              int64_t now_ns);

/* Whether handles of this client keep mode from being granted. */
bool dl_name_state_held_against(const struct dl_name_state *name, enum dlock_mode mode);

#endif
