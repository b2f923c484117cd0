/* SPDX-License-Identifier: MIT */
/*
 * node.h - nodes of contenders: of a holder or waiter of a name, ours or of another program. Pure.
 *
 * The last ten digits of a node's name are the sequence that the server gave it. The text before
 * them ends with "-lock-", "__lock__" or "__WRIT__" (writers), or with "__READ__" or "__rlock__"
 * (readers). Nodes of all recipes contend for a name: dlock waits for each of them, also where the
 * other program does not wait for dlock. Nodes with other names are ignored.
 */
#ifndef ZK_NODE_H
#define ZK_NODE_H

#include "path.h"

#define ZK_TOKEN_HEX  (2 * DLOCK_TOKEN_SIZE)
#define ZK_NODE_MAX   80 /* of ours, with the sequence */
#define ZK_LIMIT_MOST 1000
#define ZK_SEQUENCE_END                                                      \
    INT64_C(2147483000) /* of a parent: later numbers would soon be negative \
                         */

struct zk_node {
    int64_t sequence; /* the order of the queue; negative: the server's counter ran over */
    bool shared;      /* a reader */
    uint32_t
        limit; /* of a semaphore, 2 or more, of which the node is a holder or waiter; 1: a lock */
    const char
        *owner; /* points into the name: the token or other text that tells contenders apart */
    size_t owner_len;
};

/* The path of a new node without the sequence: "BASE/NAME/_c_<token>-__WRIT__"; of a semaphore
 * "BASE/NAME/_c_<token>-l<limit>-__WRIT__", which is a writer for a program without limits. Returns
 * its length. out: ZK_PATH_MAX + 1 + ZK_NODE_MAX bytes. */
size_t zk_node_make(char *out, enum zk_recipe recipe, const char *parent, const char *token,
                    enum dlock_mode mode, uint32_t limit);

/* False: no contender. */
bool zk_node_parse(struct zk_node *node, const char *name);
/* True: the node has this token (ZK_TOKEN_HEX digits). Nodes of all recipes count. */
bool zk_node_is(const struct zk_node *node, const char *token);

#endif
