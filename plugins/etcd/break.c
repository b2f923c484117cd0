/* SPDX-License-Identifier: MIT */
#include "break.h"

#include "txn.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE 64

/* A transaction for each key, so that a key that has gone meanwhile is not in the way of others:
 * a key is deleted if it is the one that was read. */
struct breaking {
    struct etcd_session *session;
    struct etcd_keys keys; /* of the name */
    const char *owner;
    int64_t deadline_ns;
    struct dlock_error *err;
    struct etcd_rpc rpcs[AT_ONCE], *flight[AT_ONCE];
    size_t count, ended;
};

static bool is_meant(const struct breaking *breaking, const Pb__KeyValue *kv)
{
    const size_t dir_len = breaking->keys.dir_len;
    struct etcd_value value;

    if (breaking->owner == NULL)
        return true;
    etcd_value_parse(&value, kv->value.data, kv->value.len);
    if (value.kept)
        return false;
    return kv->key.len - dir_len == strlen(breaking->owner) &&
           memcmp(kv->key.data + dir_len, breaking->owner, kv->key.len - dir_len) == 0;
}

static bool delete_add(struct etcd_rpc *rpc, const Pb__KeyValue *kv)
{
    Pb__TxnRequest request = PB__TXN_REQUEST__INIT;
    Pb__Compare compare = PB__COMPARE__INIT, *compares[] = {&compare};
    Pb__RequestOp op = PB__REQUEST_OP__INIT, *ops[] = {&op};
    Pb__DeleteRequest delete = PB__DELETE_REQUEST__INIT;

    compare.target = PB__COMPARE__TARGET__CREATE;
    compare.key = kv->key;
    compare.of_case = PB__COMPARE__OF_CREATE_REVISION;
    compare.create_revision = kv->create_revision;
    delete.key = kv->key;
    op.of_case = PB__REQUEST_OP__OF_DELETE_RANGE;
    op.delete_range = &delete;
    request.n_compare = 1;
    request.compare = compares;
    request.n_success = 1;
    request.success = ops;
    etcd_rpc_init(rpc, ETCD_TXN, 1);
    return etcd_rpc_add(rpc, &request.base);
}

static enum dlock_status no_memory(struct breaking *breaking)
{
    return dlock_fail(breaking->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static enum dlock_status flush(struct breaking *breaking)
{
    enum dlock_status status = DLOCK_OK;

    if (breaking->count > 0)
        status = etcd_exchange(&breaking->session->endpoints, breaking->flight, breaking->count,
                               true, breaking->deadline_ns, NULL, breaking->err);
    for (size_t i = 0; i < breaking->count; i++) {
        if (status == DLOCK_OK &&
            ((const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&breaking->rpcs[i], 0))
                ->succeeded)
            breaking->ended++;
        etcd_rpc_fini(&breaking->rpcs[i]);
    }
    breaking->count = 0;
    return status;
}

static enum dlock_status holders_break(struct breaking *breaking, const Pb__RangeResponse *answer)
{
    const size_t holders = etcd_inspect_holders(answer);
    enum dlock_status status = DLOCK_OK;

    if (!etcd_inspect_is_sound(answer, &breaking->keys))
        return dlock_fail(breaking->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                          "an answer with keys that are not of the name");
    for (size_t i = 0; i < holders && status == DLOCK_OK; i++) {
        if (!is_meant(breaking, answer->kvs[i]))
            continue;
        breaking->flight[breaking->count] = &breaking->rpcs[breaking->count];
        if (!delete_add(&breaking->rpcs[breaking->count++], answer->kvs[i]))
            status = no_memory(breaking);
        else if (breaking->count == AT_ONCE)
            status = flush(breaking);
    }
    if (status == DLOCK_OK)
        return flush(breaking);
    while (breaking->count > 0)
        etcd_rpc_fini(&breaking->rpcs[--breaking->count]);
    return status;
}

static enum dlock_status run(struct breaking *breaking)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    struct etcd_rpc rpc, *rpcs[] = {&rpc};
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_inspect_range(&range, &breaking->keys);
    etcd_rpc_init(&rpc, ETCD_RANGE, 1);
    if (etcd_rpc_add(&rpc, &range.base))
        status = etcd_exchange(&breaking->session->endpoints, rpcs, 1, false, breaking->deadline_ns,
                               NULL, breaking->err);
    else
        status = no_memory(breaking);
    if (status == DLOCK_OK)
        status = holders_break(breaking,
                               (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&rpc, 0));
    etcd_rpc_fini(&rpc);
    return status;
}

enum dlock_status etcd_break(struct etcd_session *session, const unsigned char *name,
                             uint32_t name_len, const char *owner, int64_t deadline_ns,
                             struct dlock_error *err)
{
    struct breaking *breaking = calloc(1, sizeof *breaking);
    size_t ended = 0;
    enum dlock_status status = DLOCK_NOMEM;

    if (breaking == NULL)
        return dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a request");
    breaking->session = session;
    breaking->owner = owner;
    breaking->deadline_ns = deadline_ns;
    breaking->err = err;
    etcd_keys_make(&breaking->keys, &session->config, name, name_len, NULL);
    status = run(breaking);
    ended = breaking->ended;
    free(breaking);
    if (status == DLOCK_OK && ended == 0)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
