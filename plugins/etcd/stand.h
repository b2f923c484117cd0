/* SPDX-License-Identifier: MIT */
/* stand.h - where the key of a call of slot trylock stands in the queue, and what follows. */
#ifndef ETCD_STAND_H
#define ETCD_STAND_H

#include "flight.h"

/* The key holds the name. */
enum dlock_status etcd_stand_grant(struct etcd_take *take);
/* The key is not there. */
enum dlock_status etcd_stand_refuse(struct etcd_take *take, const struct etcd_standing *standing);
/* The key is not there, and keys of the name had another limit [LIM-1]. */
enum dlock_status etcd_stand_differ(struct etcd_take *take, struct etcd_standing *standing);

/* Asks where the key stands, and takes a permit that is free for it. OK with *known false: there is
 * no such key. etcd_stand_find: of which only the token is known. */
enum dlock_status etcd_stand_ask(struct etcd_take *take, bool *known);
enum dlock_status etcd_stand_find(struct etcd_take *take, bool *known);

/* The operations that tell where the key stands: the key, and the keys before it. */
void etcd_stand_add(struct etcd_ops *ops, const struct etcd_take *take);
/* Operation i and the next one of the answer. False: these are not there. */
bool etcd_stand_read(const struct etcd_take *take, size_t i, struct etcd_standing *standing);
/* The answer has not what was asked for. */
enum dlock_status etcd_stand_nonsense(struct etcd_take *take);
/* The transaction has put the key with this lease, behind others. LOST: it has ended. */
enum dlock_status etcd_stand_put(struct etcd_take *take, struct etcd_lease *lease,
                                 const struct etcd_standing *standing);
/* The key was there before the call. LOST: it has ended. */
enum dlock_status etcd_stand_found(struct etcd_take *take);

#endif
