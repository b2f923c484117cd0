/* SPDX-License-Identifier: MIT */
/* break.h - slot break_lock: deletes the nodes of holders. */
#ifndef ZK_BREAK_H
#define ZK_BREAK_H

#include "session.h"

enum dlock_status zk_admin_break(struct zk_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *owner, int64_t deadline_ns,
                                 struct dlock_error *err);

#endif
