/* SPDX-License-Identifier: MIT */
/*
 * permit.h - takes a permit of a semaphore.
 *
 * The first one comes with the key, as a lock does. Otherwise the transaction reads the keys. If a
 * permit is free and nobody waits, a second one puts the key with the lowest number, on condition
 * that no key of the name was put meanwhile; else it puts the key as a waiter's, on condition that
 * all keys have the same limit. queue.h has how a waiter gets its permit. A call that may wait and
 * was too late three times is a waiter, too: of many that come at once each gets its turn.
 */
#ifndef ETCD_PERMIT_H
#define ETCD_PERMIT_H

#include "flight.h"

/* LOST: the leases or the key have ended meanwhile: once more. */
enum dlock_status etcd_permit_try(struct etcd_take *take);

#endif
