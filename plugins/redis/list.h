/* SPDX-License-Identifier: MIT */
/* list.h - slot list. */
#ifndef REDIS_LIST_H
#define REDIS_LIST_H

#include <dlock/plugin.h>

enum dlock_status redis_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                             int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                             struct dlock_error *err);

#endif
