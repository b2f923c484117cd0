/* SPDX-License-Identifier: MIT */
/*
 * txn.h - a transaction of etcd with few conditions and few operations: its messages, which point
 * into the memory of the caller. Pure.
 */
#ifndef ETCD_TXN_H
#define ETCD_TXN_H

#include "etcd.pb-c.h"
#include "kv.h"

#define ETCD_OPS_MOST      4
#define ETCD_COMPARES_MOST 3

/* The operations of one branch. */
struct etcd_ops {
    size_t count;
    Pb__RequestOp ops[ETCD_OPS_MOST], *list[ETCD_OPS_MOST];
    Pb__PutRequest put;
    Pb__DeleteRequest delete;
    Pb__RangeRequest ranges[ETCD_OPS_MOST];
};

/* Must not move. */
struct etcd_txn {
    Pb__TxnRequest request;
    size_t count;
    Pb__Compare compare[ETCD_COMPARES_MOST], *compares[ETCD_COMPARES_MOST];
    char low[ETCD_EDGE_SIZE], high[ETCD_EDGE_SIZE];
    struct etcd_ops then, otherwise;
};

/* ---- the first condition ---- */

/* The name has no key. */
void etcd_txn_if_free(struct etcd_txn *txn, const struct etcd_keys *keys);
/* This token has no key. */
void etcd_txn_if_absent(struct etcd_txn *txn, const struct etcd_keys *keys);
/* This token has no key, and all keys of the name, at least one, have this limit. */
void etcd_txn_if_agreed(struct etcd_txn *txn, const struct etcd_keys *keys, uint32_t limit);
/* The key has this mod revision. */
void etcd_txn_if_unchanged(struct etcd_txn *txn, const struct etcd_keys *keys,
                           int64_t mod_revision);
/* The key has this create revision. */
void etcd_txn_if_created(struct etcd_txn *txn, ProtobufCBinaryData key, int64_t create_revision);
/* A holder or a waiter of this limit has the key; the name is not kept. */
void etcd_txn_if_claim(struct etcd_txn *txn, ProtobufCBinaryData key, uint32_t limit);

/* ---- one more condition ---- */

/* No key of the name was put after the revision. */
void etcd_txn_and_quiet(struct etcd_txn *txn, const struct etcd_keys *keys, int64_t revision);
/* As if_claim. */
void etcd_txn_and_claim(struct etcd_txn *txn, ProtobufCBinaryData key, uint32_t limit);

/* ---- operations ---- */

/* Once a branch. */
void etcd_txn_put(struct etcd_ops *ops, const struct etcd_keys *keys, const void *value,
                  size_t value_len, int64_t lease_id);
/* The answer has the key as it was. */
void etcd_txn_delete(struct etcd_ops *ops, ProtobufCBinaryData key);
Pb__RangeRequest *etcd_txn_range(struct etcd_ops *ops);
void etcd_txn_nested(struct etcd_ops *ops, struct etcd_txn *inner);

/* After the last operation: what to send. */
const ProtobufCMessage *etcd_txn_request(struct etcd_txn *txn);

/* Operation i of an answer; NULL: it is not of that kind. */
const Pb__RangeResponse *etcd_txn_range_answer(const Pb__TxnResponse *answer, size_t i);
const Pb__DeleteResponse *etcd_txn_delete_answer(const Pb__TxnResponse *answer, size_t i);
const Pb__TxnResponse *etcd_txn_nested_answer(const Pb__TxnResponse *answer, size_t i);

ProtobufCBinaryData etcd_txn_bytes(const void *bytes, size_t len);

#endif
