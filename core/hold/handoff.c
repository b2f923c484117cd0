/* SPDX-License-Identifier: MIT */
#include "hold/handoff.h"
#include "hold/held.h"
#include "hold/validity.h"

/* Other clients that wait are kept waiting by hand-offs for no longer than this. */
#define CROWDED_MOST_NS (20 * DL_NS_PER_MS)

/* A lease may be handed on for so long after the store has confirmed it. */
#define CONFIRMED_NS DL_NS_PER_S

bool dl_handoff_allowed(const struct dl_handoff_terms *terms)
{
    if (terms->turns >= terms->turns_most)
        return false;
    /* The last number is for who adopts the lease. */
    if (terms->fence != 0 && terms->turns + 1 >= terms->fence_room)
        return false;
    if (terms->crowded_ns != DL_NEVER && terms->now_ns - terms->crowded_ns >= CROWDED_MOST_NS)
        return false;
    if (terms->now_ns < terms->confirmed_ns || terms->now_ns - terms->confirmed_ns >= CONFIRMED_NS)
        return false;
    return terms->left_ns > terms->ttl_ns / 2;
}

/* Who would get it: the head of the line, if it has nothing under way in the store. */
static struct dlock *receiver_of(struct dlock *lock)
{
    struct dl_local_waiter *turn = lock->name->queue.first;
    struct dl_waiting *waiting;

    if (turn == NULL || turn->mode != DLOCK_EXCLUSIVE)
        return NULL;
    waiting = dl_handle_waiting(turn);
    return waiting->ready && !waiting->handed && waiting->cancel == DLOCK_OK ? waiting->lock : NULL;
}

static void claims_swap(struct dlock *from, struct dlock *to)
{
    struct dl_claim *claim = from->claim;

    from->claim = to->claim;
    to->claim = claim;
    claim->turns++;
    dl_handle_mark_claim(from);
    dl_handle_mark_claim(to);
}

bool dl_handoff_locked(struct dlock *lock, int64_t now_ns)
{
    struct dlock *to = receiver_of(lock);
    struct dl_claim *claim = lock->claim;
    struct dl_handoff_terms terms;

    if (to == NULL || lock->renewer_busy || claim->shown || claim->req.mode != DLOCK_EXCLUSIVE ||
        claim->req.ttl_ms != to->terms->ttl_ms || (to->terms->must_fence && claim->fence == 0) ||
        dl_client_has(lock->client, DLOCK_CAP_SESSION) ||
        dl_lease_state(&lock->lease, now_ns) != DLOCK_STATE_HELD)
        return false;
    terms = (struct dl_handoff_terms){
        .turns = claim->turns,
        .turns_most =
            lock->terms->handoff < to->terms->handoff ? lock->terms->handoff : to->terms->handoff,
        .fence = claim->fence,
        .fence_room = claim->fence_room,
        .now_ns = now_ns,
        .crowded_ns = lock->name->crowded_ns,
        .ttl_ns = lock->renewal.lease_ms * DL_NS_PER_MS,
    };
    terms.left_ns = dl_lease_until_ns(&lock->lease) - terms.now_ns;
    terms.confirmed_ns =
        dl_lease_until_ns(&lock->lease) - dl_validity_until_ns(0, lock->renewal.lease_ms);
    if (!dl_handoff_allowed(&terms))
        return false;
    to->waiting->handed = true;
    to->waiting->handed_until_ns = dl_lease_until_ns(&lock->lease);
    to->renewal.lease_ms = lock->renewal.lease_ms;
    dl_held_end_locked(lock);
    claims_swap(lock, to);
    dl_held_count_moved_locked(lock, to);
    dl_handle_changed_locked(to);
    return true;
}
