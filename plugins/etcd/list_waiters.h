/* SPDX-License-Identifier: MIT */
/* list_waiters.h - slot list_waiters: the keys of a name behind those that hold it. */
#ifndef ETCD_LIST_WAITERS_H
#define ETCD_LIST_WAITERS_H

#include "session.h"

enum dlock_status etcd_admin_list_waiters(struct etcd_session *session, const unsigned char *name,
                                          uint32_t name_len, int64_t deadline_ns,
                                          dlock_waiter_fn *fn, void *arg, struct dlock_error *err);

#endif
