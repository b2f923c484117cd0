/* SPDX-License-Identifier: MIT */
/*
 * keep.h - slot unlock with DLOCK_REQ_KEEP: the key stays where it is in the queue, gets a value
 * that says that nobody holds it, and a lease of the time for which it is kept.
 */
#ifndef ETCD_KEEP_H
#define ETCD_KEEP_H

#include "slot.h"

/* A Put happens only if the key is as it was read. So a repetition after a lost answer finds the
 * key kept (LOST) or keeps it, and a key that has ended is not put again. */
enum dlock_status etcd_keep(struct etcd_session *session, const struct dlock_request *req,
                            struct dlock_error *err);

#endif
