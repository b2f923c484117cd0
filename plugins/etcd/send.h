/* SPDX-License-Identifier: MIT */
/* send.h - one call with one request, in an exchange of its own. */
#ifndef ETCD_SEND_H
#define ETCD_SEND_H

#include "rpc.h"
#include "session.h"

/* Adds the request to rpc, which is initialised, and sends it. Statuses of etcd_exchange. Always:
 * etcd_rpc_fini. */
enum dlock_status etcd_send(struct etcd_session *session, struct etcd_rpc *rpc,
                            const ProtobufCMessage *request, bool writes, int64_t deadline_ns,
                            struct dlock_error *err);

#endif
