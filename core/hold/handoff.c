/* SPDX-License-Identifier: MIT */
#include "hold/handoff.h"
#include "hold/held.h"
#include "hold/validity.h"

/* While other clients wait, hand-offs go on for at most this time. */
#define CONTENDED_MOST_NS (20 * DL_NS_PER_MS)

/* A lease may be handed on within this time after the store has confirmed it. */
#define CONFIRMED_NS DL_NS_PER_S

bool dl_handoff_allowed(const struct dl_handoff_input *input)
{
    if (input->handoffs >= input->handoffs_most)
        return false;
    /* The last number is for a program that adopts the lease. */
    if (input->fence != 0 && input->handoffs + 1 >= input->fence_room)
        return false;
    if (input->contended_since_ns != DL_NEVER &&
        input->now_ns - input->contended_since_ns >= CONTENDED_MOST_NS)
        return false;
    if (input->now_ns < input->confirmed_ns || input->now_ns - input->confirmed_ns >= CONFIRMED_NS)
        return false;
    return input->left_ns > input->ttl_ns / 2;
}

/* The handle that would get the lease: the first waiter, if it has no request in progress in the
 * store. */
static struct dlock_handle *receiver_of(struct dlock_handle *lock)
{
    struct dl_local_waiter *waiter = lock->name->queue.first;
    struct dl_waiting *waiting;

    if (waiter == NULL || waiter->mode != DLOCK_EXCLUSIVE)
        return NULL;
    waiting = dl_handle_waiting(waiter);
    return waiting->ready && !waiting->handed && waiting->cancel == DLOCK_OK ? waiting->lock : NULL;
}

/* Whether `to` may have the lease of lock. */
static bool may_get_locked(struct dlock_handle *lock, const struct dlock_handle *to, int64_t now_ns)
{
    const struct dl_claim *claim = lock->claim;
    struct dl_handoff_input input;

    if (lock->options->limit > 1 || to->options->limit > 1 || lock->keep_ms > 0 ||
        claim->req.data_len > 0 || to->options->data_len > 0)
        return false;
    if (lock->renewer_busy || claim->token_exported || claim->req.mode != DLOCK_EXCLUSIVE ||
        claim->req.ttl_ms != dl_handle_ttl_ms(to) || claim->req.end != to->options->end ||
        (to->options->must_fence && claim->fence == 0) ||
        dl_client_has(lock->client, DLOCK_CAP_SESSION) ||
        dl_lease_state(&lock->lease, now_ns) != DLOCK_STATE_HELD)
        return false;
    input = (struct dl_handoff_input){
        .handoffs = claim->handoffs,
        .handoffs_most = lock->options->handoff < to->options->handoff ? lock->options->handoff
                                                                       : to->options->handoff,
        .fence = claim->fence,
        .fence_room = claim->fence_room,
        .now_ns = now_ns,
        .contended_since_ns = lock->name->contended_since_ns,
        .ttl_ns = lock->renewal.lease_ms * DL_NS_PER_MS,
    };
    input.left_ns = dl_lease_until_ns(&lock->lease) - input.now_ns;
    input.confirmed_ns =
        dl_lease_until_ns(&lock->lease) - dl_validity_until_ns(0, lock->renewal.lease_ms);
    return dl_handoff_allowed(&input);
}

bool dl_handoff_withdraws_locked(struct dlock_handle *lock, int64_t now_ns)
{
    const struct dlock_handle *to = receiver_of(lock);

    return to != NULL && to->claim->enqueued && may_get_locked(lock, to, now_ns);
}

static void claims_swap(struct dlock_handle *from, struct dlock_handle *to)
{
    struct dl_claim *claim = from->claim;

    from->claim = to->claim;
    to->claim = claim;
    claim->handoffs++;
    dl_handle_mark_claim(from);
    dl_handle_mark_claim(to);
}

bool dl_handoff_locked(struct dlock_handle *lock, int64_t now_ns)
{
    struct dlock_handle *to = receiver_of(lock);

    if (to == NULL || !may_get_locked(lock, to, now_ns))
        return false;
    to->waiting->handed = true;
    to->waiting->handed_until_ns = dl_lease_until_ns(&lock->lease);
    to->renewal.lease_ms = lock->renewal.lease_ms;
    dl_held_end_locked(lock, now_ns);
    claims_swap(lock, to);
    dl_held_count_moved_locked(lock, to);
    dl_handle_changed_locked(to);
    return true;
}
