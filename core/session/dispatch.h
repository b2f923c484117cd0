/* SPDX-License-Identifier: MIT */
/*
 * dispatch.h - the only way from core into the table of a plugin.
 *
 * Each function calls one slot and checks the answer: a status that the slot may not return, a
 * grant without a lease, or a missing fence becomes INTERNAL, with a text that says so. Slots are
 * called with no lock of core held, except `interrupt`.
 *
 * The folder session/ has what core knows of a plugin at work: session_pool.h lends sessions to
 * calls, dispatch.h calls the plugin through slot.h, wait.h is how threads wait for each
 * other.
 */
#ifndef DL_DISPATCH_H
#define DL_DISPATCH_H

#include "load/abi.h"

#include <stdbool.h>

enum dlock_status dl_dispatch_open(const struct dl_plugin *plugin, void *self,
                                   const struct dlock_host *host, const struct dlock_target *target,
                                   int64_t deadline_ns, struct dlock_session_info *info,
                                   struct dlock_error *err);
void dl_dispatch_close(const struct dl_plugin *plugin, void *self, bool forked);

/* caps: the capabilities of that session. *grant is reset first. */
enum dlock_status dl_dispatch_trylock(const struct dl_plugin *plugin, void *self, uint64_t caps,
                                      const struct dlock_request *req, struct dlock_grant *grant,
                                      struct dlock_error *err);
enum dlock_status dl_dispatch_lock(const struct dl_plugin *plugin, void *self, uint64_t caps,
                                   const struct dlock_request *req, struct dlock_grant *grant,
                                   struct dlock_error *err);
/* OK (a grant) is allowed only if the plugin has a queue. */
enum dlock_status dl_dispatch_watch(const struct dl_plugin *plugin, void *self, uint64_t caps,
                                    const struct dlock_request *req, struct dlock_grant *grant,
                                    struct dlock_error *err);
enum dlock_status dl_dispatch_dequeue(const struct dl_plugin *plugin, void *self,
                                      const struct dlock_request *req, struct dlock_error *err);
void dl_dispatch_interrupt(const struct dl_plugin *plugin, void *self,
                           const struct dlock_request *req);

/* *count: in: the room in waiters; out, with OK: how many numbers are there, at least 1. */
enum dlock_status dl_dispatch_wait_any(const struct dl_plugin *plugin, void *self,
                                       uint32_t *waiters, size_t *count, int64_t deadline_ns,
                                       struct dlock_error *err);

/* Afterwards every element has a status; a failure of the whole call is copied into each, and err
 * is about the first element that has one. */
void dl_dispatch_renew(const struct dl_plugin *plugin, void *self,
                       struct dlock_lease_op *const *ops, size_t n, int64_t deadline_ns,
                       struct dlock_error *err);
enum dlock_status dl_dispatch_unlock(const struct dl_plugin *plugin, void *self,
                                     const struct dlock_request *req, struct dlock_error *err);

/*
 * Many trylocks, or many unlocks, by one call of the slot, which has to be there. The elements have
 * req and err; afterwards each has a status, and its err a text as after the single call. A failure
 * of the whole call is the failure of each element.
 */
void dl_dispatch_trylock_batch(const struct dl_plugin *plugin, void *self, uint64_t caps,
                               struct dlock_batch_op *const *ops, size_t n);
void dl_dispatch_unlock_batch(const struct dl_plugin *plugin, void *self,
                              struct dlock_batch_op *const *ops, size_t n);

/* Does nothing if the plugin has no such slot. */
void dl_dispatch_forget(const struct dl_plugin *plugin, void *self,
                        const struct dlock_request *req);

/* 0 if the plugin has no such slot. */
uint32_t dl_dispatch_server_of(const struct dl_plugin *plugin, void *self,
                               const unsigned char *name, uint32_t name_len);

/* UNSUPPORTED: the plugin has no such slot. */
enum dlock_status dl_dispatch_inspect(const struct dl_plugin *plugin, void *self,
                                      const unsigned char *name, uint32_t name_len,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err);
enum dlock_status dl_dispatch_list(const struct dl_plugin *plugin, void *self,
                                   const unsigned char *prefix, uint32_t prefix_len,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   struct dlock_error *err);
enum dlock_status dl_dispatch_list_waiters(const struct dl_plugin *plugin, void *self,
                                           const unsigned char *name, uint32_t name_len,
                                           int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                           struct dlock_error *err);
enum dlock_status dl_dispatch_break(const struct dl_plugin *plugin, void *self,
                                    const unsigned char *name, uint32_t name_len, const char *owner,
                                    int64_t deadline_ns, struct dlock_error *err);
enum dlock_status dl_dispatch_probe(const struct dl_plugin *plugin, void *self, int64_t deadline_ns,
                                    struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                    struct dlock_error *err);

#endif
