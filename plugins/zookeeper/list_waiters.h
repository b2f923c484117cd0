/* SPDX-License-Identifier: MIT */
/* list_waiters.h - slot list_waiters: the contenders for a name behind its holders. */
#ifndef ZK_LIST_WAITERS_H
#define ZK_LIST_WAITERS_H

#include "session.h"

enum dlock_status zk_admin_list_waiters(struct zk_session *session, const unsigned char *name,
                                        uint32_t name_len, int64_t deadline_ns, dlock_waiter_fn *fn,
                                        void *arg, struct dlock_error *err);

#endif
