/* SPDX-License-Identifier: MIT */
/* node_private.h - for node.c (requests and answers) and node_connect.c (connecting). */
#ifndef REDLOCK_NODE_PRIVATE_H
#define REDLOCK_NODE_PRIVATE_H

#include "node.h"

/* ---- node.c ---- */

/* err: "<endpoint>: why" */
void redlock_node_drop_with(struct redlock_node *node, const struct dlock_error *err);
void redlock_node_drop_stream(struct redlock_node *node, enum stream_result result,
                              const char *why);
/* Adds to what is to be sent; false: no memory, or too much. */
bool redlock_node_add(struct redlock_node *node, const char *bytes, size_t len);
/* False: the connection is dropped. */
bool redlock_node_flush(struct redlock_node *node);

/* ---- node_connect.c: a step each, from DOWN to SETTING_UP; what fails is dropped ---- */

void redlock_node_begin(struct redlock_node *node, int64_t now_ns);
void redlock_node_resolve_step(struct redlock_node *node);
void redlock_node_connect_step(struct redlock_node *node);
void redlock_node_secure_step(struct redlock_node *node);
/* SETTING_UP is over. */
void redlock_node_set_up_end(struct redlock_node *node);
/* Its password is not the one that the server was told. */
bool redlock_node_is_rotated(const struct redlock_node *node);

#endif
