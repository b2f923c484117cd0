/* SPDX-License-Identifier: MIT */
/*
 * admin.h - the slots that read and end the locks of others: inspect, list, list_waiters and
 * break_lock. The nodes below that of a name say who holds it and who waits.
 */
#ifndef ZK_ADMIN_H
#define ZK_ADMIN_H

#include "session.h"

#define ZK_ADMIN_PAGE 64 /* names at a time */

/* A name, and what is below its node. */
struct zk_admin_name {
    unsigned char bytes[256];
    uint32_t len;
    const struct String_vector *children; /* of a call of an exchange */
    bool gone; /* out: they held the name, and have gone before they were read */
};

enum dlock_status zk_admin_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err);

enum dlock_status zk_admin_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err);

/* Gets n names, ZK_ADMIN_PAGE at most, whose children are valid until it returns. Sets *stopped: it
 * wants no more. */
typedef enum dlock_status zk_admin_fn(void *arg, struct zk_admin_name *names, size_t n,
                                      bool *stopped, struct dlock_error *err);

/* Calls fn for all names that begin with prefix and have a node, page by page. Each exchange takes
 * timeout_ns at most. AUTH: some nodes may not be read, though all others were. */
enum dlock_status zk_admin_each(struct zk_session *session, const unsigned char *prefix,
                                uint32_t prefix_len, int64_t timeout_ns, zk_admin_fn *fn, void *arg,
                                struct dlock_error *err);

enum dlock_status zk_admin_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                        int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                        struct dlock_error *err);

enum dlock_status zk_admin_break(void *self, const unsigned char *name, uint32_t name_len,
                                 const char *owner, int64_t deadline_ns, struct dlock_error *err);

#endif
