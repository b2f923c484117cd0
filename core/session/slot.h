/* SPDX-License-Identifier: MIT */
/*
 * slot.h - the calls of a plugin's slots, each traced by sys/trace.h.
 *
 * dispatch.c, which checks the answers, is the only caller in core; dlock-slot-check wants the
 * answers as they are. The arguments are those of
 * dlock/plugin.h, and an answer is passed on as the plugin gave it. An optional slot has to be
 * there.
 */
#ifndef DL_SLOT_H
#define DL_SLOT_H

#include "load/abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DL_SLOT_CAPS_TEXT 192 /* enough for all of them */

/* Capabilities by their names, for messages: " FENCE QUEUE", a blank before each name; "": none. */
void dl_slot_caps_text(char *out, size_t size, uint64_t caps);

enum dlock_status dl_slot_open(const struct dl_plugin *plugin, void *self,
                               const struct dlock_host *host, const struct dlock_target *target,
                               int64_t deadline_ns, struct dlock_session_info *info,
                               struct dlock_error *err);
void dl_slot_close(const struct dl_plugin *plugin, void *self, bool forked);

enum dlock_status dl_slot_trylock(const struct dl_plugin *plugin, void *self,
                                  const struct dlock_request *req, struct dlock_grant *grant,
                                  struct dlock_error *err);
enum dlock_status dl_slot_lock(const struct dl_plugin *plugin, void *self,
                               const struct dlock_request *req, struct dlock_grant *grant,
                               struct dlock_error *err);
enum dlock_status dl_slot_watch(const struct dl_plugin *plugin, void *self,
                                const struct dlock_request *req, struct dlock_grant *grant,
                                struct dlock_error *err);
enum dlock_status dl_slot_wait_any(const struct dl_plugin *plugin, void *self, uint32_t *waiters,
                                   size_t *count, int64_t deadline_ns, struct dlock_error *err);
enum dlock_status dl_slot_dequeue(const struct dl_plugin *plugin, void *self,
                                  const struct dlock_request *req, struct dlock_error *err);
void dl_slot_interrupt(const struct dl_plugin *plugin, void *self, const struct dlock_request *req);

enum dlock_status dl_slot_renew(const struct dl_plugin *plugin, void *self,
                                struct dlock_lease_op *const *ops, size_t n, int64_t deadline_ns,
                                struct dlock_error *err);
enum dlock_status dl_slot_unlock(const struct dl_plugin *plugin, void *self,
                                 const struct dlock_request *req, struct dlock_error *err);
enum dlock_status dl_slot_trylock_batch(const struct dl_plugin *plugin, void *self,
                                        struct dlock_batch_op *const *ops, size_t n,
                                        struct dlock_error *err);
enum dlock_status dl_slot_unlock_batch(const struct dl_plugin *plugin, void *self,
                                       struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err);
void dl_slot_forget(const struct dl_plugin *plugin, void *self, const struct dlock_request *req);

/* Not traced: it asks nobody, and comes with each operation. */
uint32_t dl_slot_server_of(const struct dl_plugin *plugin, void *self, const unsigned char *name,
                           uint32_t name_len);

enum dlock_status dl_slot_inspect(const struct dl_plugin *plugin, void *self,
                                  const unsigned char *name, uint32_t name_len, int64_t deadline_ns,
                                  dlock_holder_fn *fn, void *arg, struct dlock_error *err);
enum dlock_status dl_slot_list(const struct dl_plugin *plugin, void *self,
                               const unsigned char *prefix, uint32_t prefix_len,
                               int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                               struct dlock_error *err);
enum dlock_status dl_slot_list_waiters(const struct dl_plugin *plugin, void *self,
                                       const unsigned char *name, uint32_t name_len,
                                       int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                       struct dlock_error *err);
enum dlock_status dl_slot_break(const struct dl_plugin *plugin, void *self,
                                const unsigned char *name, uint32_t name_len, const char *owner,
                                int64_t deadline_ns, struct dlock_error *err);
enum dlock_status dl_slot_probe(const struct dl_plugin *plugin, void *self, int64_t deadline_ns,
                                struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                struct dlock_error *err);

#endif
