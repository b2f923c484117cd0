/* SPDX-License-Identifier: MIT */
/*
 * path.h - the node of ZooKeeper that the holders and waiters of a name are below. Pure.
 *
 * It is BASE "/" NAME. In a name, slashes, percent signs, control characters and bytes above 0x7E
 * are written "%2F": ZooKeeper reads paths as UTF-8 and would make bytes that are none the same.
 * So is the dot that a name "." or ".." begins with, which is no name of a node. With key=raw the
 * name is written as it is, and must be a path that ZooKeeper takes.
 */
#ifndef ZK_PATH_H
#define ZK_PATH_H

#include "config.h"

#define ZK_PATH_MAX (ZK_BASE_MAX + 1 + 3 * 255)

struct zk_path {
    char text[ZK_PATH_MAX + 1];
    size_t len;
};

/* False: with key=raw, not a path of ZooKeeper ("a//b", "/a", "a/", "a/../b", a control character,
 * not UTF-8, or "zookeeper" below the root). */
bool zk_path_make(struct zk_path *path, const struct zk_config *config, const void *name,
                  size_t name_len);

/* The name that a child of the base, or with key=raw a path below it, stands for. Returns its
 * length; 0: none of ours. out: 255 bytes. */
size_t zk_path_name(unsigned char *out, const struct zk_config *config, const char *child);

#endif
