/* SPDX-License-Identifier: MIT */
#include "unlock.h"

#include "lib/text.h"
#include "rpc.h"
#include "txn.h"

#define TRIES 3 /* while renewals change the key, or the lease ends before the key has it */

static void keys_make(struct etcd_keys *keys, const struct etcd_session *session,
                      const struct dlock_request *req)
{
    char token[ETCD_TOKEN_HEX + 1];

    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    etcd_kv_keys(keys, &session->config, req->name, req->name_len, token);
}

/* ---- a key that is kept ---- */

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
static enum dlock_status keep_find(struct keeping *keeping)
{
    struct etcd_question question;
    struct etcd_lease *lease = NULL;
    enum dlock_status status = etcd_queue_ask(keeping->session, &question, &keeping->keys, false, 0,
                                              NULL, keeping->req->deadline_ns, keeping->err);

    etcd_queue_drop(keeping->slot);
    if (status == DLOCK_OK && !question.position.holds)
        status = DLOCK_LOST;
    if (status == DLOCK_OK) {
        lease = etcd_lease_adopt(question.position.lease_id);
        if (lease != NULL)
            etcd_queue_note(keeping->slot, lease, &question.position);
        else
            status = dlock_fail(keeping->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a lease");
    }
    etcd_queue_end(&question);
    return status;
}

/* OK with *kept false: the key is not as the slot has it. LOST: the lease of the kept key has
 * ended, and nothing was put. */
static enum dlock_status keep_put(struct keeping *keeping, bool *kept)
{
    const struct dlock_request *req = keeping->req;
    const struct etcd_slot *slot = keeping->slot;
    struct etcd_rpc rpc;
    char value[ETCD_VALUE_SIZE];
    const size_t len = etcd_kv_make_kept(value, sizeof value, req->limit, slot->permit, req->label);
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
static enum dlock_status keep_judge(struct keeping *keeping, enum dlock_status status, bool kept)
{
    if (status == DLOCK_OK && kept) {
        etcd_lease_pool_put(&keeping->session->pool,
                            etcd_queue_clear(keeping->slot)); /* has no key */
    } else if (status == DLOCK_LOST) { /* nothing was put; the claim has another lease */
        etcd_lease_drop(keeping->lease);
        keeping->lease = NULL;
        status = DLOCK_OK;
    } else if (status != DLOCK_UNAVAILABLE) {
        etcd_queue_doubt(keeping->slot);
    }
    return status;
}

static enum dlock_status keep_once(struct keeping *keeping, bool *kept)
{
    struct etcd_lease_pool *pool = &keeping->session->pool;
    const struct etcd_slot *slot = keeping->slot;
    enum dlock_status status = DLOCK_OK;

    if (!slot->holds || slot->lease == NULL || slot->mod_revision == 0)
        status = keep_find(keeping);
    if (status == DLOCK_OK && keeping->lease == NULL)
        status = etcd_lease_pool_grant(pool, keeping->req->keep_ms, keeping->req->deadline_ns,
                                       &keeping->lease, keeping->err);
    if (status != DLOCK_OK)
        return status;
    status = keep_put(keeping, kept);
    return keep_judge(keeping, status, *kept);
}

static enum dlock_status keep(struct etcd_session *session, const struct dlock_request *req,
                              struct dlock_error *err)
{
    struct keeping keeping = {.session = session, .req = req, .slot = req->attempt, .err = err};
    bool kept = false;
    enum dlock_status status = DLOCK_OK;

    keys_make(&keeping.keys, session, req);
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
        etcd_lease_pool_revoke(&session->pool, keeping.lease, req->deadline_ns);
    else
        etcd_lease_drop(keeping.lease);
    return status;
}

/* ---- a key that is deleted ---- */

struct deletion {
    struct etcd_session *session;
    const struct dlock_request *req;
    struct dlock_error *err;
    struct etcd_keys keys;
    struct etcd_lease *lease; /* of the slot; NULL: not known */
    int64_t mod_revision;     /* of a key whose value is not of this limit; 0: none was seen */
    bool deleted;             /* the key of a claim or of a waiter */
    bool unused;              /* the lease has no key now */
    bool doubt;               /* the key is not there: perhaps we have deleted it */
};

static bool is_kept(const Pb__KeyValue *kv)
{
    struct etcd_value value;

    etcd_kv_parse(&value, kv->value.data, kv->value.len);
    return value.kept;
}

/* The lease is unused if the deleted key had it. Somebody who adopted the lock may have deleted the
 * key, or given it another lease, and may use this one for another key. */
static void note_deleted(struct deletion *deletion, const Pb__DeleteResponse *answer)
{
    const struct etcd_lease *lease = deletion->lease;

    deletion->deleted =
        answer->deleted > 0 && !(answer->n_prev_kvs == 1 && is_kept(answer->prev_kvs[0]));
    deletion->unused =
        lease != NULL && answer->n_prev_kvs == 1 && answer->prev_kvs[0]->lease == lease->id;
}

static enum dlock_status nonsense(struct deletion *deletion)
{
    return dlock_fail(deletion->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                      "an answer without what the transaction asked for");
}

/* OK with *again: the key is there, with a value of another limit than the request says. */
static enum dlock_status judge(struct deletion *deletion, const Pb__TxnResponse *answer,
                               bool *again)
{
    const Pb__DeleteResponse *gone = etcd_txn_delete_answer(answer, 0);
    const Pb__RangeResponse *present = etcd_txn_range_answer(answer, 0);
    const Pb__KeyValue *kv = NULL;

    if (answer->succeeded && gone != NULL) {
        note_deleted(deletion, gone);
        return DLOCK_OK;
    }
    if (answer->succeeded || present == NULL)
        return nonsense(deletion);
    kv = etcd_queue_find(present, &deletion->keys);
    *again = kv != NULL && !is_kept(kv);
    deletion->mod_revision = *again ? kv->mod_revision : 0;
    return DLOCK_OK;
}

static enum dlock_status delete_once(struct deletion *deletion, bool *again)
{
    const struct dlock_request *req = deletion->req;
    const struct etcd_keys *keys = &deletion->keys;
    const ProtobufCBinaryData key = etcd_txn_bytes(keys->key, keys->key_len);
    struct etcd_txn txn;
    struct etcd_rpc rpc;
    enum dlock_status status = DLOCK_INTERNAL;

    *again = false;
    if (deletion->mod_revision == 0)
        etcd_txn_if_claim(&txn, key, req->limit);
    else
        etcd_txn_if_unchanged(&txn, keys, deletion->mod_revision);
    etcd_txn_delete(&txn.then, key);
    etcd_queue_own(etcd_txn_range(&txn.otherwise), keys);
    etcd_rpc_init(&rpc, ETCD_TXN, 1);
    status = etcd_exchange_one(&deletion->session->endpoints, &rpc, etcd_txn_request(&txn), true,
                               req->deadline_ns, deletion->err);
    if (status == DLOCK_OK)
        status =
            judge(deletion, (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&rpc, 0), again);
    etcd_rpc_fini(&rpc);
    return status;
}

/* ---- a cluster without space ---- */

/* OK with *present: nothing is kept. */
static enum dlock_status read_without_space(struct deletion *deletion, bool *present)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    const Pb__KeyValue *kv = NULL;
    struct etcd_rpc rpc;
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_queue_own(&range, &deletion->keys);
    etcd_rpc_init(&rpc, ETCD_RANGE, 1);
    status = etcd_exchange_one(&deletion->session->endpoints, &rpc, &range.base, false,
                               deletion->req->deadline_ns, deletion->err);
    if (status == DLOCK_OK) {
        kv = etcd_queue_find((const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&rpc, 0),
                             &deletion->keys);
        deletion->doubt = kv == NULL;
        *present = kv != NULL && !is_kept(kv);
    }
    etcd_rpc_fini(&rpc);
    return status;
}

static enum dlock_status delete_without_space(struct deletion *deletion)
{
    Pb__DeleteRequest request = PB__DELETE_REQUEST__INIT;
    struct etcd_rpc rpc;
    bool present = false;
    enum dlock_status status = read_without_space(deletion, &present);

    if (status != DLOCK_OK || !present)
        return status;
    request.key = etcd_txn_bytes(deletion->keys.key, deletion->keys.key_len);
    request.prev_kv = true;
    etcd_rpc_init(&rpc, ETCD_DELETE, 1);
    status = etcd_exchange_one(&deletion->session->endpoints, &rpc, &request.base, true,
                               deletion->req->deadline_ns, deletion->err);
    if (status == DLOCK_OK)
        note_deleted(deletion, (const Pb__DeleteResponse *)(const void *)etcd_rpc_answer(&rpc, 0));
    etcd_rpc_fini(&rpc);
    return status;
}

/* ---- the slots ---- */

static enum dlock_status run(struct deletion *deletion)
{
    bool again = true;
    enum dlock_status status = DLOCK_OK;

    for (int i = 0; i < TRIES && status == DLOCK_OK && again; i++)
        status = delete_once(deletion, &again);
    if (status == DLOCK_UNKNOWN && etcd_rpc_no_space(deletion->err))
        status = delete_without_space(deletion);
    else if (status == DLOCK_OK && again)
        status = dlock_fail(deletion->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "renewals change the key as fast as it is read");
    return status;
}

enum dlock_status etcd_unlock_delete(struct etcd_session *session, const struct dlock_request *req,
                                     bool *deleted, struct dlock_error *err)
{
    struct deletion deletion = {
        .session = session, .req = req, .err = err, .lease = etcd_queue_clear(req->attempt)};
    enum dlock_status status = DLOCK_INTERNAL;

    keys_make(&deletion.keys, session, req);
    status = run(&deletion);
    if (deletion.unused)
        etcd_lease_pool_put(&session->pool, deletion.lease);
    else
        etcd_lease_drop(deletion.lease);
    if (status != DLOCK_OK || deleted == NULL)
        return status;
    *deleted = deletion.deleted;
    return deletion.doubt ? dlock_fail(err, ETCD_ORIGIN, DLOCK_UNKNOWN, ETCD_NO_SPACE,
                                       "the cluster has no space, and the key has gone meanwhile")
                          : DLOCK_OK;
}

/* The slot knows nothing: does the token hold the name, or only a place in the queue? */
static enum dlock_status holds_ask(struct etcd_session *session, const struct dlock_request *req,
                                   bool *holds, struct dlock_error *err)
{
    struct etcd_question question;
    struct etcd_keys keys;
    enum dlock_status status = DLOCK_INTERNAL;

    keys_make(&keys, session, req);
    status = etcd_queue_ask(session, &question, &keys, req->mode == DLOCK_SHARED, 0, NULL,
                            req->deadline_ns, err);
    *holds = status == DLOCK_OK && question.position.holds;
    etcd_queue_end(&question);
    return status;
}

enum dlock_status etcd_unlock(void *self, const struct dlock_request *req, struct dlock_error *err)
{
    struct etcd_session *session = self;
    const struct etcd_slot *slot = req->attempt;
    bool holds = slot->holds;
    enum dlock_status status = DLOCK_OK;

    if (req->keep_ms > 0)
        return keep(session, req, err);
    if (!holds) {
        etcd_queue_drop(req->attempt);
        status = holds_ask(session, req, &holds, err);
    }
    if (status == DLOCK_OK && holds)
        status = etcd_unlock_delete(session, req, &holds, err);
    if (status == DLOCK_OK && !holds)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
    return status;
}

enum dlock_status etcd_unlock_dequeue(void *self, const struct dlock_request *req,
                                      struct dlock_error *err)
{
    struct etcd_session *session = self;
    return etcd_unlock_delete(session, req, NULL, err);
}
