/* SPDX-License-Identifier: MIT */
#include "unlock.h"

#include "keep.h"
#include "lib/hex.h"
#include "txn.h"

static void keys_make(struct etcd_keys *keys, const struct etcd_session *session,
                      const struct dlock_request *req)
{
    char token[ETCD_TOKEN_HEX + 1];

    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    etcd_keys_make(keys, &session->config, req->name, req->name_len, token);
}

/* The key was deleted, and had this lease, which has no key now. Somebody who adopted the lock may
 * have deleted the key, or given it another lease, and may use this one for another key. */
static bool is_unused(const struct etcd_lease *lease, const Pb__DeleteResponse *answer)
{
    return lease != NULL && answer->n_prev_kvs == 1 && answer->prev_kvs[0]->lease == lease->id;
}

/* Another user of the token has released it, and kept the name. */
static bool was_kept(const Pb__DeleteResponse *answer)
{
    struct etcd_value value = {.kept = false};

    if (answer->n_prev_kvs == 1)
        etcd_value_parse(&value, answer->prev_kvs[0]->value.data, answer->prev_kvs[0]->value.len);
    return value.kept;
}

enum dlock_status etcd_unlock_delete(struct etcd_session *session, const struct dlock_request *req,
                                     bool *deleted, struct dlock_error *err)
{
    Pb__DeleteRequest request = PB__DELETE_REQUEST__INIT;
    struct etcd_lease *lease = etcd_slot_clear(req->attempt);
    struct etcd_rpc rpc, *rpcs[] = {&rpc};
    const Pb__DeleteResponse *answer = NULL;
    struct etcd_keys keys;
    enum dlock_status status = DLOCK_INTERNAL;

    keys_make(&keys, session, req);
    request.key = etcd_txn_bytes(keys.key, keys.key_len);
    request.prev_kv = true;
    etcd_rpc_init(&rpc, ETCD_DELETE, 1);
    if (etcd_rpc_add(&rpc, &request.base))
        status = etcd_exchange(&session->endpoints, rpcs, 1, true, req->deadline_ns, NULL, err);
    else
        status = dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    if (status == DLOCK_OK)
        answer = (const Pb__DeleteResponse *)(const void *)etcd_rpc_answer(&rpc, 0);
    if (answer != NULL && deleted != NULL)
        *deleted = answer->deleted > 0 && !was_kept(answer);
    if (answer != NULL && is_unused(lease, answer))
        etcd_stock_put(&session->stock, lease);
    else
        etcd_stock_drop(lease);
    etcd_rpc_fini(&rpc);
    return status;
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
    *holds = status == DLOCK_OK && question.standing.holds;
    etcd_queue_end(&question);
    return status;
}

enum dlock_status etcd_unlock(struct etcd_session *session, const struct dlock_request *req,
                              struct dlock_error *err)
{
    const struct etcd_slot *slot = req->attempt;
    bool holds = slot->holds;
    enum dlock_status status = DLOCK_OK;

    if (dlock_request_keep_ms(req) > 0)
        return etcd_keep(session, req, err);
    if (!holds) {
        etcd_slot_drop(req->attempt);
        status = holds_ask(session, req, &holds, err);
    }
    if (status == DLOCK_OK && holds)
        status = etcd_unlock_delete(session, req, &holds, err);
    if (status == DLOCK_OK && !holds)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
    return status;
}

enum dlock_status etcd_unlock_dequeue(struct etcd_session *session, const struct dlock_request *req,
                                      struct dlock_error *err)
{
    return etcd_unlock_delete(session, req, NULL, err);
}
