/* SPDX-License-Identifier: MIT */
/*
 * take.h - slot trylock: puts the key of a token, or asks where it stands.
 *
 * A name without keys is taken by one transaction, which is sent together with the KeepAlive of a
 * lease that the client has already. Otherwise the transaction puts the key as a waiter's, if that
 * is wanted and the keys of the name agree on the limit, and reads what tells where it stands.
 *
 * The first permit of a semaphore comes in the same way. If keys are there, a permit is free and
 * nobody waits, a second transaction puts the key with the lowest number, on condition that no key
 * of the name was put meanwhile. A call that may wait and was too late three times becomes a
 * waiter: of many that come at once each gets its turn. queue.h has how a waiter gets its permit.
 */
#ifndef ETCD_TAKE_H
#define ETCD_TAKE_H

#include "queue.h"

enum dlock_status etcd_take(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                            struct dlock_error *err);

#endif
