/* SPDX-License-Identifier: MIT */
/* list.h - slot list: the names below the base, and their holders. */
#ifndef ZK_LIST_H
#define ZK_LIST_H

#include "admin.h"

#define ZK_ADMIN_PAGE 64 /* names at a time */

enum dlock_status zk_admin_list(struct zk_session *session, const unsigned char *prefix,
                                uint32_t prefix_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                void *arg, struct dlock_error *err);

/* Gets n names, ZK_ADMIN_PAGE at most, whose children are valid until it returns. Sets *stopped: it
 * wants no more. */
typedef enum dlock_status zk_admin_fn(void *arg, struct zk_admin_name *names, size_t n,
                                      bool *stopped, struct dlock_error *err);

/* Calls fn for all names that begin with prefix and have a node, page by page. Each exchange takes
 * timeout_ns at most. AUTH: some nodes may not be read, though all others were. */
enum dlock_status zk_admin_each(struct zk_session *session, const unsigned char *prefix,
                                uint32_t prefix_len, int64_t timeout_ns, zk_admin_fn *fn, void *arg,
                                struct dlock_error *err);

#endif
