/* SPDX-License-Identifier: MIT */
#include "permit.h"

#include "stand.h"

#define ROUNDS       ETCD_LIMIT_MOST /* in each of which another request was executed */
#define QUIET_ROUNDS 3               /* after so many failures the call enters the queue */

/* What the next transaction does. */
enum step {
    TAKE_FREE,  /* the first permit of a name without keys */
    TAKE_QUIET, /* a permit that is free, if no key was put since the others were read */
    ENQUEUE
};

struct trial {
    enum step step;
    int quiet;                     /* transactions of TAKE_QUIET that came too late */
    struct etcd_standing standing; /* as the keys were read last */
};

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

/* agreed: succeeds if nothing is in the way but others of the same limit. */
static void make(const struct etcd_take *take, const struct trial *trial, struct etcd_txn *txn,
                 struct etcd_txn *agreed, char *value)
{
    switch (trial->step) {
    case TAKE_FREE:
        etcd_txn_if_free(txn, &take->keys);
        permit_put(take, txn, value, 0);
        break;
    case TAKE_QUIET:
        etcd_txn_if_absent(txn, &take->keys);
        etcd_txn_and_quiet(txn, &take->keys, trial->standing.revision);
        permit_put(take, txn, value, etcd_queue_permit(&trial->standing));
        break;
    case ENQUEUE:
        etcd_txn_if_agreed(txn, &take->keys, take->limit);
        etcd_txn_put(&txn->then, &take->keys, take->value, take->value_len, take->brief->id);
        etcd_stand_add(&txn->then, take);
        break;
    }
    etcd_txn_if_agreed(agreed, &take->keys, take->limit);
    etcd_txn_nested(&txn->otherwise, agreed);
    etcd_stand_add(&txn->otherwise, take);
}

/* ---- answers ---- */

static enum dlock_status taken(struct etcd_take *take, uint32_t permit)
{
    const Pb__TxnResponse *answer = etcd_flight_answer(take);

    if (answer->header == NULL || answer->header->revision <= 0)
        return etcd_stand_nonsense(take);
    etcd_slot_hold(take->slot, take->full, answer->header->revision, permit);
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

static enum dlock_status done(struct etcd_take *take, const struct trial *trial)
{
    switch (trial->step) {
    case TAKE_FREE:
        return taken(take, 0);
    case TAKE_QUIET:
        return taken(take, etcd_queue_permit(&trial->standing));
    case ENQUEUE:
        break;
    }
    return enqueued(take);
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

/* INTERNAL: another transaction may do it. */
static enum dlock_status next_step(struct etcd_take *take, struct trial *trial)
{
    const struct etcd_standing *standing = &trial->standing;

    trial->quiet += trial->step == TAKE_QUIET;
    if (standing->keys == 0)
        trial->step = TAKE_FREE;
    else if (etcd_queue_has_room(standing) && (!take->enqueue || trial->quiet < QUIET_ROUNDS))
        trial->step = TAKE_QUIET;
    else if (take->enqueue)
        trial->step = ENQUEUE;
    else
        return etcd_stand_refuse(take, standing);
    return DLOCK_INTERNAL;
}

/* Nothing was put. */
static enum dlock_status refused(struct etcd_take *take, struct trial *trial)
{
    struct etcd_standing *standing = &trial->standing;
    const Pb__TxnResponse *agreed = etcd_txn_nested_answer(etcd_flight_answer(take), 0);
    enum dlock_status status = DLOCK_OK;

    *standing = (struct etcd_standing){0};
    if (agreed == NULL || !etcd_stand_read(take, 1, standing))
        return etcd_stand_nonsense(take);
    if (standing->create_revision != 0)
        return etcd_stand_found(take); /* from before [TRY-5] */
    if (!agreed->succeeded && standing->keys > 0)
        return etcd_stand_differ(take, standing);
    if (standing->further != 0)
        status = read_on(take, standing);
    return status == DLOCK_OK ? next_step(take, trial) : status;
}

static enum dlock_status run(struct etcd_take *take, struct trial *trial)
{
    char value[ETCD_VALUE_SIZE];
    struct etcd_txn txn, agreed;
    enum dlock_status status = DLOCK_INTERNAL;

    make(take, trial, &txn, &agreed, value);
    status = etcd_flight_send(take, &txn);
    if (status == DLOCK_OK)
        status = etcd_flight_answer(take)->succeeded ? done(take, trial) : refused(take, trial);
    etcd_flight_end(take);
    return status;
}

static int64_t left_ns(const struct etcd_take *take)
{
    return take->req->deadline_ns - etcd_stock_now(&take->session->stock);
}

/* A call without a queue entry ends before its deadline cuts a transaction, which would be UNKNOWN
 * and end the connection of the others. */
static bool gives_up(const struct etcd_take *take, const struct trial *trial, int64_t spare_ns)
{
    return !take->enqueue && trial->quiet >= QUIET_ROUNDS && left_ns(take) < spare_ns;
}

enum dlock_status etcd_permit_try(struct etcd_take *take)
{
    const int64_t spare_ns = left_ns(take) / 4;
    struct trial trial = {.step = TAKE_FREE};
    enum dlock_status status = DLOCK_INTERNAL;

    for (int i = 0; i < ROUNDS && status == DLOCK_INTERNAL && !gives_up(take, &trial, spare_ns);
         i++)
        status = run(take, &trial);
    if (status != DLOCK_INTERNAL)
        return status;
    etcd_flight_put(take);
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "others change the name as fast as it is read");
}
