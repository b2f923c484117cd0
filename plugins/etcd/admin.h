/* SPDX-License-Identifier: MIT */
/* admin.h - slot inspect: the holders of names, and what is left of their leases. */
#ifndef ETCD_ADMIN_H
#define ETCD_ADMIN_H

#include "keys.h"
#include "rpc.h"
#include "session.h"

#define ETCD_ADMIN_MOST       64  /* names at a time */
#define ETCD_ADMIN_OWNER_SIZE 129 /* foreign keys may have long owners, which are cut */

struct etcd_admin_name {
    unsigned char bytes[256];
    uint32_t len;
};

/* The holders of n names, in two flights. *stopped: fn wants no more. */
enum dlock_status etcd_admin_names(struct etcd_session *session,
                                   const struct etcd_admin_name *names, size_t n,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   bool *stopped, struct dlock_error *err);

enum dlock_status etcd_admin_inspect(struct etcd_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                     void *arg, struct dlock_error *err);

/* The keys of a name, the oldest first. */
void etcd_admin_range(Pb__RangeRequest *range, const struct etcd_keys *keys);
/* False: there are keys in the answer that are not of the name. */
bool etcd_admin_is_sound(const Pb__RangeResponse *answer, const struct etcd_keys *keys);
/* True: the key holds the name, or is kept. Called for the keys of a name, the oldest first. */
struct etcd_admin_walk {
    bool begun, readers; /* all keys so far are readers' */
};
bool etcd_admin_holds(struct etcd_admin_walk *walk, const Pb__KeyValue *kv);
/* How many of them, from the first one on, hold the name. */
size_t etcd_admin_holders(const Pb__RangeResponse *answer);
/* The owner token in a key of the name, or the foreign text there. */
void etcd_admin_owner(char out[ETCD_ADMIN_OWNER_SIZE], const Pb__KeyValue *kv,
                      const struct etcd_keys *keys);

#endif
