/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include "lib/hex.h"
#include "txn.h"

#define TRIES 3 /* while renewals change the key, or the lease ends before the key has it */

struct keeping {
    struct etcd_session *session;
    const struct dlock_request *req;
    struct etcd_slot *slot;
    struct dlock_error *err;
    struct etcd_keys keys;
    struct etcd_lease *lease; /* of the kept key; NULL: none yet */
    bool unused;              /* no key has that lease */
};

/* The slot does not know how the key was put last. */
static enum dlock_status find(struct keeping *keeping)
{
    struct etcd_question question;
    struct etcd_lease *lease = NULL;
    enum dlock_status status = etcd_queue_ask(keeping->session, &question, &keeping->keys, false, 0,
                                              NULL, keeping->req->deadline_ns, keeping->err);

    etcd_slot_drop(keeping->slot);
    if (status == DLOCK_OK && !question.standing.holds)
        status = DLOCK_LOST;
    if (status == DLOCK_OK) {
        lease = etcd_stock_adopt(question.standing.lease_id);
        if (lease != NULL)
            etcd_slot_note(keeping->slot, lease, &question.standing);
        else
            status = dlock_fail(keeping->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a lease");
    }
    etcd_queue_end(&question);
    return status;
}

/* OK with *kept false: the key is not as the slot has it. LOST: the lease of the kept key has
 * ended, and nothing was put. */
static enum dlock_status put(struct keeping *keeping, bool *kept)
{
    const struct dlock_request *req = keeping->req;
    const struct etcd_slot *slot = keeping->slot;
    struct etcd_rpc rpc;
    char value[ETCD_VALUE_SIZE];
    const size_t len = etcd_value_make_kept(value, sizeof value, dlock_request_limit(req),
                                            slot->permit, req->label);
    struct etcd_txn txn;
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_txn_if_unchanged(&txn, &keeping->keys, slot->mod_revision);
    etcd_txn_put(&txn.then, &keeping->keys, value, len, keeping->lease->id);
    etcd_rpc_init(&rpc, ETCD_TXN, 1);
    status = etcd_exchange_one(&keeping->session->endpoints, &rpc, etcd_txn_request(&txn), true,
                               req->deadline_ns, keeping->err);
    if (status == DLOCK_OK)
        *kept = ((const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&rpc, 0))->succeeded;
    keeping->unused =
        status == DLOCK_UNAVAILABLE || status == DLOCK_AUTH || (status == DLOCK_OK && !*kept);
    etcd_rpc_fini(&rpc);
    return status;
}

/* OK: it was put, or may be put once more. */
static enum dlock_status put_judge(struct keeping *keeping, enum dlock_status status, bool kept)
{
    if (status == DLOCK_OK && kept) {
        etcd_stock_put(&keeping->session->stock, etcd_slot_clear(keeping->slot)); /* has no key */
    } else if (status == DLOCK_LOST) { /* nothing was put; the claim has another lease */
        etcd_stock_drop(keeping->lease);
        keeping->lease = NULL;
        status = DLOCK_OK;
    } else if (status != DLOCK_UNAVAILABLE) {
        etcd_slot_doubt(keeping->slot);
    }
    return status;
}

static enum dlock_status keep_once(struct keeping *keeping, bool *kept)
{
    struct etcd_stock *stock = &keeping->session->stock;
    const struct etcd_slot *slot = keeping->slot;
    enum dlock_status status = DLOCK_OK;

    if (!slot->holds || slot->lease == NULL || slot->mod_revision == 0)
        status = find(keeping);
    if (status == DLOCK_OK && keeping->lease == NULL)
        status = etcd_stock_grant(stock, dlock_request_keep_ms(keeping->req),
                                  keeping->req->deadline_ns, &keeping->lease, keeping->err);
    if (status != DLOCK_OK)
        return status;
    status = put(keeping, kept);
    return put_judge(keeping, status, *kept);
}

enum dlock_status etcd_keep(struct etcd_session *session, const struct dlock_request *req,
                            struct dlock_error *err)
{
    struct keeping keeping = {.session = session, .req = req, .slot = req->attempt, .err = err};
    char token[ETCD_TOKEN_HEX + 1];
    bool kept = false;
    enum dlock_status status = DLOCK_OK;

    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    etcd_keys_make(&keeping.keys, &session->config, req->name, req->name_len, token);
    for (int i = 0; i < TRIES && status == DLOCK_OK && !kept; i++)
        status = keep_once(&keeping, &kept);
    if (status == DLOCK_LOST)
        status = dlock_fail(err, ETCD_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
    else if (status == DLOCK_OK && !kept)
        status =
            dlock_fail(err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                       keeping.lease == NULL ? "the cluster ends leases as fast as it grants them"
                                             : "renewals change the key as fast as it is read");
    if (keeping.unused) /* it may last for 7 days */
        etcd_stock_revoke(&session->stock, keeping.lease, req->deadline_ns);
    else
        etcd_stock_drop(keeping.lease);
    return status;
}
