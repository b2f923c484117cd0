/* SPDX-License-Identifier: MIT */
#include "break.h"

#include "rpc.h"
#include "txn.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE 64

/* Each key has a transaction of its own. The transaction deletes the key if its create revision is
 * the one that was read. If an owner is named, the name must not be kept. A cluster without space
 * refuses transactions. Nobody can put a key then, and the keys are read again and deleted without
 * conditions. */
struct breaking {
    struct etcd_session *session;
    struct etcd_keys keys; /* of the name */
    const char *owner;
    int64_t deadline_ns;
    struct dlock_error *err;
    struct etcd_rpc rpcs[AT_ONCE], *flight[AT_ONCE];
    size_t count, ended;
    bool below; /* keys of names below it hold the name */
    bool no_space;
};

/* A key of another name has one more slash: with key=raw that of "a/b" is among those of "a", and
 * that of a client with the path "/locks/app" is among those of the name "app" in "/locks". */
static bool is_meant(struct breaking *breaking, const Pb__KeyValue *kv)
{
    const size_t dir_len = breaking->keys.dir_len;
    struct etcd_value value;
    bool below = false;

    if (breaking->owner == NULL) {
        below = memchr(kv->key.data + dir_len, '/', kv->key.len - dir_len) != NULL;
        breaking->below = breaking->below || below;
        return !below;
    }
    etcd_value_parse(&value, kv->value.data, kv->value.len);
    if (value.kept)
        return false;
    return kv->key.len - dir_len == strlen(breaking->owner) &&
           memcmp(kv->key.data + dir_len, breaking->owner, kv->key.len - dir_len) == 0;
}

static bool transaction_add(const struct breaking *breaking, struct etcd_rpc *rpc,
                            const Pb__KeyValue *kv)
{
    struct etcd_value value;
    struct etcd_txn txn;

    etcd_value_parse(&value, kv->value.data, kv->value.len);
    etcd_txn_if_created(&txn, kv->key, kv->create_revision);
    if (breaking->owner != NULL && !value.foreign)
        etcd_txn_and_claim(&txn, kv->key, value.limit);
    etcd_txn_delete(&txn.then, kv->key);
    etcd_rpc_init(rpc, ETCD_TXN, 1);
    return etcd_rpc_add(rpc, etcd_txn_request(&txn));
}

static bool delete_add(const struct breaking *breaking, struct etcd_rpc *rpc,
                       const Pb__KeyValue *kv)
{
    Pb__DeleteRequest request = PB__DELETE_REQUEST__INIT;

    if (!breaking->no_space)
        return transaction_add(breaking, rpc, kv);
    request.key = kv->key;
    etcd_rpc_init(rpc, ETCD_DELETE, 1);
    return etcd_rpc_add(rpc, &request.base);
}

static bool was_deleted(const struct breaking *breaking, const struct etcd_rpc *rpc)
{
    const ProtobufCMessage *answer = etcd_rpc_answer(rpc, 0);

    return breaking->no_space ? ((const Pb__DeleteResponse *)(const void *)answer)->deleted > 0
                              : ((const Pb__TxnResponse *)(const void *)answer)->succeeded;
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
        if (status == DLOCK_OK && was_deleted(breaking, &breaking->rpcs[i]))
            breaking->ended++;
        etcd_rpc_fini(&breaking->rpcs[i]);
    }
    breaking->count = 0;
    return status;
}

static enum dlock_status holders_break(struct breaking *breaking, const Pb__RangeResponse *answer)
{
    const size_t holders = etcd_admin_holders(answer);
    enum dlock_status status = DLOCK_OK;

    if (!etcd_admin_is_sound(answer, &breaking->keys))
        return dlock_fail(breaking->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                          "an answer with keys that are not of the name");
    for (size_t i = 0; i < holders && status == DLOCK_OK; i++) {
        if (!is_meant(breaking, answer->kvs[i]))
            continue;
        breaking->flight[breaking->count] = &breaking->rpcs[breaking->count];
        if (!delete_add(breaking, &breaking->rpcs[breaking->count++], answer->kvs[i]))
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
    struct etcd_rpc rpc;
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_admin_range(&range, &breaking->keys);
    etcd_rpc_init(&rpc, ETCD_RANGE, 1);
    status = etcd_exchange_one(&breaking->session->endpoints, &rpc, &range.base, false,
                               breaking->deadline_ns, breaking->err);
    if (status == DLOCK_OK)
        status = holders_break(breaking,
                               (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&rpc, 0));
    etcd_rpc_fini(&rpc);
    return status;
}

enum dlock_status etcd_admin_break(struct etcd_session *session, const unsigned char *name,
                                   uint32_t name_len, const char *owner, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    struct breaking *breaking = calloc(1, sizeof *breaking);
    size_t ended = 0;
    bool doubt = false, below = false;
    enum dlock_status status = DLOCK_NOMEM;

    if (breaking == NULL)
        return dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a request");
    breaking->session = session;
    breaking->owner = owner;
    breaking->deadline_ns = deadline_ns;
    breaking->err = err;
    etcd_keys_make(&breaking->keys, &session->config, name, name_len, NULL);
    status = run(breaking);
    breaking->no_space = status == DLOCK_UNKNOWN && etcd_rpc_no_space(err);
    if (breaking->no_space)
        status = run(breaking);
    ended = breaking->ended;
    doubt = breaking->no_space && ended == 0;
    below = breaking->below;
    free(breaking);
    if (status == DLOCK_OK && ended == 0 && below)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOT_HELD, 0,
                          "what holds the name is a lock below it, of another path or with "
                          "key=raw: break that one, or this one with its owner");
    if (status == DLOCK_OK && doubt)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_UNKNOWN, ETCD_NO_SPACE,
                          "the cluster has no space, and the keys have gone meanwhile");
    if (status == DLOCK_OK && ended == 0)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
