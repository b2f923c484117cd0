/* SPDX-License-Identifier: MIT */
/* batch_calls.h - the slots trylock_batch and unlock_batch of a session, for requests of a test. */
#ifndef DLT_BATCH_CALLS_H
#define DLT_BATCH_CALLS_H

#include "session_kit.h"

#include <criterion/criterion.h>
#include <string.h>

#define DLT_BATCH_MOST 150 /* more than any plugin sends at once */

/* The request, the error and the answer of each element. Must not move. */
struct dlt_batch {
    size_t n;
    char names[DLT_BATCH_MOST][24];
    struct dlt_request requests[DLT_BATCH_MOST];
    struct dlock_error errors[DLT_BATCH_MOST];
    struct dlock_batch_op elements[DLT_BATCH_MOST], *ops[DLT_BATCH_MOST];
};

/* Elements PREFIX000, PREFIX001, ...: exclusive, for 60 s. No two batches of a program have the
 * same token. */
static inline void dlt_batch_init(struct dlt_batch *batch, struct dlt_session *session, size_t n,
                                  const char *prefix)
{
    static _Atomic uint64_t tokens;

    batch->n = n;
    for (size_t i = 0; i < n; i++) {
        struct dlt_request *request = &batch->requests[i];
        const uint64_t token = atomic_fetch_add(&tokens, 1) + 1;

        (void)snprintf(batch->names[i], sizeof batch->names[i], "%s%03zu", prefix, i);
        dlt_request(session, request, batch->names[i], 'b', 60000);
        memcpy(request->req.token, &token, sizeof token);
        batch->ops[i] = &batch->elements[i];
    }
}

/* Elements as core gives them, all due in timeout_ms. */
static inline void dlt_batch_due(struct dlt_batch *batch, struct dlt_session *session,
                                 int64_t timeout_ms)
{
    for (size_t i = 0; i < batch->n; i++) {
        batch->errors[i] = (struct dlock_error)DLOCK_ERROR_INIT;
        batch->elements[i] = (struct dlock_batch_op){
            .struct_size = sizeof batch->elements[i],
            .status = DLOCK_INTERNAL,
            .req = dlt_due(session, &batch->requests[i], timeout_ms),
            .err = &batch->errors[i],
        };
        batch->elements[i].grant = (struct dlock_grant){
            .struct_size = sizeof(struct dlock_grant), .waiters = UINT32_MAX, .holder_ms = -1};
    }
}

/* As the slots. What the call returns is the status of each element, as in core. */
static inline void dlt_batch_call(struct dlt_batch *batch, struct dlt_session *session,
                                  bool unlocks)
{
    enum dlock_status status = DLOCK_INTERNAL;

    dlt_batch_due(batch, session, session->call_ms);
    status = (unlocks ? session->ops->unlock_batch : session->ops->trylock_batch)(
        session->self, batch->ops, batch->n, &session->err);
    for (size_t i = 0; i < batch->n && status != DLOCK_OK; i++)
        batch->elements[i].status = status;
}

static inline void dlt_batch_try(struct dlt_batch *batch, struct dlt_session *session)
{
    dlt_batch_call(batch, session, false);
}

static inline void dlt_batch_unlock(struct dlt_batch *batch, struct dlt_session *session)
{
    dlt_batch_call(batch, session, true);
}

static inline void dlt_batch_is(const struct dlt_batch *batch, size_t from, size_t to,
                                enum dlock_status status)
{
    for (size_t i = from; i < to; i++)
        cr_assert_eq(batch->elements[i].status, status, "%s is %s, not %s: %s", batch->names[i],
                     dlock_status_name((int)batch->elements[i].status),
                     dlock_status_name((int)status), batch->errors[i].message);
}

/* All but one. */
static inline void dlt_batch_others_are(const struct dlt_batch *batch, size_t one,
                                        enum dlock_status status)
{
    dlt_batch_is(batch, 0, one, status);
    dlt_batch_is(batch, one + 1, batch->n, status);
}

#endif
