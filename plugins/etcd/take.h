/* SPDX-License-Identifier: MIT */
/* take.h - slot trylock: puts the key of a token, or asks where it stands. */
#ifndef ETCD_TAKE_H
#define ETCD_TAKE_H

#include "slot.h"

enum dlock_status etcd_take(struct etcd_session *session, const struct dlock_request *req,
                            struct dlock_grant *grant, struct dlock_error *err);

#endif
