/* SPDX-License-Identifier: MIT */
/* errmap.h - what an error of gRPC or of etcd means for a lock. */
#ifndef ETCD_ERRMAP_H
#define ETCD_ERRMAP_H

#include "channel.h"

struct etcd_verdict {
    enum dlock_status status; /* as exchange.h lists them */
    bool unprocessed;         /* certainly nothing was executed */
    bool leave;               /* the member cannot serve: use another one */
    bool login;               /* the token is too old */
};

/* call has ended. */
struct etcd_verdict etcd_errmap_judge(const struct etcd_call *call);

#endif
