/* SPDX-License-Identifier: MIT */
/* errmap.h - what the end of a call means for a lock: errors of gRPC and of etcd. Pure. */
#ifndef ETCD_ERRMAP_H
#define ETCD_ERRMAP_H

#include "channel.h"

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
struct etcd_verdict etcd_errmap_judge(const struct etcd_call *call);
/* What the reader of the error can do, to be put behind it; "": nothing is known. */
const char *etcd_errmap_hint(const struct etcd_call *call);
/* err, of an exchange: the cluster has no space. Versions without the repair of etcd's issue 13429
 * refuse every transaction then, also one that only reads or deletes, and execute other requests
 * that only read or delete. */
bool etcd_errmap_no_space(const struct dlock_error *err);
/* A transaction is larger than the members allow (--max-txn-ops): nothing was executed. */
bool etcd_errmap_too_many_ops(const struct dlock_error *err);

#endif
