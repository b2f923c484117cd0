/* SPDX-License-Identifier: MIT */
/*
 * lock.h - takes a lock, exclusive or shared.
 *
 * A name without keys is taken by one transaction, in one flight with the KeepAlive of a lease from
 * the stock. Otherwise the transaction finds whether a key is of a semaphore, puts the key as a
 * waiter's if none is and that is wanted, and reads what tells where it stands.
 */
#ifndef ETCD_LOCK_H
#define ETCD_LOCK_H

#include "flight.h"

/* LOST: the leases or the key have ended meanwhile: once more. */
enum dlock_status etcd_lock_try(struct etcd_take *take);

#endif
