/* SPDX-License-Identifier: MIT */
#include "async/op.h"
#include "hold/held.h"
#include "hold/renewer.h"
#include "hold/unlock.h"
#include "sys/error.h"

/* A store that took this time to fail is silent. */
#define STALL_NS (100 * DL_NS_PER_MS)

void dl_op_perform_locked(struct dl_op *op)
{
    op->base.performing = !dl_op_is_acquire(op);
}

void dl_op_end_locked(struct dl_op *op, enum dlock_status status, const struct dlock_error *err)
{
    struct dlock_handle *lock = op->base.lock;
    struct dlock_client *client = lock->client;

    op->base.status = status;
    dl_operation_error_set(&op->base, status, err);
    op->base.performing = false;
    op->base.in_progress = false;
    op->acquire.alone = false;
    dl_run_queue_end_locked(client->run_queue, &op->base.run);
    dl_events_push(&client->events, &op->base.done);
    client->calls--;
    dl_handle_changed_locked(lock);
    if (client->shutdown)
        (void)pthread_cond_broadcast(&client->call_ended);
}

static void watching_set_locked(struct dl_op *op, bool watching)
{
    struct dl_run_queue *queue = op->base.lock->client->run_queue;

    if (op->acquire.watching == watching)
        return;
    op->acquire.watching = watching;
    if (watching)
        queue->watching++;
    else
        queue->watching--;
}

void dl_op_acquire_ended_locked(struct dl_op *op, enum dlock_status status,
                                const struct dlock_error *err)
{
    watching_set_locked(op, false);
    dl_acquire_steps_end_locked(&op->acquire.a, status);
    dl_op_end_locked(op, status, err);
}

void dl_op_acquire_waits_locked(struct dl_op *op)
{
    struct dlock_client *client = op->base.lock->client;

    op->acquire.alone = false;
    watching_set_locked(op, op->acquire.waits == DL_ACQUIRE_ASYNC_WATCHES);
    dl_run_queue_wait_locked(client->run_queue, &op->base.run, op->acquire.until_ns,
                             dl_client_now(client));
}

static void acquire_run_locked(struct dl_op *op, bool stalled)
{
    struct dlock_client *client = op->base.lock->client;
    struct dlock_error err;
    enum dlock_status status;
    bool ended;

    (void)pthread_mutex_unlock(&client->mutex);
    dl_error_begin(&err, NULL);
    if (op->acquire.alone) /* others that ended with it went first */
        dl_acquire_steps_return_until(&op->acquire.a, dl_client_now(client) + DL_GRACE_NS);
    ended = dl_acquire_async_run(&op->acquire, stalled, &status, &err);
    (void)pthread_mutex_lock(&client->mutex);
    if (ended)
        dl_op_acquire_ended_locked(op, status, &err);
    else
        dl_op_acquire_waits_locked(op);
}

/* The bound of an unlock. While the store does not answer, it is not asked, but the plugin has to
 * know of a lease that does not end by itself [TET-3]. */
static int64_t unlock_until(struct dlock_client *client, bool stalled)
{
    if (!stalled)
        return DL_NEVER;
    return dl_client_has(client, DLOCK_CAP_TETHERED) ? dl_client_now(client) + DL_GRACE_NS : 0;
}

/* Makes the blocking call of the operation. */
static void call_run_locked(struct dl_op *op, bool stalled)
{
    struct dlock_handle *lock = op->base.lock;
    struct dlock_client *client = lock->client;
    struct dlock_error err;
    enum dlock_status status;

    (void)pthread_mutex_unlock(&client->mutex);
    dl_error_begin(&err, NULL);
    if (op->base.op == DLOCK_OP_UNLOCK)
        status = dl_unlock(lock, unlock_until(client, stalled), &err);
    else if (stalled)
        status = dl_error(&err, DLOCK_UNAVAILABLE, "the store did not answer another operation");
    else if (op->base.op == DLOCK_OP_RENEW)
        status = dl_renew(lock, 0, &err);
    else
        status = dl_renew_downgrade(lock, &err);
    (void)pthread_mutex_lock(&client->mutex);
    dl_op_end_locked(op, status, &err);
}

void dl_op_run_locked(struct dl_op *op, bool stalled)
{
    dl_op_perform_locked(op);
    if (dl_op_is_acquire(op))
        acquire_run_locked(op, stalled);
    else
        call_run_locked(op, stalled);
}

bool dl_op_is_stall(const struct dl_op *op, int64_t begun_ns, int64_t now_ns)
{
    enum dlock_status status = op->base.status;

    if (now_ns - begun_ns < STALL_NS)
        return false;
    if (op->base.in_progress)
        return op->acquire.a.attempt.failures > 0;
    return status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM;
}
