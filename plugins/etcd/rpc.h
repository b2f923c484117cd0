/* SPDX-License-Identifier: MIT */
/*
 * rpc.h - a call of one method with messages of etcd.proto: packed, sent with others, unpacked; and
 * what its end means for a lock: the errors of gRPC and of etcd.
 */
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

/* The status of gRPC (dlock_error.code) of a request that the cluster has no space for; and of
 * others, as when a proxy limits their rate. */
#define ETCD_NO_SPACE 8

struct etcd_verdict {
    enum dlock_status status; /* as exchange.h lists them */
    bool unprocessed;         /* certainly nothing was executed */
    bool elsewhere;           /* the member cannot serve: use another one */
    bool login;               /* without a login, or the token is too old: log in (again) */
};

/* call has ended, and is taken for a write: see etcd_exchange for others. */
struct etcd_verdict etcd_rpc_judge(const struct etcd_call *call);
/* What the reader of the error can do, to be put behind it; "": nothing is known. */
const char *etcd_rpc_hint(const struct etcd_call *call);
/* err, of an exchange: the cluster has no space. Versions without the repair of etcd's issue 13429
 * refuse every transaction then, also one that only reads or deletes, and execute other requests
 * that only read or delete. */
bool etcd_rpc_no_space(const struct dlock_error *err);
/* A transaction is larger than the members allow (--max-txn-ops): nothing was executed. */
bool etcd_rpc_too_many_ops(const struct dlock_error *err);

#endif
