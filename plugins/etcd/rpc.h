/* SPDX-License-Identifier: MIT */
/* rpc.h - a call of one method with messages of etcd.proto: packed, sent in a flight, unpacked. */
#ifndef ETCD_RPC_H
#define ETCD_RPC_H

#include "channel.h"
#include "etcd.pb-c.h"

#include <stdatomic.h>

enum etcd_method {
    ETCD_RANGE,
    ETCD_TXN,
    ETCD_DELETE,
    ETCD_WATCH,
    ETCD_LEASE_GRANT,
    ETCD_LEASE_REVOKE,
    ETCD_LEASE_KEEP_ALIVE,
    ETCD_LEASE_TIME_TO_LIVE,
    ETCD_AUTHENTICATE,
    ETCD_STATUS,
    ETCD_ALARM,
    ETCD_MEMBER_LIST
};

/*
 * One call with its requests and answers. The answers of a call that is open may be read: count
 * only grows, and answers below it stay as they are.
 */
struct etcd_rpc {
    struct etcd_call call; /* the first member */
    enum etcd_method method;
    unsigned char *packed;
    size_t packed_size;
    ProtobufCMessage **answers; /* unpacked, in the order of arrival */
    _Atomic size_t count;
    size_t most;    /* answers it takes; a further one makes no sense */
    bool no_memory; /* for an answer */
};

/* most: how many answers the method gives to what will be added: 1 unless it is a stream. */
void etcd_rpc_init(struct etcd_rpc *rpc, enum etcd_method method, size_t most);
/* Adds a request, which may be freed then. False: no memory. */
bool etcd_rpc_add(struct etcd_rpc *rpc, const ProtobufCMessage *request);
/* Frees what it has; it may be initialised again. Harmless twice, and on zeroes. */
void etcd_rpc_fini(struct etcd_rpc *rpc);
/* Ready to be sent once more: the answers are gone, the requests are kept. */
void etcd_rpc_again(struct etcd_rpc *rpc);

/* Answer number i, which arrived: cast it to what the method answers, as Pb__TxnResponse. */
const ProtobufCMessage *etcd_rpc_answer(const struct etcd_rpc *rpc, size_t i);
/* The greatest revision of the store in the headers of the answers; 0: there is none. */
int64_t etcd_rpc_revision(const struct etcd_rpc *rpc);
/* The least term of the cluster's leader in these headers; 0: there is none. */
uint64_t etcd_rpc_term(const struct etcd_rpc *rpc);
/* True: the method changes something that matters to others. */
bool etcd_rpc_writes(const struct etcd_rpc *rpc);

#endif
