/* SPDX-License-Identifier: MIT */
/* slot.h - what the client knows of the key of an attempt. */
#ifndef ETCD_SLOT_H
#define ETCD_SLOT_H

#include "queue.h"
#include "session.h"

/* What etcd_queue_judge found of the key, which has this lease. */
void etcd_slot_note(struct etcd_slot *slot, struct etcd_lease *lease,
                    const struct etcd_standing *standing);
/* The key holds the name, or this permit, as it was put with this lease at a revision. */
void etcd_slot_hold(struct etcd_slot *slot, struct etcd_lease *lease, int64_t revision,
                    uint32_t permit);

/* Forgets the key. Returns its lease, which belongs to the caller then; NULL: not known. */
struct etcd_lease *etcd_slot_clear(struct etcd_slot *slot);
/* The same, and drops the lease. Harmless twice. */
void etcd_slot_drop(struct etcd_slot *slot);
/* It is not known any more which lease the key has, or whether it was put. */
void etcd_slot_doubt(struct etcd_slot *slot);

/* What the store promises to a key with this lease, from the last request that kept it alive on. */
int64_t etcd_slot_lease_ms(const struct etcd_slot *slot, int64_t ttl_ms);

/* The grant of a name to the key. */
void etcd_slot_grant(const struct etcd_session *session, const struct etcd_slot *slot,
                     int64_t ttl_ms, struct dlock_grant *grant);

#endif
