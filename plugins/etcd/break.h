/* SPDX-License-Identifier: MIT */
/* break.h - slot break_lock: deletes the keys of holders. */
#ifndef ETCD_BREAK_H
#define ETCD_BREAK_H

#include "admin.h"

enum dlock_status etcd_admin_break(struct etcd_session *session, const unsigned char *name,
                                   uint32_t name_len, const char *owner, int64_t deadline_ns,
                                   struct dlock_error *err);

#endif
