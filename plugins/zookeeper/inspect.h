/* SPDX-License-Identifier: MIT */
/* inspect.h - slot inspect: the holders of a name. */
#ifndef ZK_INSPECT_H
#define ZK_INSPECT_H

#include "session.h"

enum dlock_status zk_inspect(struct zk_session *session, const unsigned char *name,
                             uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                             struct dlock_error *err);

#endif
