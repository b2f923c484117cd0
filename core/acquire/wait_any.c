/* SPDX-License-Identifier: MIT */
#include "acquire/wait_any.h"
#include "hold/run_queue.h"
#include "session/dispatch.h"
#include "sys/error.h"

/* One call lasts so long at most. */
#define CALL_MOST_NS (60 * DL_NS_PER_S)

/* After a failure the attempts are polled for this time. */
#define BLIND_NS (500 * DL_NS_PER_MS)

struct watch {
    const struct dl_plugin *plugin;
    void *self;
};

bool dl_wait_any_is_there(struct dlock_client *client)
{
    return client->plugin->ops.wait_any != NULL && dl_client_has(client, DLOCK_CAP_WATCH) &&
           !dl_client_has(client, DLOCK_CAP_SESSION);
}

static void watch_rouse(void *arg)
{
    const struct watch *watch = arg;

    dl_dispatch_interrupt(watch->plugin, watch->self, NULL);
}

static enum dlock_status watch_call_locked(struct dlock_client *client, int64_t until_ns,
                                           struct dl_wait_any_news *news)
{
    struct dl_run_queue *queue = client->run_queue;
    struct watch watch = {client->plugin, queue->session->self};
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status;

    queue->rouse = watch_rouse;
    queue->rouse_arg = &watch;
    queue->asleep[0] = true;
    (void)pthread_mutex_unlock(&client->mutex);
    status = dl_dispatch_wait_any(client->plugin, watch.self, news->waiters, &news->count, until_ns,
                                  &err);
    (void)pthread_mutex_lock(&client->mutex);
    queue->asleep[0] = false;
    queue->rouse = NULL;
    return status;
}

/* A call that waits may open a session; the second thread helps if that lasts. */
static enum dlock_status session_take_locked(struct dlock_client *client, enum dl_use use,
                                             int64_t now_ns)
{
    struct dl_run_queue *queue = client->run_queue;
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;

    if (use == DL_USE_HOLDER) {
        queue->session = dl_session_pool_take_idle(&client->pool);
        return queue->session != NULL ? DLOCK_OK : DLOCK_TIMEOUT;
    }
    queue->busy_since_ns = now_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    status = dl_session_pool_take(&client->pool, use, DL_NEVER, &queue->session, &err);
    (void)pthread_mutex_lock(&client->mutex);
    queue->busy_since_ns = 0;
    if (status != DLOCK_OK)
        queue->session = NULL;
    return status;
}

/* UNAVAILABLE says that it cannot watch now [WAT-1], not that the session is broken. */
static bool is_intact_after(enum dlock_status status)
{
    return status == DLOCK_TIMEOUT || status == DLOCK_CANCELED || status == DLOCK_UNAVAILABLE;
}

static void session_put_locked(struct dlock_client *client, enum dl_use use,
                               enum dlock_status status)
{
    struct dl_session *session = client->run_queue->session;

    client->run_queue->session = NULL;
    (void)pthread_mutex_unlock(&client->mutex);
    dl_session_pool_put(&client->pool, use, session, is_intact_after(status) ? DLOCK_OK : status);
    (void)pthread_mutex_lock(&client->mutex);
}

/* Whether something has come up, while the mutex was free, that a wait until until_ns would delay.
 */
static bool is_wanted_locked(struct dlock_client *client, int64_t until_ns)
{
    const struct dl_run_queue *queue = client->run_queue;
    const struct dl_due *due = dl_schedule_first(&queue->waiting);

    return queue->stop || queue->watching == 0 || (due != NULL && due->at_ns < until_ns) ||
           queue->urgent.first != NULL || queue->others.first != NULL;
}

/* A session of a CONCURRENT plugin is not lent. A call that does not wait takes no session that it
 * would have to open. */
static enum dl_use use_of(struct dlock_client *client, bool waits)
{
    return waits && !dl_client_has(client, DLOCK_CAP_CONCURRENT) ? DL_USE_WAIT : DL_USE_HOLDER;
}

bool dl_wait_any_locked(struct dlock_client *client, int64_t until_ns, int64_t now_ns,
                        struct dl_wait_any_news *news)
{
    struct dl_run_queue *queue = client->run_queue;
    enum dl_use use = use_of(client, until_ns > now_ns);
    enum dlock_status status;

    news->count = 0;
    if (queue->watching == 0 || now_ns < queue->blind_ns || !dl_wait_any_is_there(client))
        return false;
    status = session_take_locked(client, use, now_ns);
    if (status == DLOCK_OK) {
        news->count = DL_WAIT_ANY_ROOM;
        if (is_wanted_locked(client, until_ns))
            until_ns = now_ns;
        status = watch_call_locked(client, dl_earlier(until_ns, now_ns + CALL_MOST_NS), news);
        session_put_locked(client, use, status);
    }
    queue->asked_ns = dl_client_now(client);
    if (status == DLOCK_OK)
        return true;
    news->count = 0;
    if (status != DLOCK_TIMEOUT && status != DLOCK_CANCELED)
        queue->blind_ns = queue->asked_ns + BLIND_NS;
    return true;
}
