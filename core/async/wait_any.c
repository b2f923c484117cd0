/* SPDX-License-Identifier: MIT */
#include "async/wait_any.h"
#include "hold/run_queue.h"
#include "session/dispatch.h"
#include "sys/error.h"

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

bool dl_wait_any_is_there(struct dlock_client *client)
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
                                           int64_t until_ns, struct dl_wait_any_news *news)
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

bool dl_wait_any_locked(struct dlock_client *client, int64_t until_ns, int64_t now_ns,
                        struct dl_wait_any_news *news)
{
    struct dl_run_queue *queue = client->run_queue;
    struct dl_session *session;
    enum dlock_status status;

    if (queue->watching == 0 || now_ns < queue->blind_ns || !dl_wait_any_is_there(client))
        return false;
    session = dl_session_pool_take_idle(&client->pool, DL_USE_WAIT);
    if (session == NULL) {
        queue->blind_ns = now_ns + SPENT_NS;
        return false;
    }
    news->count = DL_WAIT_ANY_ROOM;
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
