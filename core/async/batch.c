/* SPDX-License-Identifier: MIT */
#include "async/batch.h"
#include "acquire/try_batch.h"
#include "hold/unlock.h"
#include "session/dispatch.h"
#include "sys/error.h"

#include <stdlib.h>

/* What a thread needs for the operations that it runs together. */
struct batch {
    struct dlock_client *client;
    int64_t begun_ns;
    size_t n;
    struct dl_op *ops[DL_BATCH_MOST];
    enum dl_acquire_async_next next[DL_BATCH_MOST]; /* of acquires */
    enum dlock_status status[DL_BATCH_MOST];
    struct dlock_error errors[DL_BATCH_MOST];
    uint32_t servers[DL_BATCH_MOST];
    struct dl_unlock unlocks[DL_BATCH_MOST];
    bool ended[DL_BATCH_MOST]; /* of unlocks: DONE is queued */
};

/* ---- collecting ---- */

/* Which server of the store has the name of each operation. Without the mutex. */
static void servers_find(struct batch *batch)
{
    struct dlock_client *client = batch->client;
    struct dl_session *session = dl_session_pool_take_idle(&client->pool, DL_USE_HOLDER);

    for (size_t i = 0; i < batch->n; i++) {
        const struct dl_name_state *name = batch->ops[i]->base.lock->name;

        batch->servers[i] = session == NULL ? 0
                                            : dl_dispatch_server_of(client->plugin, session->self,
                                                                    name->bytes, name->len) %
                                                  DL_RUN_SERVERS;
    }
    if (session != NULL)
        dl_session_pool_put(&client->pool, DL_USE_HOLDER, session, DLOCK_OK);
}

static void servers_find_locked(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        batch->servers[i] = 0;
    if (batch->client->plugin->ops.server_of == NULL)
        return;
    (void)pthread_mutex_unlock(&batch->client->mutex);
    servers_find(batch);
    (void)pthread_mutex_lock(&batch->client->mutex);
}

static bool is_stalled_locked(const struct batch *batch, size_t i)
{
    return batch->ops[i]->base.run.due.at_ns <
           batch->client->run_queue->stalled_ns[batch->servers[i]];
}

/* Whether the unlock waits for nothing, and makes no exchange but that of the release. */
static bool is_plain_locked(struct dlock_handle *lock)
{
    return !dl_unlock_waits_locked(lock) && !dl_unlock_withdraws_locked(lock);
}

/* Whether the operation may share an exchange. */
static bool is_sociable_locked(const struct dl_op *op)
{
    if (dl_op_is_acquire(op))
        return !op->acquire.alone;
    return op->base.op == DLOCK_OP_UNLOCK && is_plain_locked(op->base.lock);
}

/* Keeps those of the operations that go together with the first one; the others are ready again. */
static void sieve_locked(struct batch *batch)
{
    bool alone = is_stalled_locked(batch, 0);
    size_t kept = 1;

    for (size_t i = batch->n; i > 1; i--) {
        struct dl_op *op = batch->ops[i - 1];

        if (!alone && batch->servers[i - 1] == batch->servers[0] &&
            !is_stalled_locked(batch, i - 1))
            continue;
        dl_run_queue_put_back_locked(batch->client->run_queue, &op->base.run);
        batch->ops[i - 1] = NULL;
    }
    for (size_t i = 1; i < batch->n; i++)
        if (batch->ops[i] != NULL)
            batch->ops[kept++] = batch->ops[i];
    batch->n = kept;
}

/* Takes the operations that are ready and of the same kind as the first one. */
static void collect_locked(struct batch *batch, struct dl_run_node *first)
{
    struct dl_run_queue *queue = batch->client->run_queue;
    bool shares = dl_unlock_batch_is_there(batch->client) && is_sociable_locked(dl_op_of(first));
    struct dl_run_node *node = NULL;

    batch->ops[0] = dl_op_of(first);
    batch->n = 1;
    while (shares && batch->n < DL_BATCH_MOST) {
        node = dl_run_queue_next(queue, first);
        if (node == NULL || !is_sociable_locked(dl_op_of(node)))
            break;
        dl_run_queue_take_next_locked(queue, node);
        batch->ops[batch->n++] = dl_op_of(node);
    }
    servers_find_locked(batch);
    sieve_locked(batch);
}

/* ---- acquires ---- */

/* Goes on with each attempt until it ends, waits, or has an exchange to make. */
static void prepare(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        batch->next[i] =
            dl_acquire_async_prepare(&batch->ops[i]->acquire, &batch->status[i], &batch->errors[i]);
}

/* The deadline of an attempt's request that is sent at sent_ns. */
static int64_t answer_until(const struct batch *batch, size_t i, int64_t sent_ns)
{
    return dl_acquire_fsm_answer_until(&batch->ops[i]->acquire.a.attempt, sent_ns);
}

static bool is_near_first(const struct batch *batch, size_t i, int64_t sent_ns)
{
    return dl_unlock_batch_is_close(answer_until(batch, 0, sent_ns),
                                    answer_until(batch, i, sent_ns));
}

static void stall_note_locked(struct batch *batch, const struct dl_op *op, uint32_t server)
{
    int64_t *stalled_ns = &batch->client->run_queue->stalled_ns[server];

    /* The mutex was not free since the operation ended: the handle is there. */
    if (dl_op_is_stall(op, batch->begun_ns, dl_client_now(batch->client)))
        *stalled_ns = dl_later(*stalled_ns, batch->begun_ns);
}

/* Puts an attempt back that has an exchange to make. tried: after the exchange of the batch, whose
 * stall does not count for it. */
static void put_back_locked(struct batch *batch, size_t i, bool tried)
{
    batch->ops[i]->acquire.alone = batch->next[i] == DL_ACQUIRE_ASYNC_TALKS;
    dl_run_queue_put_back_locked(batch->client->run_queue, &batch->ops[i]->base.run);
    if (tried)
        batch->ops[i]->base.run.due.at_ns = dl_client_now(batch->client);
}

/* What follows from prepare. may_try: the attempts that have to try stay in the batch, if their
 * deadlines are close. */
static void settle_locked(struct batch *batch, bool may_try)
{
    size_t kept = 0;

    dl_events_hold(&batch->client->events);
    for (size_t i = 0; i < batch->n; i++) {
        struct dl_op *op = batch->ops[i];

        if (batch->next[i] == DL_ACQUIRE_ASYNC_TRIES && may_try &&
            (kept == 0 || is_near_first(batch, i, batch->begun_ns))) {
            batch->servers[kept] = batch->servers[i];
            batch->ops[kept++] = op;
            continue;
        }
        if (batch->next[i] == DL_ACQUIRE_ASYNC_ENDED)
            dl_op_acquire_ended_locked(op, batch->status[i], &batch->errors[i]);
        else if (batch->next[i] == DL_ACQUIRE_ASYNC_WAITS)
            dl_op_acquire_waits_locked(op);
        else
            put_back_locked(batch, i, !may_try);
        if (!may_try)
            stall_note_locked(batch, op, batch->servers[i]);
    }
    dl_events_let_go(&batch->client->events);
    batch->n = kept;
}

/* Puts back the attempts whose deadlines are not close to that of the first one any more, now that
 * there is a session. */
static void far_put_back(struct batch *batch, int64_t sent_ns)
{
    struct dl_run_queue *queue = batch->client->run_queue;
    size_t kept = 1;

    for (size_t i = 1; i < batch->n; i++) {
        if (is_near_first(batch, i, sent_ns)) {
            batch->servers[kept] = batch->servers[i];
            batch->ops[kept++] = batch->ops[i];
            continue;
        }
        (void)pthread_mutex_lock(&batch->client->mutex);
        dl_run_queue_put_back_locked(queue, &batch->ops[i]->base.run);
        (void)pthread_mutex_unlock(&batch->client->mutex);
    }
    batch->n = kept;
}

/* Sets the attempts of the batch, with room for their errors. */
static void tries_list(struct batch *batch, struct dl_acquire **tries)
{
    for (size_t i = 0; i < batch->n; i++) {
        batch->errors[i] = (struct dlock_error)DLOCK_ERROR_INIT;
        tries[i] = &batch->ops[i]->acquire.a;
        tries[i]->err = &batch->errors[i];
    }
}

static void tries_send(struct batch *batch)
{
    struct dl_acquire *tries[DL_BATCH_MOST];
    struct dl_try_batch exchange;

    tries_list(batch, tries);
    if (!dl_try_batch_begin(&exchange, tries, batch->n))
        return;
    far_put_back(batch, exchange.sent_ns);
    tries_list(batch, tries);
    dl_try_batch_send(&exchange, tries, batch->n);
}

static void acquires_run_locked(struct batch *batch)
{
    struct dlock_client *client = batch->client;

    (void)pthread_mutex_unlock(&client->mutex);
    prepare(batch);
    (void)pthread_mutex_lock(&client->mutex);
    settle_locked(batch, true);
    if (batch->n == 0)
        return;
    (void)pthread_mutex_unlock(&client->mutex);
    tries_send(batch);
    prepare(batch);
    (void)pthread_mutex_lock(&client->mutex);
    settle_locked(batch, false);
}

/* ---- unlocks ---- */

static void unlock_end_locked(struct batch *batch, size_t i)
{
    enum dlock_status status = dl_unlock_end_locked(&batch->unlocks[i]);

    batch->ended[i] = true;
    dl_op_end_locked(batch->ops[i], status, &batch->errors[i]);
    stall_note_locked(batch, batch->ops[i], batch->servers[i]);
}

static int64_t unlock_ns(const struct batch *batch, size_t i)
{
    return dl_handle_op_timeout_ms(batch->ops[i]->base.lock) * DL_NS_PER_MS;
}

/* Begins the unlocks. An unlock is put back if it is not plain, or if the exchange of the first
 * unlock may last beyond its own deadline. */
static void unlocks_begin_locked(struct batch *batch)
{
    for (size_t i = batch->n; i > 0; i--) {
        struct dl_op *op = batch->ops[i - 1];

        batch->ended[i - 1] =
            !is_plain_locked(op->base.lock) ||
            !dl_unlock_batch_is_close(unlock_ns(batch, 0), unlock_ns(batch, i - 1));
        if (batch->ended[i - 1])
            dl_run_queue_put_back_locked(batch->client->run_queue, &op->base.run);
    }
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->ended[i])
            continue;
        dl_op_perform_locked(batch->ops[i]);
        dl_unlock_begin_locked(&batch->unlocks[i], batch->ops[i]->base.lock, false, DL_NEVER,
                               &batch->errors[i]);
        if (batch->unlocks[i].ending == DL_UNLOCK_NOTHING)
            unlock_end_locked(batch, i);
    }
}

/* Whether the i-th release is at this step. */
static bool is_at(const struct batch *batch, size_t i, enum dl_release_fsm_step step)
{
    return !batch->ended[i] && dl_unlock_is_release(&batch->unlocks[i]) &&
           batch->unlocks[i].release.fsm.step == step;
}

/* Sends the releases whose deadlines are close to that of the first of them. false: there is none
 * to be sent. */
static bool releases_send(struct batch *batch)
{
    struct dl_unlock *unlocks[DL_BATCH_MOST];
    struct dl_release *releases[DL_BATCH_MOST];
    size_t n = 0;

    for (size_t i = 0; i < batch->n; i++) {
        if (!is_at(batch, i, DL_RELEASE_SEND) ||
            (n > 0 &&
             !dl_unlock_batch_is_close(unlocks[0]->deadline_ns, batch->unlocks[i].deadline_ns)))
            continue;
        unlocks[n] = &batch->unlocks[i];
        releases[n++] = &batch->unlocks[i].release;
    }
    if (n > 0)
        dl_unlock_batch_send(releases, n);
    for (size_t i = 0; i < n; i++)
        if (releases[i]->fsm.step == DL_RELEASE_DONE) {
            unlocks[i]->status = releases[i]->fsm.result;
            dl_unlock_released(unlocks[i]);
        }
    return n > 0;
}

/* Whether the i-th unlock has no release to be sent. */
static bool is_other(const struct batch *batch, size_t i)
{
    return !batch->ended[i] && !dl_unlock_is_release(&batch->unlocks[i]);
}

/* Ends the unlocks that have nothing left to do. */
static void unlocks_end(struct batch *batch)
{
    (void)pthread_mutex_lock(&batch->client->mutex);
    dl_events_hold(&batch->client->events);
    for (size_t i = 0; i < batch->n; i++)
        if (is_other(batch, i) || is_at(batch, i, DL_RELEASE_DONE))
            unlock_end_locked(batch, i);
    dl_events_let_go(&batch->client->events);
    (void)pthread_mutex_unlock(&batch->client->mutex);
}

/* Hand-offs and losses do not wait for the releases. */
static void others_run(struct batch *batch)
{
    bool some = false;

    for (size_t i = 0; i < batch->n; i++) {
        if (!is_other(batch, i))
            continue;
        dl_unlock_rest(&batch->unlocks[i]);
        some = true;
    }
    if (some)
        unlocks_end(batch);
}

/* One pause for all releases that are to be repeated. false: there is none. */
static bool releases_pause(struct batch *batch)
{
    bool pauses = false;

    for (size_t i = 0; i < batch->n; i++) {
        if (!is_at(batch, i, DL_RELEASE_PAUSE))
            continue;
        if (!pauses)
            dl_clock_pause(DL_RELEASE_PAUSE_NS);
        pauses = true;
        dl_release_fsm_paused(&batch->unlocks[i].release.fsm, dl_client_now(batch->client));
        if (batch->unlocks[i].release.fsm.step == DL_RELEASE_DONE) {
            batch->unlocks[i].status = batch->unlocks[i].release.fsm.result;
            dl_unlock_released(&batch->unlocks[i]);
        }
    }
    return pauses;
}

static void unlocks_run_locked(struct batch *batch)
{
    struct dlock_client *client = batch->client;

    unlocks_begin_locked(batch);
    (void)pthread_mutex_unlock(&client->mutex);
    others_run(batch);
    while (releases_send(batch) || releases_pause(batch))
        unlocks_end(batch);
    (void)pthread_mutex_lock(&client->mutex);
}

/* ---- one operation, or many ---- */

static void alone_run_locked(struct batch *batch)
{
    struct dl_op *op = batch->ops[0];
    uint32_t server = batch->servers[0];

    dl_op_run_locked(op, is_stalled_locked(batch, 0));
    stall_note_locked(batch, op, server);
}

static void errors_reset(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        batch->errors[i] = (struct dlock_error)DLOCK_ERROR_INIT;
}

void dl_batch_run_locked(struct dlock_client *client, unsigned self, struct dl_run_node *first,
                         int64_t now_ns)
{
    struct batch *batch = client->run_queue->room[self];

    batch->client = client;
    batch->begun_ns = now_ns;
    collect_locked(batch, first);
    errors_reset(batch);
    if (batch->n == 1)
        alone_run_locked(batch);
    else if (dl_op_is_acquire(batch->ops[0]))
        acquires_run_locked(batch);
    else
        unlocks_run_locked(batch);
}

void *dl_batch_room_new(void)
{
    return calloc(1, sizeof(struct batch));
}
