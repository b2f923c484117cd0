/* SPDX-License-Identifier: MIT */
#include "async/driver.h"
#include "async/batch.h"
#include "hold/held.h"
#include "hold/run_queue.h"
#include "session/dispatch.h"
#include "sys/error.h"
#include "sys/own_thread.h"

#include <stdlib.h>

enum dlock_status dl_driver_reach(struct dlock_client *client, struct dlock_error *err)
{
    const struct dl_settings *settings = &client->store->settings;
    int64_t most_ms = settings->connect_timeout_ms;
    struct dl_session *session;
    enum dlock_status status;

    if (settings->lazy)
        return DLOCK_OK;
    if (settings->wait_ms > 0 && settings->wait_ms < most_ms)
        most_ms = settings->wait_ms;
    status = dl_session_pool_take(&client->pool, DL_USE_HOLDER,
                                  dl_clock_after_ms(dl_client_now(client), most_ms), &session, err);
    if (status == DLOCK_OK)
        dl_session_pool_put(&client->pool, DL_USE_HOLDER, session, DLOCK_OK);
    return status;
}

/* Makes room for OPENED; a thread of the driver has to call opening_run_locked. A call of the
 * client is in progress until then. */
static enum dlock_status opening_begin_locked(struct dlock_client *client, struct dlock_error *err)
{
    client->opening = calloc(1, sizeof *client->opening);
    if (client->opening == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for a notice");
    client->opening->opened.kind = DLOCK_NOTICE_OPENED;
    client->calls++;
    return DLOCK_OK;
}

/* Reaches the store, and queues OPENED. Releases the mutex meanwhile. Nothing was begun: nothing.
 */
static void opening_run_locked(struct dlock_client *client)
{
    struct dl_opening *opening = client->opening;

    if (opening == NULL)
        return;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_error_begin(&opening->error, NULL);
    opening->status = dl_driver_reach(client, &opening->error);
    (void)pthread_mutex_lock(&client->mutex);
    dl_events_push(&client->events, &opening->opened);
    client->calls--;
    if (client->shutdown)
        (void)pthread_cond_broadcast(&client->call_ended);
}

void dl_driver_opened_locked(const struct dlock_client *client, struct dlock_notice *notice)
{
    notice->kind = DLOCK_NOTICE_OPENED;
    notice->status =
        dl_error_export(&notice->error, &client->opening->error, client->opening->status);
}

/*
 * Waiting in the store for all attempts on which no thread waits: by the slot wait_any, where the
 * plugin has it. One thread at a time calls it.
 */

#define WAIT_ANY_ROOM 64

/* Attempts for which another try is worth it. */
struct wait_any_news {
    uint32_t waiters[WAIT_ANY_ROOM];
    size_t count;
};

/* One call lasts so long at most, and one in a session that is lent: others may wait for it. */
#define CALL_MOST_NS (60 * DL_NS_PER_S)
#define LENT_MOST_NS DL_NS_PER_S

/* After a failure the attempts are polled for this time. */
#define BLIND_NS (500 * DL_NS_PER_MS)

/* No session could be lent: one comes back soon. */
#define SPENT_NS (20 * DL_NS_PER_MS)

struct watch {
    const struct dl_plugin *plugin;
    void *self;
};

/* Whether the plugin of the client has the slot, and can watch. */
static bool wait_any_is_there(struct dlock_client *client)
{
    return client->plugin->ops.wait_any != NULL && dl_client_has(client, DLOCK_CAP_WATCH);
}

static int64_t most_ns(const struct dlock_client *client)
{
    return dl_client_has(client, DLOCK_CAP_CONCURRENT) ? CALL_MOST_NS : LENT_MOST_NS;
}

static void watch_rouse(void *arg)
{
    const struct watch *watch = arg;

    dl_dispatch_interrupt(watch->plugin, watch->self, NULL);
}

static enum dlock_status watch_call_locked(struct dlock_client *client, struct dl_session *session,
                                           int64_t until_ns, struct wait_any_news *news)
{
    struct dl_run_queue *queue = client->run_queue;
    struct watch watch = {client->plugin, session->self};
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status;

    queue->rouse = watch_rouse;
    queue->rouse_arg = &watch;
    queue->asleep[0] = true;
    (void)pthread_mutex_unlock(&client->mutex);
    status = dl_dispatch_wait_any(client->plugin, session->self, news->waiters, &news->count,
                                  until_ns, &err);
    (void)pthread_mutex_lock(&client->mutex);
    queue->asleep[0] = false;
    queue->rouse = NULL;
    dl_session_pool_put(&client->pool, DL_USE_WAIT, session, DLOCK_OK); /* [WAT-1] */
    return status;
}

/*
 * Waits until until_ns, until the store has news, or until the first thread is roused. Releases the
 * mutex meanwhile. false: did not wait: no attempt wants it, or the store cannot tell now.
 */
static bool wait_any_locked(struct dlock_client *client, int64_t until_ns, int64_t now_ns,
                            struct wait_any_news *news)
{
    struct dl_run_queue *queue = client->run_queue;
    struct dl_session *session;
    enum dlock_status status;

    if (queue->watching == 0 || now_ns < queue->blind_ns || !wait_any_is_there(client))
        return false;
    session = dl_session_pool_take_idle(&client->pool, DL_USE_WAIT);
    if (session == NULL) {
        queue->blind_ns = now_ns + SPENT_NS;
        return false;
    }
    news->count = WAIT_ANY_ROOM;
    status =
        watch_call_locked(client, session, dl_earlier(until_ns, now_ns + most_ns(client)), news);
    queue->asked_ns = dl_client_now(client);
    if (status == DLOCK_OK)
        return true;
    news->count = 0;
    if (status != DLOCK_TIMEOUT && status != DLOCK_CANCELED)
        queue->blind_ns = queue->asked_ns + BLIND_NS;
    return true;
}

/* The second thread helps when the first one has been busy for this time. */
#define HELP_AFTER_NS (5 * DL_NS_PER_MS)

/* What the store has to tell is asked for at least so often while operations are ready. */
#define NEWS_EVERY_NS DL_NS_PER_MS

/* How long the second thread sleeps before it helps: INT64_MIN: it helps now. */
static int64_t idle_until_locked(const struct dl_run_queue *queue, int64_t now_ns)
{
    int64_t at_ns;

    if (queue->busy_since_ns == 0)
        return DL_NEVER;
    at_ns = queue->busy_since_ns + HELP_AFTER_NS;
    return at_ns > now_ns ? at_ns : INT64_MIN;
}

static int64_t next_ns(const struct dl_run_queue *queue)
{
    const struct dl_due *due = dl_schedule_first(&queue->waiting);

    return due == NULL ? DL_NEVER : due->at_ns;
}

/* A store that could not tell is asked again. */
static int64_t idle_first_until_locked(const struct dl_run_queue *queue, int64_t now_ns)
{
    bool asks_again = queue->watching > 0 && queue->blind_ns > now_ns;

    return asks_again ? dl_earlier(next_ns(queue), queue->blind_ns) : next_ns(queue);
}

static void thread_sleep_locked(struct dlock_client *client, unsigned self, int64_t until_ns)
{
    struct dl_run_queue *queue = client->run_queue;

    queue->asleep[self] = self == 0 || until_ns == DL_NEVER;
    dl_clock_wait(&queue->work[self], &client->mutex, &client->host.clock, until_ns);
    queue->asleep[self] = false;
}

static void helper_wake_locked(struct dl_run_queue *queue)
{
    if (!queue->asleep[1])
        return;
    queue->asleep[1] = false;
    (void)pthread_cond_broadcast(&queue->work[1]);
}

static void news_take_locked(struct dlock_client *client, const struct wait_any_news *news)
{
    int64_t now_ns = dl_client_now(client);

    for (size_t i = 0; i < news->count; i++) {
        struct dl_run_node *node = dl_run_queue_numbered(client->run_queue, news->waiters[i]);
        struct dl_op *op = node == NULL ? NULL : dl_op_of(node);

        if (op == NULL || !op->base.in_progress || !dl_op_is_acquire(op))
            continue;
        op->acquire.news = true;
        dl_run_queue_wake_locked(client->run_queue, node, now_ns);
    }
}

/* Waits in the store until until_ns or until it is woken; false: there is nothing to wait for, or
 * the store cannot. */
static bool watch_locked(struct dlock_client *client, int64_t until_ns, int64_t now_ns)
{
    struct wait_any_news news;

    if (!wait_any_locked(client, until_ns, now_ns, &news))
        return false;
    news_take_locked(client, &news);
    return true;
}

static void first_main(struct dlock_client *client)
{
    struct dl_run_queue *queue = client->run_queue;

    (void)pthread_mutex_lock(&client->mutex);
    queue->busy_since_ns = dl_client_now(client);
    opening_run_locked(client);
    queue->busy_since_ns = 0;
    for (;;) {
        int64_t now_ns = dl_client_now(client);
        struct dl_run_node *node;

        if (now_ns - queue->asked_ns > NEWS_EVERY_NS && dl_run_queue_has_work(queue, now_ns))
            (void)watch_locked(client, now_ns, now_ns);
        node = dl_run_queue_take_locked(queue, now_ns);

        if (node != NULL) {
            queue->busy_since_ns = now_ns;
            if (next_ns(queue) != DL_NEVER || dl_run_queue_has_work(queue, now_ns))
                helper_wake_locked(queue);
            dl_batch_run_locked(client, 0, node, now_ns);
            queue->busy_since_ns = 0;
        } else if (queue->stop) {
            break;
        } else if (!watch_locked(client, next_ns(queue), now_ns)) {
            thread_sleep_locked(client, 0, idle_first_until_locked(queue, now_ns));
        }
    }
    (void)pthread_mutex_unlock(&client->mutex);
}

static void helper_main(struct dlock_client *client)
{
    struct dl_run_queue *queue = client->run_queue;

    (void)pthread_mutex_lock(&client->mutex);
    while (!queue->stop) {
        int64_t now_ns = dl_client_now(client);
        int64_t until_ns = idle_until_locked(queue, now_ns);
        struct dl_run_node *node;

        if (until_ns != INT64_MIN) {
            thread_sleep_locked(client, 1, until_ns);
            continue;
        }
        node = dl_run_queue_take_locked(queue, now_ns);
        if (node != NULL)
            dl_batch_run_locked(client, 1, node, now_ns);
        else
            thread_sleep_locked(client, 1, dl_earlier(next_ns(queue), now_ns + HELP_AFTER_NS));
    }
    (void)pthread_mutex_unlock(&client->mutex);
}

static void *first_run(void *arg)
{
    dl_own_thread_nice();
    first_main(arg);
    return NULL;
}

static void *helper_run(void *arg)
{
    dl_own_thread_nice();
    helper_main(arg);
    return NULL;
}

static enum dlock_status threads_start_locked(struct dlock_client *client, struct dlock_error *err)
{
    struct dl_run_queue *queue = client->run_queue;

    if (queue == NULL) {
        queue = dl_run_queue_new();
        client->run_queue = queue;
    }
    if (queue == NULL)
        return dl_error(err, DLOCK_NOMEM, "no memory for the driver");
    while (queue->threads < DL_RUN_THREADS) {
        if (queue->room[queue->threads] == NULL)
            queue->room[queue->threads] = dl_batch_room_new();
        if (queue->room[queue->threads] == NULL)
            return dl_error(err, DLOCK_NOMEM, "no memory for the driver");
        if (dl_own_thread_start(&queue->thread[queue->threads],
                                queue->threads == 0 ? first_run : helper_run, client) != 0)
            return dl_error(err, DLOCK_NOMEM, "cannot start a thread of the driver");
        queue->threads++;
    }
    return DLOCK_OK;
}

static enum dlock_status op_make_locked(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dl_op *op;

    if (lock->operation != NULL)
        return DLOCK_OK;
    op = calloc(1, sizeof *op);
    if (op == NULL || !dl_schedule_reserve(&lock->client->run_queue->waiting)) {
        free(op);
        return dl_error(err, DLOCK_NOMEM, "no memory for an operation");
    }
    op->base.lock = lock;
    op->base.done.kind = DLOCK_NOTICE_DONE;
    op->base.doubt.kind = DLOCK_NOTICE_DOUBTFUL;
    lock->operation = &op->base;
    return DLOCK_OK;
}

/* A client that was opened before its store learns only later whether the plugin has wait_any. */
static enum dlock_status number_give_locked(struct dl_op *op, struct dlock_error *err)
{
    struct dlock_client *client = op->base.lock->client;

    if (op->base.run.number != 0 || !wait_any_is_there(client) ||
        dl_run_queue_number_locked(client->run_queue, &op->base.run))
        return DLOCK_OK;
    return dl_error(err, DLOCK_NOMEM, "no memory for an operation");
}

/* *ended: the operation has ended with OK: a recursive handle was counted. */
static enum dlock_status op_begin_locked(struct dl_op *op, enum dlock_op what, int64_t timeout_ms,
                                         bool *ended, struct dlock_error *err)
{
    struct dlock_handle *lock = op->base.lock;
    enum dlock_mode mode = what == DLOCK_OP_RDLOCK ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    enum dlock_status status;

    *ended = false;
    if (!dl_operation_acquires(what))
        return lock->phase != DL_PHASE_ACQUIRING
                   ? DLOCK_OK
                   : dl_error(err, DLOCK_ALREADY, "another thread is acquiring with this handle");
    status = dl_held_again_locked(lock, mode, err);
    *ended = status == DLOCK_OK;
    if (status == DLOCK_NOT_HELD)
        status = dl_acquire_async_begin_locked(&op->acquire, lock, mode, timeout_ms,
                                               op->base.run.number, err);
    return status;
}

static enum dlock_status start_locked(struct dlock_handle *lock, enum dlock_op what,
                                      int64_t timeout_ms, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dl_op *op;
    enum dlock_status status;
    bool ended;

    if (client->closed)
        return dl_error(err, DLOCK_CLOSED, "the client is closed");
    status = dl_operation_bars_locked(lock->operation, err);
    if (status == DLOCK_OK)
        status = threads_start_locked(client, err);
    if (status == DLOCK_OK)
        status = op_make_locked(lock, err);
    if (status != DLOCK_OK)
        return status;
    op = (struct dl_op *)(void *)lock->operation;
    if (dl_operation_acquires(what))
        status = number_give_locked(op, err);
    if (status == DLOCK_OK)
        status = op_begin_locked(op, what, timeout_ms, &ended, err);
    if (status != DLOCK_OK)
        return status;
    op->base.op = (uint8_t)what;
    op->base.in_progress = true;
    op->base.run.urgent = !dl_operation_acquires(what);
    client->calls++;
    if (ended)
        dl_op_end_locked(op, DLOCK_OK, err);
    else
        dl_run_queue_wake_locked(client->run_queue, &op->base.run, dl_client_now(client));
    return DLOCK_OK;
}

enum dlock_status dl_driver_start(struct dlock_handle *lock, enum dlock_op op, int64_t timeout_ms,
                                  struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status;

    if (client->on_lost != NULL)
        return dl_error(err, DLOCK_INVALID,
                        "a client with on_lost has no notices: dlock_op_start needs them");
    (void)pthread_mutex_lock(&client->mutex);
    status = start_locked(lock, op, timeout_ms, err);
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

/* The threads do not run before the mutex is free. */
enum dlock_status dl_driver_open(struct dlock_client *client, struct dlock_error *err)
{
    enum dlock_status status;

    (void)pthread_mutex_lock(&client->mutex);
    status = threads_start_locked(client, err);
    if (status == DLOCK_OK)
        status = opening_begin_locked(client, err);
    (void)pthread_mutex_unlock(&client->mutex);
    if (status != DLOCK_OK)
        dl_driver_stop(client);
    return status;
}

void dl_driver_stop(struct dlock_client *client)
{
    struct dl_run_queue *queue = client->run_queue;

    if (queue == NULL)
        return;
    (void)pthread_mutex_lock(&client->mutex);
    queue->stop = true;
    dl_run_queue_rouse_locked(queue);
    for (unsigned i = 0; i < DL_RUN_THREADS; i++)
        (void)pthread_cond_broadcast(&queue->work[i]);
    (void)pthread_mutex_unlock(&client->mutex);
    while (queue->threads > 0)
        (void)pthread_join(queue->thread[--queue->threads], NULL);
}
