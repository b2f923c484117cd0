/* SPDX-License-Identifier: MIT */
#include "stand.h"

#include "send.h"

#define CLAIMS 3

enum dlock_status etcd_stand_grant(struct etcd_take *take)
{
    etcd_slot_grant(take->session, take->slot, take->req->ttl_ms, take->grant);
    return DLOCK_OK;
}

static uint32_t others_of(const struct etcd_standing *standing, uint32_t known)
{
    return standing->keys > known ? standing->keys - known : 0;
}

enum dlock_status etcd_stand_refuse(struct etcd_take *take, const struct etcd_standing *standing)
{
    etcd_flight_put(take);
    if (standing->other_limit != 0)
        return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER,
                          standing->other_limit, take->limit);
    take->grant->waiters = others_of(standing, 1);
    take->grant->queue_position = take->grant->waiters;
    return DLOCK_BUSY;
}

enum dlock_status etcd_stand_differ(struct etcd_take *take, struct etcd_standing *standing)
{
    enum dlock_status status = DLOCK_OK;

    if (standing->other_limit == 0)
        status = etcd_queue_other_limit(take->session, &take->keys, take->limit,
                                        &standing->other_limit, take->req->deadline_ns, take->err);
    if (status == DLOCK_OK)
        return etcd_stand_refuse(take, standing); /* BUSY, if these keys have gone meanwhile */
    etcd_flight_put(take);
    return status;
}

/* The slot has the key. */
static enum dlock_status stands(struct etcd_take *take, const struct etcd_standing *standing)
{
    uint32_t holders = standing->limit > 1 ? standing->limit : 1;

    if (standing->holds) {
        take->grant->waiters = others_of(standing, 1);
        if ((take->shared || take->limit > 1) && take->grant->waiters > 0)
            take->grant->waiters = UINT32_MAX; /* these may hold it, too */
        return etcd_stand_grant(take);
    }
    take->grant->waiters = others_of(standing, holders + 1);
    take->grant->queue_position =
        standing->predecessor_is_first || standing->front ? 0 : take->grant->waiters;
    if ((take->req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) == 0)
        return DLOCK_BUSY;
    take->grant->flags |= DLOCK_GRANT_QUEUED;
    take->grant->fence =
        (uint64_t)take->slot->create_revision * take->session->config.fence_scale - 1;
    take->grant->lease_ms = etcd_slot_lease_ms(take->slot, take->req->ttl_ms);
    return DLOCK_BUSY;
}

static enum dlock_status claimed(struct etcd_take *take, int64_t revision, uint32_t permit)
{
    take->slot->mod_revision = revision;
    take->slot->holds = true;
    take->slot->front = false;
    take->slot->permit = permit;
    return etcd_stand_grant(take);
}

/* Puts the lowest permit that is free into the key of the slot. LOST: the key has ended, or an
 * earlier request has changed it. */
static enum dlock_status claim(struct etcd_take *take, uint32_t permit)
{
    struct etcd_slot *slot = take->slot;
    struct etcd_rpc rpc;
    char value[ETCD_VALUE_SIZE];
    const size_t len = etcd_value_add_data(
        value, etcd_value_make_permit(value, sizeof value, take->limit, permit, take->req->label),
        take->req);
    struct etcd_txn txn;
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_txn_if_unchanged(&txn, &take->keys, slot->mod_revision);
    etcd_txn_put(&txn.then, &take->keys, value, len, slot->lease->id);
    etcd_rpc_init(&rpc, ETCD_TXN, 1);
    status = etcd_send(take->session, &rpc, etcd_txn_request(&txn), true, take->req->deadline_ns,
                       take->err);
    if (status == DLOCK_OK) {
        const Pb__TxnResponse *answer =
            (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&rpc, 0);

        if (!answer->succeeded || answer->header == NULL)
            status = DLOCK_LOST;
        else
            status = claimed(take, answer->header->revision, permit);
    } else if (status != DLOCK_UNAVAILABLE && status != DLOCK_LOST) {
        etcd_slot_doubt(slot);
    }
    etcd_rpc_fini(&rpc);
    return status;
}

/* Asks for the key of the slot, whose lease is kept alive. LOST: once more. */
static enum dlock_status slot_ask_once(struct etcd_take *take, bool *known)
{
    struct etcd_question question;
    struct etcd_slot *slot = take->slot;
    enum dlock_status status =
        etcd_queue_ask(take->session, &question, &take->keys, take->shared, slot->create_revision,
                       slot->lease, take->req->deadline_ns, take->err);

    *known = false;
    if (status == DLOCK_OK && question.standing.create_revision == slot->create_revision &&
        question.standing.lease_id == slot->lease->id && question.alive_ms > 0 &&
        !question.standing.kept) {
        etcd_slot_note(slot, slot->lease, &question.standing);
        *known = true;
        status = etcd_queue_has_room(&question.standing)
                     ? claim(take, etcd_queue_permit(&question.standing))
                     : stands(take, &question.standing);
    } else if (status == DLOCK_OK) {
        etcd_slot_drop(slot); /* deleted, or about to go with its lease */
    }
    etcd_queue_end(&question);
    return status;
}

/* The second time the key has its permit, or has gone. */
static enum dlock_status slot_ask(struct etcd_take *take, bool *known)
{
    enum dlock_status status = DLOCK_LOST;

    for (int i = 0; i < CLAIMS && status == DLOCK_LOST && take->slot->lease != NULL; i++)
        status = slot_ask_once(take, known);
    return status == DLOCK_LOST ? dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                                             "an earlier request changed the key meanwhile")
                                : status;
}

enum dlock_status etcd_stand_find(struct etcd_take *take, bool *known)
{
    struct etcd_question question;
    struct etcd_lease *lease = NULL;
    enum dlock_status status = etcd_queue_ask(take->session, &question, &take->keys, take->shared,
                                              0, NULL, take->req->deadline_ns, take->err);

    *known = false;
    if (status == DLOCK_OK && question.standing.create_revision != 0) {
        lease = etcd_stock_adopt(question.standing.lease_id);
        if (lease == NULL)
            status = etcd_flight_no_memory(take);
        else
            etcd_slot_note(take->slot, lease, &question.standing);
    }
    etcd_queue_end(&question);
    return lease != NULL ? slot_ask(take, known) : status;
}

enum dlock_status etcd_stand_ask(struct etcd_take *take, bool *known)
{
    if (take->slot->lease != NULL && take->slot->create_revision != 0)
        return slot_ask(take, known);
    etcd_slot_drop(take->slot);
    return etcd_stand_find(take, known);
}

void etcd_stand_add(struct etcd_ops *ops, const struct etcd_take *take)
{
    etcd_queue_own(etcd_txn_range(ops), &take->keys);
    etcd_queue_range(etcd_txn_range(ops), &take->keys, take->shared || take->limit > 1, 0);
}

bool etcd_stand_read(const struct etcd_take *take, size_t i, struct etcd_standing *standing)
{
    const Pb__TxnResponse *answer = etcd_flight_answer(take);
    const Pb__RangeResponse *own = etcd_txn_range_answer(answer, i);
    const Pb__RangeResponse *others = etcd_txn_range_answer(answer, i + 1);

    if (own == NULL || others == NULL || answer->header == NULL)
        return false;
    standing->revision = answer->header->revision;
    standing->limit = take->limit;
    etcd_queue_judge(standing, etcd_queue_find(own, &take->keys), others, take->shared);
    return true;
}

enum dlock_status etcd_stand_nonsense(struct etcd_take *take)
{
    etcd_flight_drop(take);
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                      "an answer without what the transaction asked for");
}

enum dlock_status etcd_stand_put(struct etcd_take *take, struct etcd_lease *lease,
                                 const struct etcd_standing *standing)
{
    bool known = true;
    enum dlock_status status = DLOCK_INTERNAL;

    take->put = true;
    etcd_slot_note(take->slot, lease, standing);
    etcd_flight_keep(take, lease);
    status = standing->further == 0 && !etcd_queue_has_room(standing) ? stands(take, standing)
                                                                      : slot_ask(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_LOST : status;
}

enum dlock_status etcd_stand_found(struct etcd_take *take)
{
    bool known = false;
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_flight_put(take);
    take->put = true;
    status = etcd_stand_find(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_LOST : status;
}
