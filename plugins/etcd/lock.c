/* SPDX-License-Identifier: MIT */
#include "lock.h"

#include "stand.h"
#include "unlock.h"

/* A reader wants to join other readers without a queue entry: it puts its key and takes it back if
 * a writer came first. */
static enum dlock_status join(struct etcd_take *take)
{
    struct etcd_txn txn;
    struct etcd_standing standing = {0};
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_flight_end(take);
    etcd_txn_if_agreed(&txn, &take->keys, take->limit);
    etcd_txn_put(&txn.then, &take->keys, take->value, take->value_len, take->full->id);
    etcd_stand_add(&txn.then, take);
    etcd_stand_add(&txn.otherwise, take);
    status = etcd_flight_send(take, &txn);
    if (status != DLOCK_OK)
        return status;
    if (!etcd_flight_answer(take)->succeeded) {
        if (etcd_stand_read(take, 0, &standing) && standing.create_revision == 0) {
            etcd_flight_put(take);
            take->overtaken = true;
            return DLOCK_LOST;
        }
        etcd_flight_drop(take);
        return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNKNOWN, 0,
                          "an earlier request of this token was executed meanwhile");
    }
    if (!etcd_stand_read(take, 1, &standing))
        return etcd_stand_nonsense(take);
    status = etcd_stand_put(take, take->full, &standing);
    if (status != DLOCK_BUSY)
        return status;
    status = etcd_unlock_delete(take->session, take->req, NULL, take->err);
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* The name has keys, but none of this token. */
static enum dlock_status refused(struct etcd_take *take, const struct etcd_standing *standing)
{
    if (take->shared && standing->predecessor == NULL && standing->keys > 0)
        return join(take);
    return etcd_stand_refuse(take, standing);
}

static void try_make(const struct etcd_take *take, struct etcd_txn *txn, struct etcd_txn *nested)
{
    etcd_txn_if_free(txn, &take->keys);
    etcd_txn_put(&txn->then, &take->keys, take->value, take->value_len, take->full->id);
    etcd_txn_if_agreed(nested, &take->keys, take->limit);
    if (take->enqueue)
        etcd_txn_put(&nested->then, &take->keys, take->value, take->value_len, take->brief->id);
    etcd_txn_nested(&txn->otherwise, nested);
    etcd_stand_add(&txn->otherwise, take);
}

static enum dlock_status try_judge(struct etcd_take *take)
{
    const Pb__TxnResponse *answer = etcd_flight_answer(take), *nested = NULL;
    struct etcd_standing standing = {0};

    if (answer->succeeded && answer->header != NULL && answer->header->revision > 0) {
        etcd_slot_hold(take->slot, take->full, answer->header->revision, 0);
        etcd_flight_keep(take, take->full);
        take->grant->waiters = 0;
        return etcd_stand_grant(take);
    }
    nested = etcd_txn_nested_answer(answer, 0);
    if (answer->succeeded || nested == NULL || !etcd_stand_read(take, 1, &standing))
        return etcd_stand_nonsense(take);
    if (standing.create_revision == 0)
        return nested->succeeded ? refused(take, &standing) : etcd_stand_differ(take, &standing);
    if (nested->succeeded)
        return etcd_stand_put(take, take->brief, &standing);
    return etcd_stand_found(take); /* the key is there from before [TRY-5] */
}

enum dlock_status etcd_lock_try(struct etcd_take *take)
{
    struct etcd_txn txn, nested;
    enum dlock_status status = DLOCK_INTERNAL;

    try_make(take, &txn, &nested);
    status = etcd_flight_send(take, &txn);
    if (status == DLOCK_OK)
        status = try_judge(take);
    etcd_flight_end(take);
    return status;
}
