/* SPDX-License-Identifier: MIT */
/* memory_fixture.h - one session of the memory plugin, opened through its table. */
#ifndef MEMORY_FIXTURE_H
#define MEMORY_FIXTURE_H

#include "fake_host.h"
#include "memory_hooks.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct fixture {
    const struct dlock_plugin *plugin;
    const struct dlock_backend_ops *ops;
    struct dlt_host host;
    struct dlt_target target;
    struct dlock_session_info info;
    struct dlock_error err;
    struct dlock_grant grant;
    void *self;
};

static int64_t fixture_waiter_lease_ms = 3000; /* of the next session */

/* What core says of memory://x?waiter_lease=... */
static inline int64_t fixture_number(const struct dlock_target *target, const char *name)
{
    (void)target;
    cr_assert_str_eq(name, "waiter_lease");
    return fixture_waiter_lease_ms;
}

/* One trylock with these flags. */
static inline enum dlock_status fixture_ask(struct fixture *f, struct dlt_request *r,
                                            uint32_t flags)
{
    f->grant = (struct dlock_grant){.holder_ms = -1, .waiters = UINT32_MAX};
    f->err = (struct dlock_error)DLOCK_ERROR_INIT;
    r->req.flags = flags;
    return f->ops->trylock(f->self, &r->req, &f->grant, &f->err);
}

static inline enum dlock_status fixture_try(struct fixture *f, struct dlt_request *r)
{
    return fixture_ask(f, r, 0);
}

static inline enum dlock_status fixture_enqueue(struct fixture *f, struct dlt_request *r)
{
    return fixture_ask(f, r, DLOCK_REQ_ENQUEUE);
}

static inline enum dlock_status fixture_refresh(struct fixture *f, struct dlt_request *r)
{
    return fixture_ask(f, r, DLOCK_REQ_REFRESH);
}

/* A watch until timeout_ms from now. */
static inline enum dlock_status fixture_watch(struct fixture *f, struct dlt_request *r,
                                              int64_t timeout_ms)
{
    f->grant = (struct dlock_grant){.holder_ms = -1, .waiters = UINT32_MAX};
    f->err = (struct dlock_error)DLOCK_ERROR_INIT;
    r->req.flags = 0;
    r->req.deadline_ns = dlt_host_in(&f->host, timeout_ms);
    return f->ops->watch(f->self, &r->req, &f->grant, &f->err);
}

/* What is there now for a waiter: TIMEOUT, nothing. */
static inline enum dlock_status fixture_look(struct fixture *f, struct dlt_request *r)
{
    return fixture_watch(f, r, 0);
}

static inline enum dlock_status fixture_leave(struct fixture *f, struct dlt_request *r)
{
    r->req.flags = 0;
    return f->ops->dequeue(f->self, &r->req, &f->err);
}

static inline enum dlock_status fixture_unlock(struct fixture *f, struct dlt_request *r)
{
    return f->ops->unlock(f->self, &r->req, &f->err);
}

static inline enum dlock_status fixture_renew_with(struct fixture *f, struct dlt_request *r,
                                                   uint32_t flags)
{
    struct dlock_lease_op op = {.req = &r->req, .status = DLOCK_INTERNAL};
    enum dlock_status status;

    r->req.flags = flags;
    status = dlt_renew_many(f->ops, f->self, &op, 1, dlt_host_in(&f->host, 1000), &f->err);
    f->grant = op.grant;
    return status == DLOCK_OK ? op.status : status;
}

static inline enum dlock_status fixture_renew(struct fixture *f, struct dlt_request *r)
{
    return fixture_renew_with(f, r, 0);
}

static inline enum dlock_status fixture_open(struct fixture *f)
{
    f->self = calloc(1, f->ops->session_size);
    cr_assert_not_null(f->self);
    f->target.target.number = fixture_number;
    return f->ops->open(f->self, &f->host.table, &f->target.target, dlt_host_in(&f->host, 1000),
                        &f->info, &f->err);
}

static inline void fixture_close(struct fixture *f)
{
    f->ops->close(f->self, 0);
    free(f->self);
    f->self = NULL;
}

/* running: the real clock, for tests with threads. */
static inline void fixture_init(struct fixture *f, const struct dlock_plugin *plugin, int running)
{
    *f = (struct fixture){.plugin = plugin, .ops = plugin->ops, .err = DLOCK_ERROR_INIT};
    if (running)
        dlt_host_init_running(&f->host);
    else
        dlt_host_init(&f->host);
    dlt_target_init(&f->target, "memory", "x", "");
    cr_assert_eq(plugin->init(&f->host.table, &f->err), DLOCK_OK);
    cr_assert_eq(fixture_open(f), DLOCK_OK);
}

#endif
