/* SPDX-License-Identifier: MIT */
/* errmap.h - statuses of dlock for errors of ZooKeeper. */
#ifndef ZK_ERRMAP_H
#define ZK_ERRMAP_H

#include "config.h"

/*
 * The status of an answer that a slot has no better word for, with err filled: "what PATH: TEXT".
 * ZNOAUTH and ZAUTHFAILED: AUTH. Quota, ZINVALIDACL, ZNOCHILDRENFOREPHEMERALS and the like: CONFIG.
 * ZOPERATIONTIMEOUT, ZCONNECTIONLOSS, ZCLOSING, ZSESSIONEXPIRED, ZSESSIONMOVED: UNAVAILABLE (the
 * caller knows if a write is in doubt). All others: PROTOCOL.
 */
enum dlock_status zk_errmap_fail(struct dlock_error *err, int rc, const char *what,
                                 const char *path);

#endif
