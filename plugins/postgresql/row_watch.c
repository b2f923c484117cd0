/* SPDX-License-Identifier: MIT */
#include "row.h"

#include "query.h"
#include "row_listener.h"
#include "statements.h"

#include <unistd.h>

#define POLL_LEAST_NS (1 * DL_NS_PER_MS)
#define POLL_MOST_NS  (25 * DL_NS_PER_MS) /* of the first one in the queue */
#define POLL_SHARE    8                   /* of the time that it has waited */

/* OK (fills grant), or how the wait ends: CANCELED, BUSY. INTERNAL: it does not. */
static enum dlock_status verdict_locked(struct pg_waiter *waiter, struct dlock_grant *grant)
{
    if (waiter->fence > waiter->counter) {
        grant->fence = waiter->fence;
        grant->fence_room = PG_FENCE_STEP - 1;
        grant->lease_ms = waiter->lease_ms;
        grant->permit = waiter->permit;
        waiter->counter = waiter->fence; /* a grant is reported once */
        return DLOCK_OK;
    }
    if (waiter->base.interrupted)
        return DLOCK_CANCELED;
    if (waiter->unheard ? waiter->listener->listening : waiter->recheck)
        return DLOCK_BUSY;
    return DLOCK_INTERNAL;
}

/* INTERNAL: the wait goes on. BUSY: worth a trylock, because the entry is gone, or it is the first
 * one and the holder's time is over. */
static enum dlock_status poll_once(struct pg_session *session, const struct dlock_request *req,
                                   int64_t *ahead, struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    struct pg_params params = {.count = 0};
    PGresult *result = NULL;
    enum dlock_status status =
        pg_connection_enter(conn, pg_connection_extend(conn, req->deadline_ns), err);

    pg_params_bytes(&params, req->name, req->name_len);
    pg_params_bytes(&params, req->token, DLOCK_TOKEN_SIZE);
    if (status == DLOCK_OK)
        status = pg_statements_run(conn, PG_POLL, &params, 0, &result, err);
    if (status != DLOCK_OK)
        return status;
    status = DLOCK_BUSY;
    if (PQntuples(result) == 1 && PQgetisnull(result, 0, 0) == 0) {
        *ahead = pg_query_number(result, 0, 0);
        if (*ahead > 0 || pg_query_number(result, 0, 1) > 0)
            status = DLOCK_INTERNAL;
    }
    PQclear(result);
    return status;
}

static int64_t pause_of(const struct pg_waiter *waiter, int64_t ahead, int64_t now_ns)
{
    int64_t ns = (now_ns - waiter->since_ns) / POLL_SHARE;
    int64_t most_ns = POLL_MOST_NS * (1 + (ahead < 9 ? ahead : 9));

    if (ns < POLL_LEAST_NS)
        return POLL_LEAST_NS;
    return ns < most_ns ? ns : most_ns;
}

/* Nothing can be heard for some time: there is no connection, or the leader makes one. */
static bool must_poll_locked(const struct pg_listener *listener, int64_t now_ns)
{
    return !listener->listening && (now_ns < listener->retry_ns || listener->waiters.led);
}

static enum dlock_status watch_locked(struct pg_listener *listener, struct pg_session *session,
                                      const struct dlock_request *req, struct dlock_grant *grant,
                                      struct dlock_error *err)
{
    struct pg_connection *conn = &session->conn;
    struct pg_slot *slot = req->attempt;
    struct pg_waiter *waiter = slot->waiter;
    int64_t poll_ns = pg_connection_now(conn), ahead = 0;
    enum dlock_status status = DLOCK_INTERNAL;

    poll_ns += listener->waiters.led ? POLL_MOST_NS : POLL_LEAST_NS;
    while ((status = verdict_locked(waiter, grant)) == DLOCK_INTERNAL) {
        const int64_t now_ns = pg_connection_now(conn);
        int64_t until_ns = req->deadline_ns;

        if (now_ns >= req->deadline_ns)
            return DLOCK_TIMEOUT;
        if (!listener->listening && now_ns >= poll_ns) {
            (void)pthread_mutex_unlock(&listener->waiters.mutex);
            status = poll_once(session, req, &ahead, err);
            (void)pthread_mutex_lock(&listener->waiters.mutex);
            if (status != DLOCK_INTERNAL)
                return status;
            poll_ns = pg_connection_now(conn) + pause_of(waiter, ahead, now_ns);
        }
        if (must_poll_locked(listener, now_ns) && poll_ns < until_ns)
            until_ns = poll_ns;
        pg_listener_sleep_locked(listener, &waiter->base, conn, &slot->stop, until_ns);
    }
    return status;
}

static enum dlock_status watch(struct pg_listener *listener, struct pg_session *session,
                               const struct dlock_request *req, struct dlock_grant *grant,
                               struct dlock_error *err)
{
    struct pg_slot *slot = req->attempt;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_mutex_lock(&listener->waiters.mutex);
    slot->waiter->base.watching = true;
    status = watch_locked(listener, session, req, grant, err);
    slot->waiter->base.watching = false;
    waiters_hand_over_locked(&listener->waiters);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    return status;
}

enum dlock_status pg_row_watch(void *self, const struct dlock_request *req,
                               struct dlock_grant *grant, struct dlock_error *err)
{
    struct pg_session *session = self;
    struct pg_slot *slot = req->attempt;
    enum dlock_status status = DLOCK_UNAVAILABLE;

    if (atomic_load(&slot->stop) != 0 && slot->waiter == NULL)
        status = DLOCK_CANCELED;
    if (slot->waiter == NULL)
        return dlock_fail(err, PG_ORIGIN, status, 0, "nothing tells of grants: no queue entry");
    status = watch(slot->waiter->listener, session, req, grant, err);
    if (status == DLOCK_OK && grant->lease_ms > req->ttl_ms)
        grant->lease_ms = req->ttl_ms;
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        return dlock_fail(err, PG_ORIGIN, status, 0, "the wait ended before the name was granted");
    return status;
}

/* Takes the interrupt that ends this call, if there is one. */
static bool any_interrupted_locked(struct pg_listener *listener)
{
    struct waiter *any = &listener->waiters.any;
    const bool interrupted = any->interrupted;

    any->interrupted = false;
    atomic_store(&listener->any_stop, 0);
    return interrupted;
}

static enum dlock_status any_locked(struct pg_listener *listener, struct pg_connection *conn,
                                    uint32_t *numbers, size_t *count, int64_t deadline_ns)
{
    struct waiters *waiters = &listener->waiters;
    const size_t room = *count;

    pg_listener_catch_up_locked(listener);
    for (;;) {
        const bool interrupted = any_interrupted_locked(listener);

        *count = waiters_news_take_locked(waiters, numbers, room);
        if (*count > 0)
            return DLOCK_OK;
        if (interrupted)
            return DLOCK_CANCELED;
        if (pg_connection_now(conn) >= deadline_ns)
            return DLOCK_TIMEOUT;
        pg_listener_sleep_locked(listener, &waiters->any, conn, &listener->any_stop, deadline_ns);
    }
}

enum dlock_status pg_row_wait_any(void *self, uint32_t *numbers, size_t *count, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    struct pg_session *session = self;
    struct pg_listener *listener = pg_listener_get(session->shared);
    struct waiters *waiters = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (listener == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0,
                          "no memory, no descriptor for an event, or no random bytes");
    waiters = &listener->waiters;
    (void)pthread_mutex_lock(&waiters->mutex);
    waiters->any.watching = true;
    status = any_locked(listener, &session->conn, numbers, count, deadline_ns);
    waiters->any.watching = false;
    waiters_hand_over_locked(waiters);
    (void)pthread_mutex_unlock(&waiters->mutex);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    return dlock_fail(err, PG_ORIGIN, status, 0, "the wait ended before a name was granted");
}

static void interrupt_any(struct pg_listener *listener)
{
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    atomic_store(&listener->any_stop, 1);
    waiters_interrupt_any_locked(&listener->waiters);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
}

void pg_row_interrupt(void *self, const struct dlock_request *req)
{
    struct pg_session *session = self;
    static const uint64_t one = 1;
    struct pg_listener *listener =
        req != NULL ? atomic_load(&session->shared->listener) : pg_listener_get(session->shared);
    struct pg_slot *slot = req != NULL ? req->attempt : NULL;

    if (slot == NULL) {
        if (listener != NULL)
            interrupt_any(listener);
        return;
    }
    atomic_store(&slot->stop, 1);
    (void)!write(session->conn.wake_fd, &one, sizeof one);
    if (listener == NULL)
        return;
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    if (slot->waiter != NULL) {
        slot->waiter->base.interrupted = true;
        waiters_wake_locked(&slot->waiter->base, true);
    }
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
}
