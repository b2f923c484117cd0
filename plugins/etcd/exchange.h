/* SPDX-License-Identifier: MIT */
/*
 * exchange.h - calls that are sent together on a channel of the session: with a connection, a login
 * and the statuses of dlock.
 */
#ifndef ETCD_EXCHANGE_H
#define ETCD_EXCHANGE_H

#include "endpoints.h"
#include "rpc.h"

/*
 * Sends n calls at once and waits for the answers until deadline_ns. Calls that were certainly not
 * processed by the member (connection closed before, refused stream, no leader, token expired) are
 * sent once more on another connection, after a new login if need be, inside the deadline; so are
 * calls without an answer that change nothing. If there are several members, an exchange without
 * writes waits for the first one until half of the time has passed. If a write may have been
 * executed, nothing is sent again, and no call that was answered is.
 *
 * Returns OK if all calls have status 0, and else the worst for the caller: UNKNOWN before
 * all others. statuses (n of them, may be NULL) has what each of them got:
 * OK; UNAVAILABLE: not executed; UNKNOWN; AUTH; CONFIG; PROTOCOL; NOMEM; and LOST for grpc status 5
 * (no such lease: not executed). err is filled for the worst one.
 * writes: false for calls that change nothing, whose UNKNOWN is UNAVAILABLE. Calls whose method
 * changes nothing (Range, KeepAlive) are never UNKNOWN.
 */
enum dlock_status etcd_exchange(struct etcd_endpoints *endpoints, struct etcd_rpc *const *rpcs,
                                size_t n, bool writes, int64_t deadline_ns,
                                enum dlock_status *statuses, struct dlock_error *err);

/* Adds the request to rpc, which is initialised, and sends it alone. Statuses of etcd_exchange.
 * Always: etcd_rpc_fini. */
static inline enum dlock_status etcd_exchange_one(struct etcd_endpoints *endpoints,
                                                  struct etcd_rpc *rpc,
                                                  const ProtobufCMessage *request, bool writes,
                                                  int64_t deadline_ns, struct dlock_error *err)
{
    struct etcd_rpc *rpcs[] = {rpc};

    if (!etcd_rpc_add(rpc, request))
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    return etcd_exchange(endpoints, rpcs, 1, writes, deadline_ns, NULL, err);
}

#endif
