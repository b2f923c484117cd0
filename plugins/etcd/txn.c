/* SPDX-License-Identifier: MIT */
#include "txn.h"

#include <string.h>

ProtobufCBinaryData etcd_txn_bytes(const void *bytes, size_t len)
{
    union {
        const void *from;
        uint8_t *to;
    } pointer = {.from = bytes}; /* a request is only read */

    return (ProtobufCBinaryData){.len = len, .data = pointer.to};
}

static void init(struct etcd_txn *txn)
{
    static const Pb__TxnRequest request = PB__TXN_REQUEST__INIT;

    txn->request = request;
    txn->count = 0;
    txn->then.count = 0;
    txn->otherwise.count = 0;
}

static Pb__Compare *compare_next(struct etcd_txn *txn, Pb__Compare__Target target,
                                 Pb__Compare__OfCase what)
{
    static const Pb__Compare init = PB__COMPARE__INIT;
    Pb__Compare *compare = &txn->compare[txn->count];

    *compare = init;
    compare->result = PB__COMPARE__RESULT__EQUAL;
    compare->target = target;
    compare->of_case = what;
    txn->compares[txn->count++] = compare;
    return compare;
}

/* Of all keys of the name. */
static Pb__Compare *compare_all(struct etcd_txn *txn, const struct etcd_keys *keys,
                                Pb__Compare__Target target, Pb__Compare__OfCase what,
                                Pb__Compare__Result result)
{
    Pb__Compare *compare = compare_next(txn, target, what);

    compare->key = etcd_txn_bytes(keys->key, keys->dir_len);
    compare->range_end = etcd_txn_bytes(keys->end, keys->dir_len);
    compare->result = result;
    return compare;
}

void etcd_txn_if_free(struct etcd_txn *txn, const struct etcd_keys *keys)
{
    init(txn);
    (void)compare_all(txn, keys, PB__COMPARE__TARGET__CREATE, PB__COMPARE__OF_CREATE_REVISION,
                      PB__COMPARE__RESULT__EQUAL);
}

void etcd_txn_if_absent(struct etcd_txn *txn, const struct etcd_keys *keys)
{
    init(txn);
    compare_next(txn, PB__COMPARE__TARGET__CREATE, PB__COMPARE__OF_CREATE_REVISION)->key =
        etcd_txn_bytes(keys->key, keys->key_len);
}

void etcd_txn_if_unchanged(struct etcd_txn *txn, const struct etcd_keys *keys, int64_t mod_revision)
{
    Pb__Compare *compare = NULL;

    init(txn);
    compare = compare_next(txn, PB__COMPARE__TARGET__MOD, PB__COMPARE__OF_MOD_REVISION);
    compare->key = etcd_txn_bytes(keys->key, keys->key_len);
    compare->mod_revision = mod_revision;
}

void etcd_txn_if_created(struct etcd_txn *txn, ProtobufCBinaryData key, int64_t create_revision)
{
    Pb__Compare *compare = NULL;

    init(txn);
    compare = compare_next(txn, PB__COMPARE__TARGET__CREATE, PB__COMPARE__OF_CREATE_REVISION);
    compare->key = key;
    compare->create_revision = create_revision;
}

void etcd_txn_if_claim(struct etcd_txn *txn, ProtobufCBinaryData key, uint32_t limit)
{
    init(txn);
    etcd_txn_and_claim(txn, key, limit);
}

void etcd_txn_if_agreed(struct etcd_txn *txn, const struct etcd_keys *keys, uint32_t limit)
{
    etcd_txn_if_absent(txn, keys);
    etcd_kv_edges(txn->low, txn->high, limit);
    compare_all(txn, keys, PB__COMPARE__TARGET__VALUE, PB__COMPARE__OF_VALUE,
                PB__COMPARE__RESULT__LESS)
        ->value = etcd_txn_bytes(txn->high, strlen(txn->high));
    if (limit > 1)
        compare_all(txn, keys, PB__COMPARE__TARGET__VALUE, PB__COMPARE__OF_VALUE,
                    PB__COMPARE__RESULT__GREATER)
            ->value = etcd_txn_bytes(txn->low, strlen(txn->low));
}

void etcd_txn_and_quiet(struct etcd_txn *txn, const struct etcd_keys *keys, int64_t revision)
{
    compare_all(txn, keys, PB__COMPARE__TARGET__MOD, PB__COMPARE__OF_MOD_REVISION,
                PB__COMPARE__RESULT__LESS)
        ->mod_revision = revision + 1;
}

static void compare_value(struct etcd_txn *txn, ProtobufCBinaryData key, Pb__Compare__Result result,
                          const char *edge)
{
    Pb__Compare *compare = compare_next(txn, PB__COMPARE__TARGET__VALUE, PB__COMPARE__OF_VALUE);

    compare->key = key;
    compare->result = result;
    compare->value = etcd_txn_bytes(edge, strlen(edge));
}

void etcd_txn_and_claim(struct etcd_txn *txn, ProtobufCBinaryData key, uint32_t limit)
{
    etcd_kv_claim_edges(txn->low, txn->high, limit);
    compare_value(txn, key, PB__COMPARE__RESULT__GREATER, txn->low);
    compare_value(txn, key, PB__COMPARE__RESULT__LESS, txn->high);
}

static Pb__RequestOp *next(struct etcd_ops *ops, Pb__RequestOp__OfCase what)
{
    static const Pb__RequestOp init = PB__REQUEST_OP__INIT;
    Pb__RequestOp *op = &ops->ops[ops->count];

    *op = init;
    op->of_case = what;
    ops->list[ops->count++] = op;
    return op;
}

void etcd_txn_put(struct etcd_ops *ops, const struct etcd_keys *keys, const void *value,
                  size_t value_len, int64_t lease_id)
{
    static const Pb__PutRequest put = PB__PUT_REQUEST__INIT;

    ops->put = put;
    ops->put.key = etcd_txn_bytes(keys->key, keys->key_len);
    ops->put.value = etcd_txn_bytes(value, value_len);
    ops->put.lease = lease_id;
    next(ops, PB__REQUEST_OP__OF_PUT)->put = &ops->put;
}

void etcd_txn_delete(struct etcd_ops *ops, ProtobufCBinaryData key)
{
    static const Pb__DeleteRequest delete = PB__DELETE_REQUEST__INIT;

    ops->delete = delete;
    ops->delete.key = key;
    ops->delete.prev_kv = true;
    next(ops, PB__REQUEST_OP__OF_DELETE_RANGE)->delete_range = &ops->delete;
}

Pb__RangeRequest *etcd_txn_range(struct etcd_ops *ops)
{
    static const Pb__RangeRequest init = PB__RANGE_REQUEST__INIT;
    Pb__RangeRequest *range = &ops->ranges[ops->count];

    *range = init;
    next(ops, PB__REQUEST_OP__OF_RANGE)->range = range;
    return range;
}

void etcd_txn_nested(struct etcd_ops *ops, struct etcd_txn *inner)
{
    (void)etcd_txn_request(inner);
    next(ops, PB__REQUEST_OP__OF_TXN)->txn = &inner->request;
}

const ProtobufCMessage *etcd_txn_request(struct etcd_txn *txn)
{
    txn->request.n_compare = txn->count;
    txn->request.compare = txn->compares;
    txn->request.n_success = txn->then.count;
    txn->request.success = txn->then.list;
    txn->request.n_failure = txn->otherwise.count;
    txn->request.failure = txn->otherwise.list;
    return &txn->request.base;
}

static const Pb__ResponseOp *operation(const Pb__TxnResponse *answer, size_t i,
                                       Pb__ResponseOp__OfCase what)
{
    const Pb__ResponseOp *op = i < answer->n_responses ? answer->responses[i] : NULL;

    return op != NULL && op->of_case == what ? op : NULL;
}

const Pb__RangeResponse *etcd_txn_range_answer(const Pb__TxnResponse *answer, size_t i)
{
    const Pb__ResponseOp *op = operation(answer, i, PB__RESPONSE_OP__OF_RANGE);

    return op != NULL ? op->range : NULL;
}

const Pb__DeleteResponse *etcd_txn_delete_answer(const Pb__TxnResponse *answer, size_t i)
{
    const Pb__ResponseOp *op = operation(answer, i, PB__RESPONSE_OP__OF_DELETE_RANGE);

    return op != NULL ? op->delete_range : NULL;
}

const Pb__TxnResponse *etcd_txn_nested_answer(const Pb__TxnResponse *answer, size_t i)
{
    const Pb__ResponseOp *op = operation(answer, i, PB__RESPONSE_OP__OF_TXN);

    return op != NULL ? op->txn : NULL;
}
