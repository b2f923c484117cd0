/* SPDX-License-Identifier: MIT */
/*
 * A name without keys is taken by one transaction, in one flight with the KeepAlive of a lease from
 * the stock. Otherwise the transaction puts the key as a waiter's, if that is wanted, and reads
 * what tells where it stands.
 */
#include "take.h"

#include "lib/hex.h"
#include "lib/time.h"
#include "txn.h"
#include "unlock.h"
#include "value.h"

#include <string.h>

#define TRIES    3 /* with other leases, if those of the stock have ended */
#define HURRY_NS (250 * DL_NS_PER_MS)

/* One call of the slot. */
struct take {
    struct etcd_session *session;
    const struct dlock_request *req;
    struct dlock_grant *grant;
    struct dlock_error *err;
    struct etcd_slot *slot;
    struct etcd_keys keys;
    char value[ETCD_VALUE_SIZE];
    size_t value_len;
    bool shared, enqueue;
    struct etcd_lease *full, *brief; /* of the ttl; of a waiter: the same one, if it is as long */
    bool full_lasts, brief_lasts;
    bool again; /* leases of the stock have ended, or another leader counts their time */
    bool put;   /* the key was put, or found: what fails then is UNKNOWN */
    struct etcd_rpc txn, alive;
};

static void begin(struct take *take, struct etcd_session *session, const struct dlock_request *req,
                  struct dlock_grant *grant, struct dlock_error *err)
{
    char token[ETCD_TOKEN_HEX + 1];

    take->session = session;
    take->req = req;
    take->grant = grant;
    take->err = err;
    take->slot = req->attempt;
    take->shared = req->mode == DLOCK_SHARED;
    take->enqueue = (req->flags & DLOCK_REQ_ENQUEUE) != 0;
    take->full = NULL;
    take->brief = NULL;
    take->again = false;
    take->put = false;
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    etcd_keys_make(&take->keys, &session->config, req->name, req->name_len, token);
    take->value_len = etcd_value_make(take->value, sizeof take->value, req->mode, req->label);
}

static enum dlock_status no_memory(struct take *take)
{
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

/* ---- where the key stands ---- */

static enum dlock_status granted(struct take *take)
{
    etcd_slot_grant(take->session, take->slot, take->req->ttl_ms, take->grant);
    return DLOCK_OK;
}

static uint32_t others_of(const struct etcd_standing *standing, uint32_t known)
{
    return standing->keys > known ? standing->keys - known : 0;
}

/* The slot has the key. */
static enum dlock_status stands(struct take *take, const struct etcd_standing *standing)
{
    if (standing->holds) {
        take->grant->waiters = others_of(standing, 1);
        if (take->shared && take->grant->waiters > 0)
            take->grant->waiters = UINT32_MAX; /* these may be readers, which hold it, too */
        return granted(take);
    }
    take->grant->waiters = others_of(standing, 2);
    take->grant->queue_position = standing->predecessor_is_first ? 0 : take->grant->waiters;
    if ((take->req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) == 0)
        return DLOCK_BUSY;
    take->grant->flags |= DLOCK_GRANT_QUEUED;
    take->grant->fence =
        (uint64_t)take->slot->create_revision * take->session->config.fence_scale - 1;
    take->grant->lease_ms = etcd_slot_lease_ms(take->slot, take->req->ttl_ms);
    return DLOCK_BUSY;
}

/* Asks for the key of the slot, whose lease is kept alive. */
static enum dlock_status slot_ask(struct take *take, bool *known)
{
    struct etcd_question question;
    struct etcd_slot *slot = take->slot;
    enum dlock_status status =
        etcd_queue_ask(take->session, &question, &take->keys, take->shared, slot->create_revision,
                       slot->lease, take->req->deadline_ns, take->err);

    *known = false;
    if (status == DLOCK_OK && question.standing.create_revision == slot->create_revision &&
        question.standing.lease_id == slot->lease->id && question.alive_ms > 0) {
        etcd_slot_note(slot, slot->lease, &question.standing);
        *known = true;
        status = stands(take, &question.standing);
    } else if (status == DLOCK_OK) {
        etcd_slot_drop(slot); /* deleted, or about to go with its lease */
    }
    etcd_queue_end(&question);
    return status;
}

/* Finds the key by its token. */
static enum dlock_status slot_find(struct take *take, bool *known)
{
    struct etcd_question question;
    struct etcd_lease *lease = NULL;
    enum dlock_status status = etcd_queue_ask(take->session, &question, &take->keys, take->shared,
                                              0, NULL, take->req->deadline_ns, take->err);

    *known = false;
    if (status == DLOCK_OK && question.standing.create_revision != 0) {
        lease = etcd_stock_adopt(question.standing.lease_id);
        if (lease == NULL)
            status = no_memory(take);
        else
            etcd_slot_note(take->slot, lease, &question.standing);
    }
    etcd_queue_end(&question);
    return lease != NULL ? slot_ask(take, known) : status;
}

/* OK with *known false: there is no such key. */
static enum dlock_status key_ask(struct take *take, bool *known)
{
    if (take->slot->lease != NULL && take->slot->create_revision != 0)
        return slot_ask(take, known);
    etcd_slot_drop(take->slot);
    return slot_find(take, known);
}

/* ---- leases ---- */

static void leases_put(struct take *take)
{
    struct etcd_stock *stock = &take->session->stock;

    etcd_stock_put(stock, take->full);
    if (take->brief != take->full)
        etcd_stock_put(stock, take->brief);
    take->full = NULL;
    take->brief = NULL;
}

static void leases_drop(struct take *take)
{
    etcd_stock_drop(take->full);
    if (take->brief != take->full)
        etcd_stock_drop(take->brief);
    take->full = NULL;
    take->brief = NULL;
}

/* The key was put with this one; the other one is not used. */
static void lease_keep(struct take *take, struct etcd_lease *kept)
{
    if (take->full == kept)
        take->full = NULL;
    if (take->brief == kept)
        take->brief = NULL;
    leases_put(take);
}

/* The request of a caller that goes away soon may be executed after that. What it puts then must
 * not last. */
static int64_t full_ms(const struct take *take, int64_t waiter_ms)
{
    const int64_t left_ns = take->req->deadline_ns - etcd_stock_now(&take->session->stock);

    return take->enqueue && left_ns < HURRY_NS && waiter_ms < take->req->ttl_ms ? waiter_ms
                                                                                : take->req->ttl_ms;
}

static bool lasts(const struct take *take, const struct etcd_lease *lease, bool fresh,
                  int64_t now_ns)
{
    return fresh || (!take->again && etcd_stock_lasts(lease, take->req->ttl_ms, now_ns));
}

static enum dlock_status leases_take(struct take *take)
{
    struct etcd_stock *stock = &take->session->stock;
    const int64_t now_ns = etcd_stock_now(stock);
    const int64_t waiter_ms = take->session->config.waiter_lease_ms;
    const int64_t ttl_ms = full_ms(take, waiter_ms);
    bool fresh = false;
    enum dlock_status status =
        etcd_stock_take(stock, ttl_ms, take->req->deadline_ns, &take->full, &fresh, take->err);

    if (status != DLOCK_OK)
        return status;
    take->full_lasts = lasts(take, take->full, fresh, now_ns);
    take->brief = take->full;
    take->brief_lasts = take->full_lasts;
    if (!take->enqueue || etcd_stock_round(stock, waiter_ms) >= take->full->ttl_ms)
        return DLOCK_OK;
    status =
        etcd_stock_take(stock, waiter_ms, take->req->deadline_ns, &take->brief, &fresh, take->err);
    if (status == DLOCK_OK)
        take->brief_lasts = lasts(take, take->brief, fresh, now_ns);
    else
        leases_put(take);
    return status;
}

/* ---- the flight ---- */

static bool alive_add(struct take *take, const struct etcd_lease *lease)
{
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    request.id = lease->id;
    return etcd_rpc_add(&take->alive, &request.base);
}

static bool requests_make(struct take *take, struct etcd_txn *txn)
{
    const bool full = !take->full_lasts, brief = take->brief != take->full && !take->brief_lasts;

    etcd_rpc_init(&take->txn, ETCD_TXN, 1);
    etcd_rpc_init(&take->alive, ETCD_LEASE_KEEP_ALIVE, (size_t)full + (size_t)brief);
    return etcd_rpc_add(&take->txn, etcd_txn_request(txn)) &&
           (!full || alive_add(take, take->full)) && (!brief || alive_add(take, take->brief));
}

/* False: the lease has ended, or may end sooner: another leader counts its time now. */
static bool lease_lives(struct take *take, struct etcd_lease *lease, int64_t sent_ns)
{
    const size_t count = take->alive.count;

    for (size_t i = 0; i < count; i++) {
        const Pb__LeaseResponse *answer =
            (const Pb__LeaseResponse *)(const void *)etcd_rpc_answer(&take->alive, i);

        if (answer->id != lease->id)
            continue;
        etcd_stock_alive(lease, &take->alive, sent_ns);
        return answer->ttl > 0;
    }
    return lease->term == etcd_rpc_term(&take->txn);
}

/* Sends the transaction and keeps the leases alive. LOST: a lease has ended, and so has what may
 * have been put with it. The leases belong to the caller with OK only. */
static enum dlock_status fly(struct take *take, struct etcd_txn *txn)
{
    struct etcd_rpc *rpcs[] = {&take->txn, &take->alive};
    enum dlock_status statuses[2] = {DLOCK_INTERNAL, DLOCK_OK}, status = DLOCK_NOMEM;
    const int64_t sent_ns = etcd_stock_now(&take->session->stock);

    if (!requests_make(take, txn)) {
        leases_put(take);
        return no_memory(take);
    }
    status = etcd_exchange(&take->session->endpoints, rpcs, take->alive.most > 0 ? 2 : 1, true,
                           take->req->deadline_ns, statuses, take->err);
    if (status == DLOCK_OK && lease_lives(take, take->full, sent_ns) &&
        lease_lives(take, take->brief, sent_ns))
        return DLOCK_OK;
    take->put = take->put || statuses[0] == DLOCK_OK;
    if (statuses[0] == DLOCK_UNAVAILABLE)
        leases_put(take);
    else
        leases_drop(take);
    if (status == DLOCK_OK || statuses[0] == DLOCK_LOST)
        return DLOCK_LOST;
    /* OK: put, with a lease that may have ended */
    return statuses[0] == DLOCK_OK ? DLOCK_UNKNOWN : statuses[0];
}

static const Pb__TxnResponse *txn_answer(const struct take *take)
{
    return (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&take->txn, 0);
}

static void requests_free(struct take *take)
{
    etcd_rpc_fini(&take->txn);
    etcd_rpc_fini(&take->alive);
}

/* The operations that tell where the key stands: the key, and the keys before it. */
static void standing_ask(struct etcd_ops *ops, const struct take *take)
{
    etcd_queue_own(etcd_txn_range(ops), &take->keys);
    etcd_queue_range(etcd_txn_range(ops), &take->keys, take->shared, 0);
}

/* Operation i and the next one of the answer. False: these are not there. */
static bool standing_read(const struct take *take, size_t i, struct etcd_standing *standing)
{
    const Pb__TxnResponse *answer = txn_answer(take);
    const Pb__RangeResponse *own = etcd_txn_range_answer(answer, i);
    const Pb__RangeResponse *others = etcd_txn_range_answer(answer, i + 1);

    if (own == NULL || others == NULL || answer->header == NULL)
        return false;
    standing->revision = answer->header->revision;
    etcd_queue_judge(standing, etcd_queue_find(own, &take->keys), others, take->shared);
    return true;
}

static enum dlock_status no_sense(struct take *take)
{
    leases_drop(take);
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                      "an answer without what the transaction asked for");
}

/* ---- keys that were put ---- */

/* The transaction has put the key with this lease, behind others. */
static enum dlock_status put_judge(struct take *take, struct etcd_lease *lease,
                                   const struct etcd_standing *standing)
{
    bool known = true;
    enum dlock_status status = DLOCK_INTERNAL;

    take->put = true;
    etcd_slot_note(take->slot, lease, standing);
    lease_keep(take, lease);
    status = standing->further == 0 ? stands(take, standing) : slot_ask(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_LOST : status;
}

/* A reader wants to join other readers without a queue entry: it puts its key and takes it back if
 * a writer came first. */
static enum dlock_status join(struct take *take)
{
    struct etcd_txn txn;
    struct etcd_standing standing = {0};
    enum dlock_status status = DLOCK_INTERNAL;

    requests_free(take);
    etcd_txn_if_absent(&txn, &take->keys);
    etcd_txn_put(&txn.then, &take->keys, take->value, take->value_len, take->full->id);
    standing_ask(&txn.then, take);
    status = fly(take, &txn);
    if (status != DLOCK_OK)
        return status;
    if (!txn_answer(take)->succeeded) {
        leases_drop(take);
        return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNKNOWN, 0,
                          "an earlier request of this token was executed meanwhile");
    }
    if (!standing_read(take, 1, &standing))
        return no_sense(take);
    status = put_judge(take, take->full, &standing);
    if (status != DLOCK_BUSY)
        return status;
    status = etcd_unlock_delete(take->session, take->req, NULL, take->err);
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* The name has keys, but none of this token. */
static enum dlock_status refused(struct take *take, const struct etcd_standing *standing)
{
    if (take->shared && standing->predecessor == NULL && standing->keys > 0)
        return join(take);
    leases_put(take);
    take->grant->waiters = others_of(standing, 1);
    take->grant->queue_position = take->grant->waiters;
    return DLOCK_BUSY;
}

/* ---- trylock ---- */

static void try_make(const struct take *take, struct etcd_txn *txn, struct etcd_txn *nested)
{
    etcd_txn_if_free(txn, &take->keys);
    etcd_txn_put(&txn->then, &take->keys, take->value, take->value_len, take->full->id);
    standing_ask(&txn->otherwise, take);
    if (!take->enqueue)
        return;
    txn->otherwise.count = 0;
    etcd_txn_if_absent(nested, &take->keys);
    etcd_txn_put(&nested->then, &take->keys, take->value, take->value_len, take->brief->id);
    etcd_txn_nested(&txn->otherwise, nested);
    standing_ask(&txn->otherwise, take);
}

static enum dlock_status try_judge(struct take *take)
{
    const Pb__TxnResponse *answer = txn_answer(take), *nested = NULL;
    struct etcd_standing standing = {0};
    bool known = false;
    enum dlock_status status = DLOCK_INTERNAL;

    if (answer->succeeded && answer->header != NULL && answer->header->revision > 0) {
        etcd_slot_hold(take->slot, take->full, answer->header->revision);
        lease_keep(take, take->full);
        take->grant->waiters = 0;
        return granted(take);
    }
    if (answer->succeeded || !standing_read(take, take->enqueue ? 1 : 0, &standing))
        return no_sense(take);
    if (standing.create_revision == 0)
        return refused(take, &standing);
    nested = take->enqueue ? etcd_txn_nested_answer(answer, 0) : NULL;
    if (nested != NULL && nested->succeeded)
        return put_judge(take, take->brief, &standing);
    leases_put(take); /* the key is there from before [TRY-5] */
    take->put = true;
    status = slot_find(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_LOST : status;
}

/* LOST: the leases have ended, or the key has ended meanwhile: once more. */
static enum dlock_status try_once(struct take *take)
{
    struct etcd_txn txn, nested;
    enum dlock_status status = leases_take(take);

    if (status != DLOCK_OK)
        return status;
    try_make(take, &txn, &nested);
    status = fly(take, &txn);
    if (status == DLOCK_OK)
        status = try_judge(take);
    requests_free(take);
    return status;
}

static enum dlock_status try(struct take *take)
{
    enum dlock_status status = DLOCK_LOST;

    for (int i = 0; i < TRIES && status == DLOCK_LOST; i++) {
        take->again = i > 0;
        status = try_once(take);
    }
    if (status == DLOCK_LOST)
        status = dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "the cluster ends leases as fast as it grants them");
    if (!take->put || status == DLOCK_OK || status == DLOCK_BUSY || status == DLOCK_PROTOCOL)
        return status;
    take->err->status = DLOCK_UNKNOWN; /* [TRY-4] */
    return DLOCK_UNKNOWN;
}

enum dlock_status etcd_take(struct etcd_session *session, const struct dlock_request *req,
                            struct dlock_grant *grant, struct dlock_error *err)
{
    struct take take;
    bool known = false;
    enum dlock_status status = DLOCK_OK;

    begin(&take, session, req, grant, err);
    if ((req->flags & DLOCK_REQ_REFRESH) != 0) {
        status = key_ask(&take, &known);
        return status == DLOCK_OK && !known ? DLOCK_BUSY : status; /* not queued any more */
    }
    if (take.slot->create_revision != 0)
        status = key_ask(&take, &known);
    return status == DLOCK_OK && !known ? try(&take) : status;
}
