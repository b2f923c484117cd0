/* SPDX-License-Identifier: MIT */
#include "lib/time.h"
#include "queue.h"
#include "session.h"

/* [WAT-4] needs no comparison with the last QUEUED answer here: the store itself is read, and the
 * token of a holder is not in the queue. [INT-2] */
static bool is_granted(const struct memory_waiter *waiter, const struct memory_entry *entry,
                       int64_t now_ns)
{
    if (entry == NULL || entry->fence == 0 || entry->expires_ns <= now_ns || !waiter->enqueued)
        return false;
    return !waiter->interrupted || entry->fence <= waiter->interrupt_fence;
}

/* When the next trylock may have another answer, if nobody acts before. */
static int64_t retry_at(const struct memory_waiter *waiter, const struct memory_name *name,
                        const struct memory_entry *entry, const struct dlock_request *req)
{
    int64_t free_ns = 0;

    if (name == NULL || (entry == NULL && waiter->enqueued) || (entry != NULL && entry->fence != 0))
        return 0;
    free_ns = memory_queue_blocked_until(name, req->mode, req->limit, entry);
    return entry == NULL || free_ns < entry->expires_ns ? free_ns : entry->expires_ns;
}

static enum dlock_status wait_for_name(const struct memory_session *session,
                                       const struct dlock_request *req, struct dlock_grant *grant)
{
    struct memory_store *store = session->store;
    const struct dlock_host *host = session->host;
    struct memory_waiter *waiter = req->attempt;

    for (;;) {
        struct memory_name *name = memory_store_find(store, req->name, req->name_len);
        struct memory_entry *entry = name == NULL ? NULL : memory_queue_find(name, req->token);
        int64_t now_ns = memory_store_now(store, host);
        int64_t wait_ns = retry_at(waiter, name, entry, req) - now_ns;
        int64_t left_ns = req->deadline_ns - host->now_ns(host->ctx);

        if (is_granted(waiter, entry, now_ns)) {
            memory_queue_describe(grant, name, entry, req->ttl_ms, now_ns);
            grant->lease_ms = entry->grant_ms; /* from the last QUEUED on */
            return DLOCK_OK;
        }
        if (waiter->interrupted)
            return DLOCK_CANCELED;
        if (wait_ns <= 0)
            return DLOCK_BUSY;
        if (left_ns <= 0)
            return DLOCK_TIMEOUT;
        if (!memory_waiter_sleep(waiter, &name->waiters, req->token, &store->mutex,
                                 left_ns < wait_ns ? left_ns : wait_ns))
            return DLOCK_UNAVAILABLE;
    }
}

enum dlock_status memory_watch_name(const struct memory_session *session,
                                    const struct dlock_request *req, struct dlock_grant *grant)
{
    enum dlock_status status = wait_for_name(session, req, grant);
    struct memory_name *name = memory_store_find(session->store, req->name, req->name_len);

    if (name != NULL) /* this waiter may have been the last thing that kept it */
        memory_store_tidy(session->store, name);
    return status;
}

void memory_watch_end(const struct memory_session *session, const struct dlock_request *req)
{
    struct memory_name *name = memory_store_find(session->store, req->name, req->name_len);

    if (name == NULL)
        return;
    memory_waiter_unlist(req->attempt, &name->waiters);
    memory_store_tidy(session->store, name);
}

enum dlock_status memory_watch_any(void *self, uint32_t *waiters, size_t *count,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    struct memory_session *session = self;
    const struct dlock_host *host = session->host;
    struct memory_pending *pending = &session->pending;
    size_t room = *count;
    bool interrupted;

    (void)pthread_mutex_lock(&session->store->mutex);
    for (;;) {
        int64_t left_ns = deadline_ns - host->now_ns(host->ctx);

        interrupted = pending->interrupted;
        pending->interrupted = false;
        *count = memory_waiter_pending_take(pending, waiters, room);
        if (*count > 0 || interrupted || left_ns <= 0)
            break;
        dl_deadline_cond_wait(&pending->wake, &session->store->mutex, left_ns);
    }
    (void)pthread_mutex_unlock(&session->store->mutex);
    if (*count > 0)
        return DLOCK_OK;
    return dlock_fail(err, MEMORY_ORIGIN, interrupted ? DLOCK_CANCELED : DLOCK_TIMEOUT, 0,
                      "the watch ended before a name was free");
}
