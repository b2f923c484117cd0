/* SPDX-License-Identifier: MIT */
/*
 * change.h - puts a key that holds a name once more: with a longer lease, or as a reader's.
 *
 * A waiter's key has a short lease, so that a waiter that dies delays the others little. When it
 * holds the name and is renewed for longer, it gets another lease. The create_revision stays, and
 * with it the key's standing. A Put happens only if the key is as it was read, so that a delayed
 * request undoes no later one.
 */
#ifndef ETCD_CHANGE_H
#define ETCD_CHANGE_H

#include "slot.h"

struct etcd_change {
    struct dlock_lease_op *op; /* OK, with what the present lease gives */
    const struct etcd_keys *keys;
    const Pb__KeyValue *kv; /* the key as it was read */
};

/* True: the key needs a change for this renewal. */
bool etcd_change_needed(struct etcd_session *session, const struct etcd_change *change);

/* Makes the changes. A downgrade that does not work is a failure of its element; a longer lease
 * that does not work leaves the element as it is. */
void etcd_change_run(struct etcd_session *session, const struct etcd_change *changes, size_t n,
                     int64_t deadline_ns, struct dlock_error *err);

#endif
