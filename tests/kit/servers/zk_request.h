/* SPDX-License-Identifier: MIT */
/* zk_request.h - requests of the client of zk_client.h, and their answers. */
#ifndef DLT_ZK_REQUEST_H
#define DLT_ZK_REQUEST_H

#include "zk_client.h"
#include "zk_packet.h"

#define ZK_CONNECTION_LOSS (-4)

enum {
    ZK_OP_CREATE = 1,
    ZK_OP_DELETE = 2,
    ZK_OP_EXISTS = 3,
    ZK_OP_GET = 4,
    ZK_OP_SET = 5,
    ZK_OP_GET_ACL = 6,
    ZK_OP_SET_ACL = 7,
    ZK_OP_CHILDREN = 8,
    ZK_OP_SYNC = 9,
    ZK_OP_CREATE_CONTAINER = 19,
    ZK_OP_AUTH = 100,
    ZK_OP_CLOSE = -11
};

/* A request with the next number, which begins with this path (NULL: with none). */
void zk_request_begin(struct dlt_zk_client *client, struct zk_packet *packet, int32_t op,
                      const char *path);
/* Sends it, and reads its answer up to the body. Returns the server's error, or
 * ZK_CONNECTION_LOSS. */
int32_t zk_request(struct dlt_zk_client *client, struct zk_packet *packet);
/* The same with a number of its own. */
int32_t zk_request_call(struct dlt_zk_client *client, int32_t xid, struct zk_packet *packet);

#endif
