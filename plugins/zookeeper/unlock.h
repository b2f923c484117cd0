/* SPDX-License-Identifier: MIT */
/* unlock.h - slots unlock, dequeue and forget: deletes the node of a token. */
#ifndef ZK_UNLOCK_H
#define ZK_UNLOCK_H

#include "session.h"

enum dlock_status zk_unlock(struct zk_session *session, const struct dlock_request *req,
                            struct dlock_error *err);
enum dlock_status zk_unlock_dequeue(struct zk_session *session, const struct dlock_request *req,
                                    struct dlock_error *err);
void zk_unlock_forget(struct zk_session *session, const struct dlock_request *req);

#endif
