/* SPDX-License-Identifier: MIT */
/*
 * slots.h - the slots of plugin.h, one file each.
 *
 * A client holds a lock while it holds it on a majority of independent Redis servers. A call is one
 * round or two: one request to all nodes at once, and a verdict from their answers. A batch is the
 * rounds of single calls, which run together.
 *
 * Files; each one uses the files above it alone:
 *   config    what the URI says              quorum   what the answers of N nodes mean together
 *   fence     the fencing token of a majority            lua/     the scripts
 *   node      a connection and its requests
 *   client    what all sessions share: pending releases, attempts that live
 *   session   a connection to each node
 *   release   taking back a lease or a queue entry
 *   round     one request to all nodes, and what becomes of the answers
 *   take      the request for a new lock, its fencing token, and its undoing
 *   wait      queue entries on all nodes; slots watch and wait_any
 *   acquire, unlock, renew, inspect: slots; plugin: the others, and their table
 */
#ifndef REDLOCK_SLOTS_H
#define REDLOCK_SLOTS_H

#include <dlock/plugin.h>
#include <stdbool.h>

struct redlock_session;

#define REDLOCK_OWNER_SIZE 256 /* with its NUL: the owner may be the text of another program */

enum dlock_status redlock_acquire(void *self, const struct dlock_request *req,
                                  struct dlock_grant *grant, struct dlock_error *err);
enum dlock_status redlock_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                int64_t deadline_ns, struct dlock_error *err);
enum dlock_status redlock_unlock(void *self, const struct dlock_request *req,
                                 struct dlock_error *err);
enum dlock_status redlock_acquire_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                        struct dlock_error *err);
enum dlock_status redlock_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err);
enum dlock_status redlock_unlock_break(void *self, const unsigned char *name, uint32_t name_len,
                                       const char *owner, int64_t deadline_ns,
                                       struct dlock_error *err);
enum dlock_status redlock_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err);
enum dlock_status redlock_inspect_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                       int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                       struct dlock_error *err);

/* For unlock.c. True: inspection says CONFIG of this name; err has the error. */
bool redlock_inspect_foreign(struct redlock_session *session, const unsigned char *name,
                             uint32_t name_len, int64_t deadline_ns, struct dlock_error *err);

#endif
