/* SPDX-License-Identifier: MIT */
/* inspect.h - slots of plugin.h: inspect, list and list_waiters. */
#ifndef REDIS_INSPECT_H
#define REDIS_INSPECT_H

#include <dlock/plugin.h>

enum dlock_status redis_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err);
enum dlock_status redis_inspect_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err);
enum dlock_status redis_inspect_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                        int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                        struct dlock_error *err);

#endif
