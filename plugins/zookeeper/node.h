/* SPDX-License-Identifier: MIT */
/*
 * node.h - the node of a name, and the nodes of its contenders: the holders and waiters, ours or of
 * another program. Pure.
 *
 * The node of a name is BASE "/" NAME. In a name, slashes, percent signs, control characters and
 * bytes above 0x7E are written "%2F": ZooKeeper reads paths as UTF-8 and would make bytes that are
 * none the same. So is the dot that a name "." or ".." begins with, which is no name of a node.
 * With key=raw the name is written as it is, and must be a path that ZooKeeper takes.
 *
 * The nodes of contenders are below it. The last ten digits of such a node's name are the sequence
 * that the server gave it. The text before them ends with "-lock-", "__lock__" or "__WRIT__"
 * (writers), or with "__READ__" or "__rlock__" (readers). Nodes of all recipes contend for a name:
 * dlock waits for each of them, also where the other program does not wait for dlock. Nodes with
 * other names are ignored.
 */
#ifndef ZK_NODE_H
#define ZK_NODE_H

#include "config.h"

#define ZK_PATH_MAX (ZK_BASE_MAX + 1 + 3 * 255)

struct zk_path {
    char text[ZK_PATH_MAX + 1];
    size_t len;
};

/* False: with key=raw, not a path of ZooKeeper ("a//b", "/a", "a/", "a/../b", a control character,
 * not UTF-8, or "zookeeper" below the root). */
bool zk_node_path(struct zk_path *path, const struct zk_config *config, const void *name,
                  size_t name_len);

/* The name that a child of the base, or with key=raw a path below it, stands for. Returns its
 * length; 0: none of ours. out: 255 bytes. */
size_t zk_node_name(unsigned char *out, const struct zk_config *config, const char *child);

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
