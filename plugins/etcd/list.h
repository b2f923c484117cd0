/* SPDX-License-Identifier: MIT */
/* list.h - slot list: the names under the prefix, page by page, and their holders. */
#ifndef ETCD_LIST_H
#define ETCD_LIST_H

#include "admin.h"

enum dlock_status etcd_admin_list(struct etcd_session *session, const unsigned char *prefix,
                                  uint32_t prefix_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                  void *arg, struct dlock_error *err);

#endif
