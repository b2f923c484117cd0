/* SPDX-License-Identifier: MIT */
#include "send.h"

enum dlock_status etcd_send(struct etcd_session *session, struct etcd_rpc *rpc,
                            const ProtobufCMessage *request, bool writes, int64_t deadline_ns,
                            struct dlock_error *err)
{
    struct etcd_rpc *rpcs[] = {rpc};

    if (!etcd_rpc_add(rpc, request))
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    return etcd_exchange(&session->endpoints, rpcs, 1, writes, deadline_ns, NULL, err);
}
