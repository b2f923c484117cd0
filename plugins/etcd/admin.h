/* SPDX-License-Identifier: MIT */
/*
 * admin.h - the slots that read and end the locks of others: inspect, list, list_waiters and
 * break_lock. The keys of a name say who holds it and who waits; its leases, for how long.
 */
#ifndef ETCD_ADMIN_H
#define ETCD_ADMIN_H

#include "session.h"

enum dlock_status etcd_admin_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err);

enum dlock_status etcd_admin_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);

enum dlock_status etcd_admin_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                          int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                          struct dlock_error *err);

enum dlock_status etcd_admin_break(void *self, const unsigned char *name, uint32_t name_len,
                                   const char *owner, int64_t deadline_ns, struct dlock_error *err);

#endif
