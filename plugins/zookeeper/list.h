/* SPDX-License-Identifier: MIT */
/* list.h - slot list: the names below the base, and their holders. */
#ifndef ZK_LIST_H
#define ZK_LIST_H

#include "session.h"

enum dlock_status zk_list(struct zk_session *session, const unsigned char *prefix,
                          uint32_t prefix_len, int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                          struct dlock_error *err);

#endif
