/* SPDX-License-Identifier: MIT */
#include "renew.h"

#include "kv.h"
#include "lib/text.h"
#include "rpc.h"
#include "txn.h"

#include <stdlib.h>
#include <string.h>

struct change {
    struct dlock_lease_op *op; /* OK, with what the present lease gives */
    const struct etcd_keys *keys;
    const Pb__KeyValue *kv; /* the key as it was read */
};

/* ---- a key that gets another lease or another mode ---- */

/* One Put under way. */
struct part {
    const struct change *change;
    struct etcd_slot *slot;
    struct etcd_lease *longer; /* NULL: the key keeps its lease */
    bool downgrade;
    char value[ETCD_VALUE_SIZE];
    size_t value_len;
    struct etcd_txn txn;
    struct etcd_rpc rpc;
};

static bool wants_reader(const struct change *change)
{
    return (change->op->req->flags & DLOCK_REQ_DOWNGRADE) != 0 &&
           !etcd_kv_is_shared(change->kv->value.data, change->kv->value.len);
}

static bool wants_longer(struct etcd_session *session, const struct change *change)
{
    const struct etcd_slot *slot = change->op->req->attempt;

    return etcd_lease_pool_round(&session->pool, change->op->req->ttl_ms) > slot->lease->ttl_ms;
}

/* True: the key needs a change for this renewal. */
static bool change_needed(struct etcd_session *session, const struct change *change)
{
    return wants_reader(change) || wants_longer(session, change);
}

static void value_make(struct part *part)
{
    const Pb__KeyValue *kv = part->change->kv;

    part->value_len = kv->value.len < sizeof part->value ? kv->value.len : sizeof part->value;
    if (part->value_len > 0)
        memcpy(part->value, kv->value.data, part->value_len);
    if (part->downgrade && part->value_len >= 2)
        part->value[0] = 's';
    else if (part->downgrade)
        part->value_len = etcd_kv_make(part->value, sizeof part->value, DLOCK_SHARED,
                                       part->change->op->req->label);
}

/* A new lease takes half of the time at most: what is there already goes on without. */
static bool part_make(struct part *part, struct etcd_session *session, const struct change *change,
                      int64_t grants_until_ns, struct dlock_error *err)
{
    const int64_t ttl_ms = change->op->req->ttl_ms;
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    part->change = change;
    part->slot = change->op->req->attempt;
    part->downgrade = wants_reader(change);
    etcd_rpc_init(&part->rpc, ETCD_TXN, 1);
    if (wants_longer(session, change) && etcd_lease_pool_now(&session->pool) < grants_until_ns)
        (void)etcd_lease_pool_grant(&session->pool, ttl_ms, grants_until_ns, &part->longer,
                                    &ignored);
    if (part->longer == NULL && !part->downgrade)
        return false;
    value_make(part);
    etcd_txn_if_unchanged(&part->txn, change->keys, part->slot->mod_revision);
    etcd_txn_put(&part->txn.then, change->keys, part->value, part->value_len,
                 part->longer != NULL ? part->longer->id : part->slot->lease->id);
    if (etcd_rpc_add(&part->rpc, etcd_txn_request(&part->txn)))
        return true;
    etcd_rpc_fini(&part->rpc);
    etcd_lease_pool_put(&session->pool, part->longer);
    if (part->downgrade)
        change->op->status =
            dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    return false;
}

static void part_done(struct etcd_session *session, struct part *part, int64_t revision)
{
    struct dlock_lease_op *op = part->change->op;
    struct etcd_slot *slot = part->slot;

    slot->mod_revision = revision;
    if (part->longer == NULL)
        return;
    etcd_lease_pool_put(&session->pool, slot->lease);
    slot->lease = part->longer;
    op->grant.lease_ms = etcd_queue_lease_ms(slot, op->req->ttl_ms);
}

static void part_judge(struct etcd_session *session, struct part *part, enum dlock_status status,
                       struct dlock_error *err)
{
    const Pb__TxnResponse *answer = NULL;

    if (status == DLOCK_OK) {
        answer = (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&part->rpc, 0);
        if (answer->succeeded && answer->header != NULL) {
            part_done(session, part, answer->header->revision);
            return;
        }
        status = dlock_fail(err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "an earlier request changed the key meanwhile");
        etcd_lease_pool_put(&session->pool, part->longer);
        etcd_queue_doubt(part->slot);
    } else if (status == DLOCK_UNAVAILABLE) {
        etcd_lease_pool_put(&session->pool, part->longer);
    } else if (status == DLOCK_LOST) {
        status = DLOCK_UNAVAILABLE; /* not executed: the next renewal finds out why */
        etcd_lease_drop(part->longer);
    } else {
        etcd_lease_drop(part->longer);
        etcd_queue_doubt(part->slot);
    }
    if (part->downgrade)
        part->change->op->status = status;
}

static void changes_send(struct etcd_session *session, struct part *parts, struct etcd_rpc **rpcs,
                         enum dlock_status *statuses, size_t n, int64_t deadline_ns,
                         struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++)
        rpcs[i] = &parts[i].rpc;
    if (n > 0)
        (void)etcd_exchange(&session->endpoints, rpcs, n, true, deadline_ns, statuses, err);
    for (size_t i = 0; i < n; i++) {
        part_judge(session, &parts[i], statuses[i], err);
        etcd_rpc_fini(&parts[i].rpc);
    }
}

/* Makes the changes. A downgrade that does not work is a failure of its element; a longer lease
 * that does not work leaves the element as it is. */
static void change_run(struct etcd_session *session, const struct change *changes, size_t n,
                       int64_t deadline_ns, struct dlock_error *err)
{
    const int64_t now_ns = etcd_lease_pool_now(&session->pool);
    struct part *parts = calloc(n, sizeof *parts);
    struct etcd_rpc **rpcs = calloc(n, sizeof *rpcs);
    enum dlock_status *statuses = calloc(n, sizeof *statuses);
    size_t count = 0;

    if (parts != NULL && rpcs != NULL && statuses != NULL) {
        for (size_t i = 0; i < n; i++)
            if (part_make(&parts[count], session, &changes[i], now_ns + (deadline_ns - now_ns) / 2,
                          err))
                count++;
            else
                memset(&parts[count], 0, sizeof parts[count]);
        changes_send(session, parts, rpcs, statuses, count, deadline_ns, err);
    }
    for (size_t i = 0; i < n && (parts == NULL || rpcs == NULL || statuses == NULL); i++)
        if (wants_reader(&changes[i]))
            changes[i].op->status =
                dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for renewals");
    free(parts);
    free(rpcs);
    free(statuses);
}

/* ---- the batch ---- */

/*
 * Many leases are renewed in one exchange: a KeepAlive with a message for each, and reads of the
 * keys. The reads of many keys are one transaction. Few keys are read one by one, and so are many
 * if the space of etcd is exhausted: then it refuses every transaction; or if its members allow
 * smaller transactions only.
 */

#define BATCH    100 /* a transaction has 128 operations at most, unless --max-txn-ops is less */
#define FEW      4
#define MS_PER_S 1000

/* One element that is renewed. */
struct element {
    struct dlock_lease_op *op;
    struct etcd_slot *slot;
    struct etcd_keys keys;
    Pb__RangeRequest range;
    Pb__RequestOp read;
    struct etcd_rpc rpc; /* of a read alone */
};

struct batch {
    struct etcd_session *session;
    struct element *elements;
    size_t n;
    int64_t deadline_ns, sent_ns;
    struct dlock_error *err;
    struct etcd_rpc alive, txn;
    struct etcd_rpc *rpcs[BATCH + 1];
    enum dlock_status statuses[BATCH + 1];
    bool one_txn;
};

static enum dlock_status lost(struct etcd_slot *slot, struct dlock_error *err)
{
    etcd_queue_drop(slot);
    return dlock_fail(err, ETCD_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
}

/* ---- elements ---- */

static bool is_shared(const struct element *element)
{
    return element->op->req->mode == DLOCK_SHARED;
}

/* It need not be the first key of the name. */
static bool is_one_of_many(const struct element *element)
{
    return is_shared(element) || element->op->req->limit > 1;
}

/* A writer's key is the first one of the name, and the count of keys tells the waiters. */
static void read_make(struct element *element)
{
    static const Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    static const Pb__RequestOp read = PB__REQUEST_OP__INIT;

    element->range = range;
    if (is_one_of_many(element)) {
        etcd_queue_own(&element->range, &element->keys);
    } else {
        etcd_queue_range(&element->range, &element->keys, false, 0);
        element->range.sort_order = PB__RANGE_REQUEST__ORDER__ASCEND;
        element->range.limit = 1;
    }
    element->read = read;
    element->read.of_case = PB__REQUEST_OP__OF_RANGE;
    element->read.range = &element->range;
    etcd_rpc_init(&element->rpc, ETCD_RANGE, 1);
}

/* A claim of which the client knows the token only, or not what became of its lease. A key that was
 * created again is another one. */
static enum dlock_status slot_find(struct batch *batch, struct element *element)
{
    struct etcd_question question;
    struct etcd_lease *lease = NULL;
    enum dlock_status status =
        etcd_queue_ask(batch->session, &question, &element->keys, is_shared(element),
                       element->slot->create_revision, NULL, batch->deadline_ns, batch->err);

    etcd_queue_doubt(element->slot);
    if (status == DLOCK_OK && !question.position.holds) {
        status = lost(element->slot, batch->err);
    } else if (status == DLOCK_OK) {
        lease = etcd_lease_adopt(question.position.lease_id);
        if (lease != NULL)
            etcd_queue_note(element->slot, lease, &question.position);
        else
            status = dlock_fail(batch->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a lease");
    }
    etcd_queue_end(&question);
    return status;
}

/* OK: the element takes part. */
static enum dlock_status element_begin(struct batch *batch, struct element *element,
                                       struct dlock_lease_op *op)
{
    const struct dlock_request *req = op->req;
    char token[ETCD_TOKEN_HEX + 1];
    enum dlock_status status = DLOCK_OK;

    element->op = op;
    element->slot = req->attempt;
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    etcd_kv_keys(&element->keys, &batch->session->config, req->name, req->name_len, token);
    if (!element->slot->holds || element->slot->lease == NULL || element->slot->mod_revision == 0)
        status = slot_find(batch, element);
    if (status == DLOCK_OK)
        read_make(element);
    return status;
}

/* ---- the exchange ---- */

static bool alive_make(struct batch *batch)
{
    etcd_rpc_init(&batch->alive, ETCD_LEASE_KEEP_ALIVE, batch->n);
    for (size_t i = 0; i < batch->n; i++) {
        Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

        request.id = batch->elements[i].slot->lease->id;
        if (!etcd_rpc_add(&batch->alive, &request.base))
            return false;
    }
    batch->rpcs[0] = &batch->alive;
    return true;
}

static bool reads_make(struct batch *batch)
{
    Pb__TxnRequest request = PB__TXN_REQUEST__INIT;
    Pb__RequestOp *list[BATCH];

    if (batch->one_txn) {
        for (size_t i = 0; i < batch->n; i++)
            list[i] = &batch->elements[i].read;
        request.n_success = batch->n;
        request.success = list;
        etcd_rpc_init(&batch->txn, ETCD_TXN, 1);
        batch->rpcs[1] = &batch->txn;
        return etcd_rpc_add(&batch->txn, &request.base);
    }
    for (size_t i = 0; i < batch->n; i++) {
        batch->rpcs[1 + i] = &batch->elements[i].rpc;
        if (!etcd_rpc_add(batch->rpcs[1 + i], &batch->elements[i].range.base))
            return false;
    }
    return true;
}

static void requests_free(struct batch *batch)
{
    etcd_rpc_fini(&batch->alive);
    if (batch->one_txn)
        etcd_rpc_fini(&batch->txn);
    for (size_t i = 0; i < batch->n; i++)
        etcd_rpc_fini(&batch->elements[i].rpc);
}

static enum dlock_status exchange_run(struct batch *batch)
{
    batch->sent_ns = etcd_lease_pool_now(&batch->session->pool);
    if (!alive_make(batch) || !reads_make(batch)) {
        for (size_t i = 0; i <= batch->n; i++)
            batch->statuses[i] = DLOCK_NOMEM;
        return dlock_fail(batch->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for renewals");
    }
    return etcd_exchange(&batch->session->endpoints, batch->rpcs, batch->one_txn ? 2 : 1 + batch->n,
                         false, batch->deadline_ns, batch->statuses, batch->err);
}

/* NULL: it was not answered, and *status says why. */
static const Pb__RangeResponse *read_of(const struct batch *batch, size_t i,
                                        enum dlock_status *status)
{
    const Pb__RangeResponse *answer = NULL;

    *status = batch->statuses[0];
    if (*status == DLOCK_OK)
        *status = batch->statuses[batch->one_txn ? 1 : 1 + i];
    if (*status != DLOCK_OK)
        return NULL;
    if (!batch->one_txn)
        return (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&batch->elements[i].rpc, 0);
    answer = etcd_txn_range_answer(
        (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&batch->txn, 0), i);
    *status = answer != NULL ? DLOCK_OK : DLOCK_PROTOCOL;
    return answer;
}

/* What is left of the lease, in s; 0: it has ended. */
static int64_t alive_of(const struct batch *batch, size_t i)
{
    const Pb__LeaseResponse *answer =
        (const Pb__LeaseResponse *)(const void *)etcd_rpc_answer(&batch->alive, i);

    return answer->id == batch->elements[i].slot->lease->id ? answer->ttl : 0;
}

/* The key as it was read; NULL: the element has its status. */
static const Pb__KeyValue *element_judge(struct batch *batch, size_t i)
{
    struct element *element = &batch->elements[i];
    struct dlock_lease_op *op = element->op;
    struct etcd_lease *lease = element->slot->lease;
    const Pb__RangeResponse *answer = read_of(batch, i, &op->status);
    const Pb__KeyValue *kv = answer != NULL ? etcd_queue_find(answer, &element->keys) : NULL;

    if (answer == NULL)
        return NULL;
    if (kv == NULL || kv->create_revision != element->slot->create_revision) {
        op->status = lost(element->slot, batch->err);
        return NULL;
    }
    if (kv->lease != lease->id || kv->mod_revision != element->slot->mod_revision) {
        etcd_queue_doubt(element->slot);
        op->status = dlock_fail(batch->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                                "an earlier request changed the key meanwhile");
        return NULL;
    }
    if (alive_of(batch, i) <= 0) {
        op->status = lost(element->slot, batch->err);
        return NULL;
    }
    etcd_lease_alive(lease, &batch->alive, batch->sent_ns);
    lease->ttl_ms = alive_of(batch, i) * MS_PER_S;
    op->status = DLOCK_OK;
    op->grant.lease_ms = etcd_queue_lease_ms(element->slot, op->req->ttl_ms);
    if (!is_one_of_many(element) && answer->count > 0 && answer->count < UINT32_MAX)
        op->grant.waiters = (uint32_t)answer->count - 1;
    return kv;
}

static void batch_judge(struct batch *batch)
{
    struct change *changes = calloc(batch->n, sizeof *changes);
    size_t count = 0;

    for (size_t i = 0; i < batch->n; i++) {
        struct element *element = &batch->elements[i];
        const struct change change = {element->op, &element->keys, element_judge(batch, i)};

        if (change.kv == NULL || !change_needed(batch->session, &change))
            continue;
        if (changes != NULL)
            changes[count++] = change;
        else if ((element->op->req->flags & DLOCK_REQ_DOWNGRADE) != 0)
            element->op->status =
                dlock_fail(batch->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for renewals");
    }
    if (count > 0)
        change_run(batch->session, changes, count, batch->deadline_ns, batch->err);
    free(changes);
}

static void batch_run(struct batch *batch)
{
    struct etcd_session *session = batch->session;

    batch->one_txn = batch->n > FEW && !atomic_load(&session->single_reads);
    if (exchange_run(batch) != DLOCK_OK && batch->one_txn &&
        (etcd_rpc_no_space(batch->err) || etcd_rpc_too_many_ops(batch->err))) {
        if (etcd_rpc_too_many_ops(batch->err))
            atomic_store(&session->single_reads, true);
        requests_free(batch);
        batch->one_txn = false;
        (void)exchange_run(batch);
    }
    batch_judge(batch);
    requests_free(batch);
}

enum dlock_status etcd_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                             int64_t deadline_ns, struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct batch *batch = calloc(1, sizeof *batch);
    struct element *elements = calloc(n < BATCH ? n : BATCH, sizeof *elements);
    enum dlock_status status = DLOCK_OK;

    if (batch == NULL || elements == NULL) {
        status = dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for renewals");
        n = 0;
    }
    for (size_t i = 0; i < n;) {
        *batch = (struct batch){
            .session = session, .elements = elements, .deadline_ns = deadline_ns, .err = err};
        for (; i < n && batch->n < BATCH; i++) {
            ops[i]->status = element_begin(batch, &elements[batch->n], ops[i]);
            if (ops[i]->status == DLOCK_OK)
                batch->n++;
        }
        if (batch->n > 0)
            batch_run(batch);
    }
    free(elements);
    free(batch);
    return status;
}
