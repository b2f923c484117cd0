/* SPDX-License-Identifier: MIT */
/* The layer around the batch slots of the memory plugin: a batch is one exchange, and so one call
 * with one fault. */
#include "memory_hooked.h"

/* What became of the exchange for all elements: OK, or why they have no answer. */
static enum dlock_status exchange_end(const struct hooked_call *call, struct dlock_batch_op *op)
{
    return hooked_call_after(call, DLOCK_OK, op->err);
}

/* Whether the i-th element reaches the store, and whether its answer comes back. */
static bool is_sent(const struct hooked_call *call, size_t i)
{
    return call->fault.kind != MEMORY_CUT || i <= 1;
}

static bool is_answered(const struct hooked_call *call, size_t i)
{
    return call->fault.kind != MEMORY_CUT || i == 0;
}

/* HOOKED_NOT_DECIDED: the element has the store's answer. */
static enum dlock_status element_end(const struct hooked_call *call, struct dlock_batch_op *op,
                                     size_t i)
{
    enum dlock_status status = exchange_end(call, op);

    if (status == DLOCK_OK && is_answered(call, i))
        return HOOKED_NOT_DECIDED;
    op->grant = (struct dlock_grant){.struct_size = sizeof op->grant, .holder_ms = -1};
    if (status != DLOCK_OK)
        return status;
    return dlock_fail(op->err, MEMORY_ORIGIN, is_sent(call, i) ? DLOCK_UNKNOWN : DLOCK_UNAVAILABLE,
                      0, "the exchange was cut");
}

/* The whole call is not executed: the status of each element. */
static enum dlock_status not_executed(struct hooked_session *session, enum memory_slot slot,
                                      const struct hooked_call *call,
                                      struct dlock_batch_op *const *ops, size_t n,
                                      enum dlock_status status)
{
    for (size_t i = 0; i < n && call->fault.kind == MEMORY_LATE_REQUEST && !call->dead; i++)
        hooked_late_add(session, slot, ops[i]->req);
    for (size_t i = 0; i < n && slot == MEMORY_UNLOCK; i++)
        memory_waiter_fini(ops[i]->req->attempt); /* [UNL-4] */
    return status;
}

static enum dlock_status batch(struct hooked_session *session, enum memory_slot slot,
                               struct dlock_batch_op *const *ops, size_t n, struct dlock_error *err)
{
    const struct dlock_backend_ops *inner = dlock_plugin_memory()->ops;
    struct hooked_call call =
        hooked_call_enter(session, slot, ops[0]->req, n, ops[0]->req->deadline_ns);
    enum dlock_status status = hooked_call_before(&call, err);
    size_t sent = 0;

    if (status != HOOKED_NOT_DECIDED)
        return not_executed(session, slot, &call, ops, n, status);
    while (sent < n && is_sent(&call, sent))
        sent++;
    (void)(slot == MEMORY_TRYLOCK ? inner->trylock_batch : inner->unlock_batch)(&session->inner,
                                                                                ops, sent, err);
    for (size_t i = 0; i < n; i++) {
        status = element_end(&call, ops[i], i);
        if (status != HOOKED_NOT_DECIDED)
            ops[i]->status = status;
        if (i >= sent && slot == MEMORY_UNLOCK)
            memory_waiter_fini(ops[i]->req->attempt);
        call.fault.ms = 0; /* all answers come, or are lost, together */
        if (call.fault.kind == MEMORY_HELD_REPLY || call.fault.kind == MEMORY_LATE_REPLY)
            call.fault.kind = 0;
    }
    return DLOCK_OK;
}

enum dlock_status hooked_trylock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                       struct dlock_error *err)
{
    (void)hooked_call_enter(self, MEMORY_TRYLOCK_BATCH, ops[0]->req, n, 0);
    return batch(self, MEMORY_TRYLOCK, ops, n, err);
}

enum dlock_status hooked_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                      struct dlock_error *err)
{
    (void)hooked_call_enter(self, MEMORY_UNLOCK_BATCH, ops[0]->req, n, 0);
    return batch(self, MEMORY_UNLOCK, ops, n, err);
}
