/* SPDX-License-Identifier: MIT */
/*
 * query.h - questions to the store that need no handle: dlock_client_inspect, dlock_client_list,
 * dlock_client_probe; and dlock_client_break.
 */
#ifndef DL_QUERY_H
#define DL_QUERY_H

#include "client/client.h"

enum dlock_status dl_query_inspect(struct dlock_client *client, const void *name, size_t name_len,
                                   dlock_holder_fn *fn, void *arg, struct dlock_error *err);
enum dlock_status dl_query_waiters(struct dlock_client *client, const void *name, size_t name_len,
                                   dlock_waiter_fn *fn, void *arg, struct dlock_error *err);
enum dlock_status dl_query_list(struct dlock_client *client, const void *prefix, size_t prefix_len,
                                dlock_holder_fn *fn, void *arg, struct dlock_error *err);
enum dlock_status dl_query_break(struct dlock_client *client, const void *name, size_t name_len,
                                 const char *owner, struct dlock_error *err);
enum dlock_status dl_query_probe(struct dlock_client *client, dlock_check_fn *fn, void *arg,
                                 struct dlock_error *err);

#endif
