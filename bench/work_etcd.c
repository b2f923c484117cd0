/* SPDX-License-Identifier: MIT */
#include "bare_etcd.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_S 60

/* A connection, and a lease that is kept, each worker. */
struct worker {
    struct bench_etcd *etcd;
    int64_t lease;
    char dir[64], end[64], key[96]; /* the range of the keys of the name; the worker's own */
    int64_t revision;               /* that created the key; the cluster's, when it did */
    char predecessor[96];
    struct bench_etcd_call keep, call, watch;
};

static ProtobufCBinaryData text(const char *string)
{
    return (ProtobufCBinaryData){.len = strlen(string), .data = (uint8_t *)(uintptr_t)string};
}

static int lease_grant(struct worker *worker, char *why)
{
    Pb__LeaseGrantRequest request = PB__LEASE_GRANT_REQUEST__INIT;
    Pb__LeaseGrantResponse *answer = NULL;

    request.ttl = TTL_S;
    if (bench_etcd_begin(worker->etcd, &worker->call, "Lease/LeaseGrant", &request.base, why) != 0)
        return -1;
    answer = (void *)bench_etcd_message(worker->etcd, &worker->call,
                                        &pb__lease_grant_response__descriptor, why);
    if (answer == NULL)
        return -1;
    worker->lease = answer->id;
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    return bench_etcd_end(worker->etcd, &worker->call, why);
}

static void etcd_end(void *arg)
{
    struct worker *worker = arg;

    bench_etcd_close(worker->etcd);
    free(worker);
}

static void *etcd_begin(void *process, const struct bench_config *config, int index, char *why)
{
    const struct bench_address *address = process;
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        (void)bench_etcd_failed("no memory", why);
        return NULL;
    }
    (void)snprintf(worker->dir, sizeof worker->dir, "bench-%d-%d/", config->run,
                   config->one_name ? 0 : index);
    (void)snprintf(worker->end, sizeof worker->end, "bench-%d-%d0", config->run,
                   config->one_name ? 0 : index);
    (void)snprintf(worker->key, sizeof worker->key, "%s%032d", worker->dir, index);
    worker->etcd = bench_etcd_connect(address, why);
    if (worker->etcd != NULL && lease_grant(worker, why) == 0)
        return worker;
    etcd_end(worker);
    return NULL;
}

/* ---- messages ---- */

static int txn(struct worker *worker, Pb__TxnRequest *request, Pb__TxnResponse **answer, char *why)
{
    if (bench_etcd_begin(worker->etcd, &worker->call, "KV/Txn", &request->base, why) != 0)
        return -1;
    *answer =
        (void *)bench_etcd_message(worker->etcd, &worker->call, &pb__txn_response__descriptor, why);
    if (*answer == NULL)
        return -1;
    if (bench_etcd_end(worker->etcd, &worker->call, why) == 0)
        return 0;
    protobuf_c_message_free_unpacked(&(*answer)->base, NULL);
    return -1;
}

/* In the flight of the Txn that follows. */
static int keep_begin(struct worker *worker, char *why)
{
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    request.id = worker->lease;
    return bench_etcd_begin(worker->etcd, &worker->keep, "Lease/LeaseKeepAlive", &request.base,
                            why);
}

static int keep_end(struct worker *worker, char *why)
{
    return bench_etcd_end(worker->etcd, &worker->keep, why);
}

static int succeeded(struct worker *worker, Pb__TxnRequest *request, int64_t *revision, char *why)
{
    Pb__TxnResponse *answer = NULL;
    int right = 0;

    if (txn(worker, request, &answer, why) != 0)
        return -1;
    right = answer->succeeded;
    if (revision != NULL)
        *revision = answer->header->revision;
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    return right ? 0 : bench_etcd_failed("a Txn did not succeed", why);
}

static Pb__RequestOp put_op(const struct worker *worker, Pb__PutRequest *put)
{
    Pb__RequestOp op = PB__REQUEST_OP__INIT;

    *put = (Pb__PutRequest)PB__PUT_REQUEST__INIT;
    put->key = text(worker->key);
    put->lease = worker->lease;
    op.of_case = PB__REQUEST_OP__OF_PUT;
    op.put = put;
    return op;
}

/* ---- a key that is put if the range is empty ---- */

static int pair_lock(void *arg, char *why)
{
    struct worker *worker = arg;
    Pb__Compare compare = PB__COMPARE__INIT, *compares[] = {&compare};
    Pb__PutRequest put;
    Pb__RequestOp op = put_op(worker, &put), *ops[] = {&op};
    Pb__TxnRequest request = PB__TXN_REQUEST__INIT;

    compare.target = PB__COMPARE__TARGET__CREATE;
    compare.of_case = PB__COMPARE__OF_CREATE_REVISION;
    compare.key = text(worker->dir);
    compare.range_end = text(worker->end);
    request.n_compare = request.n_success = 1;
    request.compare = compares;
    request.success = ops;
    if (keep_begin(worker, why) != 0 || succeeded(worker, &request, &worker->revision, why) != 0)
        return -1;
    return keep_end(worker, why);
}

static int etcd_unlock(void *arg, char *why)
{
    struct worker *worker = arg;
    Pb__Compare compare = PB__COMPARE__INIT, *compares[] = {&compare};
    Pb__DeleteRequest delete = PB__DELETE_REQUEST__INIT;
    Pb__RequestOp op = PB__REQUEST_OP__INIT, *ops[] = {&op};
    Pb__TxnRequest request = PB__TXN_REQUEST__INIT;

    compare.target = PB__COMPARE__TARGET__CREATE;
    compare.of_case = PB__COMPARE__OF_CREATE_REVISION;
    compare.create_revision = worker->revision;
    compare.key = delete.key = text(worker->key);
    op.of_case = PB__REQUEST_OP__OF_DELETE_RANGE;
    op.delete_range = &delete;
    request.n_compare = request.n_success = 1;
    request.compare = compares;
    request.success = ops;
    return succeeded(worker, &request, NULL, why);
}

/* ---- a queue: the key with the lowest create_revision holds the name ---- */

/* The predecessor of the own key; "": it is the first. */
static void predecessor_take(struct worker *worker, const Pb__RangeResponse *range)
{
    worker->predecessor[0] = '\0';
    for (size_t i = 0; i < range->n_kvs; i++) {
        const Pb__KeyValue *kv = range->kvs[i];

        if (kv->create_revision < worker->revision)
            (void)snprintf(worker->predecessor, sizeof worker->predecessor, "%.*s",
                           (int)kv->key.len, (const char *)kv->key.data);
    }
}

static Pb__RangeRequest queue_range(const struct worker *worker)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;

    range.key = text(worker->dir);
    range.range_end = text(worker->end);
    range.sort_order = PB__RANGE_REQUEST__ORDER__DESCEND;
    range.sort_target = PB__RANGE_REQUEST__TARGET__CREATE;
    range.limit = 2;
    return range;
}

static int enqueue(struct worker *worker, char *why)
{
    Pb__PutRequest put;
    Pb__RangeRequest range = queue_range(worker);
    Pb__RequestOp putting = put_op(worker, &put), ranging = PB__REQUEST_OP__INIT;
    Pb__RequestOp *ops[] = {&putting, &ranging};
    Pb__TxnRequest request = PB__TXN_REQUEST__INIT;
    Pb__TxnResponse *answer = NULL;

    ranging.of_case = PB__REQUEST_OP__OF_RANGE;
    ranging.range = &range;
    request.n_success = 2;
    request.success = ops;
    if (keep_begin(worker, why) != 0 || txn(worker, &request, &answer, why) != 0)
        return -1;
    worker->revision = answer->header->revision;
    if (answer->n_responses == 2)
        predecessor_take(worker, answer->responses[1]->range);
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    return keep_end(worker, why);
}

/* How many keys of a range are before the own one; -1: why. */
static int ahead(struct worker *worker, const char *key, const char *end, char *why)
{
    Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;
    Pb__RangeResponse *answer = NULL;
    int count = -1;

    request.key = text(key);
    request.range_end = text(end);
    request.keys_only = 1;
    request.max_create_revision = worker->revision - 1;
    if (bench_etcd_begin(worker->etcd, &worker->call, "KV/Range", &request.base, why) != 0)
        return -1;
    answer = (void *)bench_etcd_message(worker->etcd, &worker->call,
                                        &pb__range_response__descriptor, why);
    if (answer == NULL)
        return -1;
    count = (int)answer->n_kvs;
    protobuf_c_message_free_unpacked(&answer->base, NULL);
    return bench_etcd_end(worker->etcd, &worker->call, why) == 0 ? count : -1;
}

/* A watch that begins now has to be told by a Range what was before. */
static int gone_await(struct worker *worker, char *why)
{
    int gone = 0;

    while (!gone) {
        Pb__WatchResponse *news = (void *)bench_etcd_message(worker->etcd, &worker->watch,
                                                             &pb__watch_response__descriptor, why);
        int64_t revision = news != NULL ? news->header->revision : 0;
        int created = news != NULL && news->created;

        if (news == NULL)
            return -1;
        gone = news->n_events > 0;
        protobuf_c_message_free_unpacked(&news->base, NULL);
        if (created && revision > worker->revision) {
            int count = ahead(worker, worker->predecessor, "", why);

            if (count < 0)
                return -1;
            gone = count == 0;
        }
    }
    return 0;
}

static int watch(struct worker *worker, char *why)
{
    Pb__WatchCreate__Filter filter = PB__WATCH_CREATE__FILTER__NOPUT;
    Pb__WatchCreate create = PB__WATCH_CREATE__INIT;
    Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;

    create.key = text(worker->predecessor);
    create.n_filters = 1;
    create.filters = &filter;
    request.of_case = PB__WATCH_REQUEST__OF_CREATE;
    request.create = &create;
    if (bench_etcd_begin(worker->etcd, &worker->watch, "Watch/Watch", &request.base, why) != 0 ||
        gone_await(worker, why) != 0)
        return -1;
    bench_etcd_reset(worker->etcd, &worker->watch);
    return 0;
}

/* Nobody leaves the queue without having held: who was told is the first. */
static int queue_lock(void *arg, char *why)
{
    struct worker *worker = arg;
    int count = 0;

    if (enqueue(worker, why) != 0)
        return -1;
    if (worker->predecessor[0] == '\0')
        return 0;
    if (watch(worker, why) != 0)
        return -1;
    count = ahead(worker, worker->dir, worker->end, why);
    return count == 0 ? 0 : bench_etcd_failed("somebody is ahead", why);
}

#define ETCD(lock_)                                                                      \
    {                                                                                    \
        .open = bench_address_open, .close = free, .begin = etcd_begin, .end = etcd_end, \
        .lock = (lock_), .unlock = etcd_unlock,                                          \
    }

const struct bench_work bench_work_etcd = ETCD(pair_lock);
const struct bench_work bench_work_etcd_queue = ETCD(queue_lock);
