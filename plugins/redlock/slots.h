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
 *   fence     the fencing token of a majority            batch    how many names leave together
 *   script    the scripts                    request  a script with its keys and arguments
 *   node      a connection and its requests  pending  releases that have yet to reach a node
 *   client    what all sessions share        attempt  which attempts live
 *   session   a connection to each node      release  taking back a lease or a queue entry
 *   round     one request to all nodes       deliver  what becomes of an answer
 *   take      the request for a new lock     raise    one fencing token on a majority
 *   undo      taking back what was not won
 *   entry     queue entries on all nodes     wait_any watching without a thread; a slot, too
 *   acquire, unlock, renew, inspect, list, watch, probe: the slots; plugin: their table
 */
#ifndef REDLOCK_SLOTS_H
#define REDLOCK_SLOTS_H

#include <dlock/plugin.h>

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
enum dlock_status redlock_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                               int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                               struct dlock_error *err);
enum dlock_status redlock_probe(void *self, int64_t deadline_ns, struct dlock_session_info *info,
                                dlock_check_fn *fn, void *arg, struct dlock_error *err);
enum dlock_status redlock_watch(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err);
void redlock_watch_interrupt(void *self, const struct dlock_request *req);

#endif
