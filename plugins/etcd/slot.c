/* SPDX-License-Identifier: MIT */
#include "slot.h"

#include <stdlib.h>
#include <string.h>

static void predecessor_set(struct etcd_slot *slot, const Pb__KeyValue *predecessor)
{
    free(slot->predecessor);
    slot->predecessor = NULL;
    slot->predecessor_len = 0;
    if (predecessor == NULL)
        return;
    slot->predecessor = malloc(predecessor->key.len + 1); /* without memory: watch says so */
    if (slot->predecessor == NULL)
        return;
    memcpy(slot->predecessor, predecessor->key.data, predecessor->key.len);
    slot->predecessor_len = predecessor->key.len;
}

void etcd_slot_note(struct etcd_slot *slot, struct etcd_lease *lease,
                    const struct etcd_standing *standing)
{
    slot->lease = lease;
    slot->create_revision = standing->create_revision;
    slot->mod_revision = standing->mod_revision;
    slot->read_revision = standing->revision;
    slot->holds = standing->holds;
    slot->front = standing->front;
    slot->permit = standing->permit;
    predecessor_set(slot, standing->predecessor);
}

void etcd_slot_hold(struct etcd_slot *slot, struct etcd_lease *lease, int64_t revision,
                    uint32_t permit)
{
    slot->lease = lease;
    slot->create_revision = revision;
    slot->mod_revision = revision;
    slot->holds = true;
    slot->front = false;
    slot->permit = permit;
    predecessor_set(slot, NULL);
}

struct etcd_lease *etcd_slot_clear(struct etcd_slot *slot)
{
    struct etcd_lease *lease = slot->lease;

    slot->lease = NULL;
    slot->create_revision = 0;
    slot->mod_revision = 0;
    slot->read_revision = 0;
    slot->holds = false;
    slot->front = false;
    slot->permit = 0;
    predecessor_set(slot, NULL);
    return lease;
}

void etcd_slot_drop(struct etcd_slot *slot)
{
    etcd_stock_drop(etcd_slot_clear(slot));
}

void etcd_slot_doubt(struct etcd_slot *slot)
{
    etcd_stock_drop(slot->lease);
    slot->lease = NULL;
    slot->mod_revision = 0;
}

int64_t etcd_slot_lease_ms(const struct etcd_slot *slot, int64_t ttl_ms)
{
    return slot->lease->ttl_ms < ttl_ms ? slot->lease->ttl_ms : ttl_ms;
}

void etcd_slot_grant(const struct etcd_session *session, const struct etcd_slot *slot,
                     int64_t ttl_ms, struct dlock_grant *grant)
{
    const uint64_t scale = session->config.fence_scale;

    grant->fence = (uint64_t)slot->create_revision * scale;
    grant->fence_room = (uint32_t)scale - 1;
    grant->lease_ms = etcd_slot_lease_ms(slot, ttl_ms);
    if (DLOCK_HAS(grant, permit))
        grant->permit = slot->permit;
}
