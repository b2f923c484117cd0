/* SPDX-License-Identifier: MIT */
#include "acquire/try_batch.h"
#include "session/dispatch.h"

struct exchange {
    struct dl_acquire *attempts[DL_BATCH_MOST]; /* of the elements */
    struct dlock_batch_op elements[DL_BATCH_MOST];
    struct dlock_batch_op *ops[DL_BATCH_MOST];
    size_t n;
};

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

/* The thread in front of the line. */
struct leader {
    struct dl_try_batch batch;
    const struct dl_acquire *attempt;
};

static bool is_close(const void *request, const void *arg)
{
    const struct leader *leader = arg;
    const struct dl_acquire *attempt = request;
    int64_t sent_ns = leader->batch.sent_ns;

    return dl_unlock_batch_is_close(
        dl_acquire_fsm_answer_until(&attempt->attempt, sent_ns),
        dl_acquire_fsm_answer_until(&leader->attempt->attempt, sent_ns));
}

static struct dl_wait_fifo_waiter *lead(struct dl_acquire *attempt)
{
    struct dlock_client *client = attempt->lock->client;
    struct leader leader = {.attempt = attempt};
    struct dl_acquire *attempts[DL_BATCH_MOST] = {attempt};
    struct dl_wait_fifo_waiter *chain = NULL;
    size_t n = 1;

    (void)dl_acquire_steps_now(attempt);
    if (!dl_acquire_steps_session_take(attempt, &leader.batch.session))
        return NULL;
    leader.batch.sent_ns = dl_client_now(client);
    n += dl_wait_combine_take(&client->tries, is_close, &leader, (void **)(attempts + 1),
                              DL_BATCH_MOST - 1, &chain);
    if (n == 1)
        dl_acquire_steps_try(attempt, leader.batch.session);
    else
        dl_try_batch_send(&leader.batch, attempts, n);
    return chain;
}

/* What is wrong with the name may last, and is nothing to others. */
static bool has_trouble(const struct dl_acquire_fsm *attempt)
{
    return attempt->failures > 0 || attempt->uncertain;
}

bool dl_try_batch_step(struct dl_acquire *attempt)
{
    struct dlock_client *client = attempt->lock->client;
    unsigned parallelism = dl_client_parallelism(client);

    if (parallelism == 0 || attempt->waits_for_handoff || has_trouble(&attempt->attempt) ||
        (attempt->attempt.step != DL_STEP_TRY && attempt->attempt.step != DL_STEP_REFRESH))
        return false;
    if (dl_wait_combine_enter(&client->tries, parallelism, &client->host.clock, attempt,
                              dl_acquire_steps_session_until(attempt)))
        dl_wait_combine_end(&client->tries, parallelism, lead(attempt));
    return true;
}
