/* SPDX-License-Identifier: MIT */
/* list_waiters.h - slot list_waiters: the queue of a name. */
#ifndef REDIS_LIST_WAITERS_H
#define REDIS_LIST_WAITERS_H

#include <dlock/plugin.h>

enum dlock_status redis_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                     int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                     struct dlock_error *err);

#endif
