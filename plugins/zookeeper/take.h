/* SPDX-License-Identifier: MIT */
/* take.h - slot trylock: makes the node of a token, or asks where it stands. */
#ifndef ZK_TAKE_H
#define ZK_TAKE_H

#include "session.h"

enum dlock_status zk_take(struct zk_session *session, const struct dlock_request *req,
                          struct dlock_grant *grant, struct dlock_error *err);

#endif
