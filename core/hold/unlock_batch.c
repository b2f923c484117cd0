/* SPDX-License-Identifier: MIT */
#include "hold/unlock_batch.h"
#include "session/dispatch.h"

/* What follows from the answer to one of the releases. */
static void answered(struct dl_unlock *unlock, enum dlock_status status)
{
    struct dlock *lock = unlock->lock;

    dl_claim_unlocked(lock->claim, status);
    dl_handle_answered(lock, status);
    dl_release_fsm_answered(&unlock->release, dl_client_now(lock->client), status);
}

static void no_session(struct dl_unlock *unlock, enum dlock_status status,
                       const struct dlock_error *err)
{
    *unlock->err = *err;
    dl_release_fsm_no_session(&unlock->release, status);
}

static void exchange(struct dlock_client *client, struct dl_session *session,
                     struct dl_unlock *const *unlocks, size_t n)
{
    struct dlock_batch_op elements[DL_BATCH_MOST], *ops[DL_BATCH_MOST];

    for (size_t i = 0; i < n; i++) {
        struct dl_claim *claim = unlocks[i]->lock->claim;

        dl_claim_unlock_request(client, claim, unlocks[i]->deadline_ns);
        elements[i].req = &claim->req;
        elements[i].err = unlocks[i]->err;
        ops[i] = &elements[i];
    }
    dl_dispatch_unlock_batch(client->plugin, session->self, ops, n);
    dl_session_pool_put(&client->pool, DL_USE_HOLDER, session, dl_claim_batch_worst(ops, n));
    for (size_t i = 0; i < n; i++)
        answered(unlocks[i], elements[i].status);
}

void dl_unlock_batch_send(struct dl_unlock *const *unlocks, size_t n)
{
    struct dlock_client *client = unlocks[0]->lock->client;
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dl_session *session = NULL;
    int64_t until_ns = DL_NEVER;
    enum dlock_status status;

    for (size_t i = 0; i < n; i++)
        until_ns = dl_earlier(until_ns, unlocks[i]->deadline_ns);
    status = dl_session_pool_take(&client->pool, DL_USE_HOLDER, until_ns, &session, &err);
    if (status == DLOCK_OK)
        exchange(client, session, unlocks, n);
    for (size_t i = 0; i < n; i++) {
        if (status != DLOCK_OK)
            no_session(unlocks[i], status, &err);
        if (unlocks[i]->release.step == DL_RELEASE_DONE)
            unlocks[i]->status = unlocks[i]->release.result;
    }
}
