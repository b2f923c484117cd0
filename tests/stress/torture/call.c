/* SPDX-License-Identifier: MIT */
#include "call.h"

#include <stdlib.h>

static enum dlock_status blocking(struct grip *grip, enum dlock_op op, int64_t timeout_ms)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    switch (op) {
    case DLOCK_OP_LOCK:
        return dlock_timedlock(grip->lock, timeout_ms, &err);
    case DLOCK_OP_RDLOCK:
        return dlock_timedrdlock(grip->lock, timeout_ms, &err);
    case DLOCK_OP_UNLOCK:
        return dlock_unlock(grip->lock, &err);
    case DLOCK_OP_DOWNGRADE:
        return dlock_downgrade(grip->lock, &err);
    default:
        return dlock_renew(grip->lock, 0, &err);
    }
}

enum dlock_status call_make(struct grip *grip, enum dlock_op op, int64_t timeout_ms)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status;

    if (!grip->async)
        return blocking(grip, op, timeout_ms);
    atomic_fetch_add(&grip->actor->worker->shared->operations, 1);
    (void)pthread_mutex_lock(&grip->guard);
    grip->pending = op;
    (void)pthread_mutex_unlock(&grip->guard);
    status = dlock_op_start(grip->lock, op, timeout_ms, &err);
    (void)pthread_mutex_lock(&grip->guard);
    if (status != DLOCK_OK)
        grip->pending = 0;
    else
        while (grip->pending != 0)
            (void)pthread_cond_wait(&grip->done, &grip->guard);
    if (status == DLOCK_OK)
        status = grip->status;
    (void)pthread_mutex_unlock(&grip->guard);
    return status;
}

void call_done(const struct worker *worker, const struct dlock_notice *notice)
{
    struct grip *grip = notice->user;

    (void)pthread_mutex_lock(&grip->guard);
    if (grip->pending != notice->op) { /* C19: one DONE for each operation */
        (void)fprintf(stderr, "dlock-torture: client %u: a DONE without an operation\n",
                      worker->order->number);
        abort();
    }
    grip->pending = 0;
    grip->status = notice->status;
    (void)pthread_cond_signal(&grip->done);
    (void)pthread_mutex_unlock(&grip->guard);
}

int64_t call_later_ms(const struct grip *grip)
{
    return grip->async ? 2 * grip->actor->worker->op_timeout_ms : 0;
}
