/* SPDX-License-Identifier: MIT */
#include "acquire/try_batch.h"
#include "session/dispatch.h"

struct exchange {
    struct dl_acquire *attempts[DL_BATCH_MOST]; /* of the elements */
    struct dlock_batch_op elements[DL_BATCH_MOST];
    struct dlock_batch_op *ops[DL_BATCH_MOST];
    size_t n;
};

bool dl_try_batch_is_there(struct dlock_client *client)
{
    const struct dlock_backend_ops *ops = &client->plugin->ops;

    return ops->trylock_batch != NULL && ops->unlock_batch != NULL &&
           !dl_client_has(client, DLOCK_CAP_SESSION);
}

/* Fills the exchange with the attempts that can be sent. */
static void exchange_fill(struct exchange *exchange, struct dl_acquire *const *attempts, size_t n,
                          int64_t sent_ns)
{
    exchange->n = 0;
    for (size_t i = 0; i < n; i++) {
        struct dlock_batch_op *op = &exchange->elements[exchange->n];
        enum dlock_status status = dl_acquire_steps_request(attempts[i], sent_ns);

        if (status != DLOCK_OK) {
            dl_acquire_steps_no_session(attempts[i], status);
            continue;
        }
        op->req = &attempts[i]->lock->claim->req;
        op->err = attempts[i]->err;
        exchange->ops[exchange->n] = op;
        exchange->attempts[exchange->n++] = attempts[i];
    }
}

static int64_t session_until(struct dl_acquire *const *attempts, size_t n)
{
    int64_t until_ns = DL_NEVER;

    for (size_t i = 0; i < n; i++) {
        (void)dl_acquire_steps_now(attempts[i]);
        until_ns = dl_earlier(until_ns, dl_acquire_steps_session_until(attempts[i]));
    }
    return until_ns;
}

static void no_session(struct dl_acquire *const *attempts, size_t n, enum dlock_status status,
                       const struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        *attempts[i]->err = *err;
        dl_acquire_steps_no_session(attempts[i], status);
    }
}

bool dl_try_batch_begin(struct dl_try_batch *batch, struct dl_acquire *const *attempts, size_t n)
{
    struct dlock_client *client = attempts[0]->lock->client;
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = dl_session_pool_take(
        &client->pool, DL_USE_ACQUIRE, session_until(attempts, n), &batch->session, &err);

    if (status != DLOCK_OK)
        no_session(attempts, n, status, &err);
    batch->sent_ns = dl_client_now(client);
    return status == DLOCK_OK;
}

void dl_try_batch_send(struct dl_try_batch *batch, struct dl_acquire *const *attempts, size_t n)
{
    struct dlock_client *client = attempts[0]->lock->client;
    struct dl_session *session = batch->session;
    struct exchange exchange;

    exchange_fill(&exchange, attempts, n, batch->sent_ns);
    if (exchange.n > 0)
        dl_dispatch_trylock_batch(client->plugin, session->self, session->caps, exchange.ops,
                                  exchange.n);
    dl_session_pool_put(&client->pool, DL_USE_ACQUIRE, session,
                        dl_claim_batch_worst(exchange.ops, exchange.n));
    for (size_t i = 0; i < exchange.n; i++)
        dl_acquire_steps_tried(exchange.attempts[i], batch->sent_ns, exchange.elements[i].status,
                               &exchange.elements[i].grant);
}
