/* SPDX-License-Identifier: MIT */
#include "permit.h"

#include "stand.h"

#define ROUNDS 50 /* in each of which another request for the name was executed */

/* ---- transactions ---- */

static void permit_put(const struct etcd_take *take, struct etcd_txn *txn, char *value,
                       uint32_t permit)
{
    const size_t len = etcd_value_add_data(
        value,
        etcd_value_make_permit(value, ETCD_VALUE_SIZE, take->limit, permit, take->req->label),
        take->req);

    etcd_txn_put(&txn->then, &take->keys, value, len, take->full->id);
}

/* What was read leaves a permit for the key: the transaction takes it. */
static bool takes(const struct etcd_standing *standing)
{
    return standing->revision == 0 || etcd_queue_has_room(standing);
}

/* standing: as it was read; revision 0: it was not. */
static void make(const struct etcd_take *take, const struct etcd_standing *standing,
                 struct etcd_txn *txn, char *value)
{
    if (standing->revision == 0) {
        etcd_txn_if_free(txn, &take->keys);
        permit_put(take, txn, value, 0);
    } else if (etcd_queue_has_room(standing)) {
        etcd_txn_if_absent(txn, &take->keys);
        etcd_txn_and_quiet(txn, &take->keys, standing->revision);
        permit_put(take, txn, value, etcd_queue_permit(standing));
    } else {
        etcd_txn_if_absent(txn, &take->keys);
        etcd_txn_and_limit(txn, &take->keys, take->limit);
        etcd_txn_put(&txn->then, &take->keys, take->value, take->value_len, take->brief->id);
        etcd_stand_add(&txn->then, take);
    }
    etcd_stand_add(&txn->otherwise, take);
}

/* ---- answers ---- */

static enum dlock_status taken(struct etcd_take *take, const struct etcd_standing *standing)
{
    const Pb__TxnResponse *answer = etcd_flight_answer(take);

    if (answer->header == NULL || answer->header->revision <= 0)
        return etcd_stand_nonsense(take);
    etcd_slot_hold(take->slot, take->full, answer->header->revision,
                   standing->revision == 0 ? 0 : etcd_queue_permit(standing));
    etcd_flight_keep(take, take->full);
    take->grant->waiters = 0;
    return etcd_stand_grant(take);
}

static enum dlock_status enqueued(struct etcd_take *take)
{
    struct etcd_standing standing = {0};

    return etcd_stand_read(take, 1, &standing) ? etcd_stand_put(take, take->brief, &standing)
                                               : etcd_stand_nonsense(take);
}

/* The rest of many keys. */
static enum dlock_status read_on(struct etcd_take *take, struct etcd_standing *standing)
{
    struct etcd_question question;
    enum dlock_status status = DLOCK_INTERNAL;

    question.standing = *standing;
    etcd_rpc_init(&question.range, ETCD_RANGE, 1);
    etcd_rpc_init(&question.alive, ETCD_LEASE_KEEP_ALIVE, 1);
    status = etcd_queue_older(take->session, &question, &take->keys, false, take->req->deadline_ns,
                              take->err);
    *standing = question.standing;
    standing->predecessor = NULL; /* goes with the question */
    etcd_queue_end(&question);
    if (status != DLOCK_OK)
        etcd_flight_put(take);
    return status;
}

/* Nothing was put. INTERNAL: another transaction may do it. */
static enum dlock_status refused(struct etcd_take *take, struct etcd_standing *standing)
{
    enum dlock_status status = DLOCK_OK;

    *standing = (struct etcd_standing){0};
    if (!etcd_stand_read(take, 0, standing))
        return etcd_stand_nonsense(take);
    if (standing->create_revision != 0)
        return etcd_stand_found(take); /* from before [TRY-5] */
    if (standing->other_limit != 0)
        return etcd_stand_refuse(take, standing);
    if (standing->further != 0)
        status = read_on(take, standing);
    if (status != DLOCK_OK)
        return status;
    if (standing->keys == 0)
        standing->revision = 0;
    return takes(standing) || take->enqueue ? DLOCK_INTERNAL : etcd_stand_refuse(take, standing);
}

static enum dlock_status run(struct etcd_take *take, struct etcd_standing *standing)
{
    char value[ETCD_VALUE_SIZE];
    struct etcd_txn txn;
    enum dlock_status status = DLOCK_INTERNAL;

    make(take, standing, &txn, value);
    status = etcd_flight_send(take, &txn);
    if (status == DLOCK_OK && !etcd_flight_answer(take)->succeeded)
        status = refused(take, standing);
    else if (status == DLOCK_OK)
        status = takes(standing) ? taken(take, standing) : enqueued(take);
    etcd_flight_end(take);
    return status;
}

enum dlock_status etcd_permit_try(struct etcd_take *take)
{
    struct etcd_standing standing = {0};
    enum dlock_status status = DLOCK_INTERNAL;

    for (int i = 0; i < ROUNDS && status == DLOCK_INTERNAL; i++)
        status = run(take, &standing);
    if (status != DLOCK_INTERNAL)
        return status;
    etcd_flight_put(take);
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "others change the name as fast as it is read");
}
