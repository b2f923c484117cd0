/* SPDX-License-Identifier: MIT */
#include "refusal.h"

#include "flight.h"
#include "slot.h"

/* The node is gone. */
static enum dlock_status say(const struct zk_refusal *refusal)
{
    const struct zk_attempt *attempt = refusal->attempt;

    if (refusal->reason == ZK_USED_UP)
        return dlock_fail(
            attempt->err, ZK_ORIGIN, DLOCK_CONFIG, 0,
            "the sequences below %s are used up (delete that node when nobody uses it)",
            attempt->path.text);
    if (refusal->reason == ZK_OTHER_LIMIT)
        return dlock_fail(attempt->err, ZK_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER,
                          refusal->limit, dlock_request_limit(attempt->req));
    if (refusal->reason == ZK_NOT_TO_BE_LISTED)
        return zk_flight_fail(attempt->err, refusal->rc, "list", attempt->path.text);
    return DLOCK_BUSY;
}

/* What a slot waits for, while its node is deleted. */
struct kept {
    char *predecessor;
    bool front;
};

static void keep(struct kept *kept, const struct zk_refusal *refusal)
{
    struct zk_slot *slot = refusal->attempt->slot;

    if (refusal->reason != ZK_HELD)
        return;
    *kept = (struct kept){.predecessor = slot->predecessor, .front = slot->front};
    slot->predecessor = NULL;
}

static void give_back(const struct kept *kept, const struct zk_refusal *refusal)
{
    struct zk_slot *slot = refusal->attempt->slot;

    if (refusal->reason != ZK_HELD)
        return;
    slot->predecessor = kept->predecessor;
    slot->front = kept->front;
}

void zk_refusal_delete(struct zk_refusal *const *refusals, size_t n)
{
    struct zk_slot_step deletions[ZK_FLIGHT_MOST];
    struct kept kept[ZK_FLIGHT_MOST];

    for (size_t i = 0; i < n; i++) {
        keep(&kept[i], refusals[i]);
        deletions[i].attempt = refusals[i]->attempt;
    }
    zk_slot_delete_all(deletions, n);
    for (size_t i = 0; i < n; i++) {
        give_back(&kept[i], refusals[i]);
        refusals[i]->status =
            deletions[i].status == DLOCK_OK ? say(refusals[i]) : deletions[i].status;
    }
}
