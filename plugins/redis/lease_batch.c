/* SPDX-License-Identifier: MIT */
#include "lease_batch.h"
#include "calls.h"
#include "release.h"
#include "resp/error.h"
#include "route.h"
#include "take.h"

#include <stdlib.h>

/* The calls of some of the elements. */
struct batch {
    struct redis_session *session;
    size_t n;
    struct dlock_batch_op *ops[REDIS_CALLS_MOST];
    struct resp_keys *keys[REDIS_CALLS_MOST];
    struct redis_call *calls[REDIS_CALLS_MOST];
    struct redis_call_end ends[REDIS_CALLS_MOST];
    int64_t deadline_ns; /* the last one */
};

static void batch_add(struct batch *batch, struct dlock_batch_op *op, struct resp_keys *keys,
                      struct redis_call *call)
{
    batch->ops[batch->n] = op;
    batch->keys[batch->n] = keys;
    batch->calls[batch->n] = call;
    batch->ends[batch->n].err = op->err;
    if (batch->n == 0 || op->req->deadline_ns > batch->deadline_ns)
        batch->deadline_ns = op->req->deadline_ns;
    batch->n++;
}

static void batch_run(struct batch *batch)
{
    if (batch->n > 0)
        redis_route_run_all(batch->session, batch->keys, batch->calls, batch->ends, batch->n,
                            batch->deadline_ns);
}

static void trylock_some(struct redis_session *session, struct redis_take *takes,
                         struct dlock_batch_op *const *ops, size_t n)
{
    struct redis_take *of[REDIS_CALLS_MOST];
    struct batch batch = {.session = session};

    for (size_t i = 0; i < n; i++) {
        struct redis_take *take = &takes[batch.n];

        ops[i]->status = redis_take_begin(session, ops[i]->req, take, ops[i]->err);
        if (ops[i]->status != DLOCK_OK)
            continue;
        of[batch.n] = take;
        batch_add(&batch, ops[i], &take->keys, &take->call);
    }
    batch_run(&batch);
    for (size_t i = 0; i < batch.n; i++) {
        struct dlock_batch_op *op = batch.ops[i];

        op->status = redis_take_end(session, op->req, of[i], batch.ends[i].status,
                                    batch.ends[i].reply, &op->grant, op->err);
    }
}

static void unlock_some(struct redis_session *session, struct redis_release *releases,
                        struct dlock_batch_op *const *ops, size_t n)
{
    struct batch batch = {.session = session};

    for (size_t i = 0; i < n; i++) {
        redis_release_begin_unlock(session, ops[i]->req, &releases[i]);
        batch_add(&batch, ops[i], &releases[i].keys, &releases[i].call);
    }
    batch_run(&batch);
    for (size_t i = 0; i < n; i++)
        ops[i]->status = redis_release_end_unlock(session, &releases[i], batch.ends[i].status,
                                                  batch.ends[i].reply, ops[i]->err);
}

static size_t some_of(size_t n, size_t done)
{
    return n - done < REDIS_CALLS_MOST ? n - done : REDIS_CALLS_MOST;
}

/* The room is not zeroed: see lease.c. */
enum dlock_status redis_lease_batch_trylock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                            struct dlock_error *err)
{
    struct redis_session *session = self;
    struct redis_take *takes = malloc(some_of(n, 0) * sizeof *takes);

    if (takes == NULL)
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a batch");
    for (size_t done = 0; done < n; done += REDIS_CALLS_MOST)
        trylock_some(session, takes, ops + done, some_of(n, done));
    free(takes);
    return DLOCK_OK;
}

enum dlock_status redis_lease_batch_unlock(void *self, struct dlock_batch_op *const *ops, size_t n,
                                           struct dlock_error *err)
{
    struct redis_session *session = self;
    struct redis_release *releases = malloc(some_of(n, 0) * sizeof *releases);

    if (releases == NULL) { /* [UNL-4] */
        for (size_t i = 0; i < n; i++)
            redis_waiter_free(ops[i]->req->attempt);
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a batch");
    }
    for (size_t done = 0; done < n; done += REDIS_CALLS_MOST)
        unlock_some(session, releases, ops + done, some_of(n, done));
    free(releases);
    return DLOCK_OK;
}
