/* SPDX-License-Identifier: MIT */
/* inspect.h - slots inspect and list of all strategies; self is a struct my_session. */
#ifndef MY_INSPECT_H
#define MY_INSPECT_H

#include "shared.h"

enum dlock_status my_inspect_name(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);
enum dlock_status my_inspect_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);

#endif
