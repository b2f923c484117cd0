/* SPDX-License-Identifier: MIT */
/* The slots of a plugin whose store is opened as text only: no slot is ever called. */
#ifndef NO_OPS_H
#define NO_OPS_H

#include <dlock/plugin.h>

static enum dlock_status no_open(void *self, const struct dlock_host *host,
                                 const struct dlock_target *target, int64_t deadline_ns,
                                 struct dlock_session_info *info, struct dlock_error *err)
{
    (void)self, (void)host, (void)target, (void)deadline_ns, (void)info, (void)err;
    return DLOCK_INTERNAL;
}

static void no_close(void *self, bool forked)
{
    (void)self, (void)forked;
}

static enum dlock_status no_try(void *self, const struct dlock_request *req,
                                struct dlock_grant *grant, struct dlock_error *err)
{
    (void)self, (void)req, (void)grant, (void)err;
    return DLOCK_INTERNAL;
}

static enum dlock_status no_renew(void *self, struct dlock_lease_op *const *lease_ops, size_t n,
                                  int64_t deadline_ns, struct dlock_error *err)
{
    (void)self, (void)lease_ops, (void)n, (void)deadline_ns, (void)err;
    return DLOCK_INTERNAL;
}

static enum dlock_status no_unlock(void *self, const struct dlock_request *req,
                                   struct dlock_error *err)
{
    (void)self, (void)req, (void)err;
    return DLOCK_INTERNAL;
}

static const struct dlock_backend_ops no_ops = {.struct_size = sizeof no_ops,
                                                .open = no_open,
                                                .close = no_close,
                                                .trylock = no_try,
                                                .renew = no_renew,
                                                .unlock = no_unlock};

#endif
