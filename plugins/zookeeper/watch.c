/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include "exchange.h"
#include "lib/time.h"
#include "slot.h"

#define ASK_LEAST_NS (40 * DL_NS_PER_MS)

/* One call of the slot. INTERNAL as a status: the wait goes on. */
struct watch {
    struct zk_attempt attempt;
    struct dlock_grant *grant;
};

/* A request that begins at the deadline has a little time nevertheless. */
static void exchange_begin(struct watch *watch)
{
    const struct dlock_request *req = watch->attempt.req;
    const int64_t now_ns = zk_link_now(watch->attempt.session->link);
    const int64_t most_ns = now_ns + req->op_timeout_ms * DL_NS_PER_MS;
    const int64_t least_ns = now_ns + ASK_LEAST_NS;
    int64_t until_ns = req->deadline_ns < most_ns ? req->deadline_ns : most_ns;

    watch->attempt.deadline_ns = until_ns > least_ns ? until_ns : least_ns;
}

/* ---- the watcher ---- */

static void watcher_drop(struct watch *watch)
{
    struct zk_slot *slot = watch->attempt.slot;

    zk_watcher_free(watch->attempt.session->link, slot->watcher);
    slot->watcher = NULL;
}

/* Of a semaphore: fewer contenders than the limit are before the node, or before a new one if the
 * attempt has no queue entry. */
static bool is_room(const struct zk_slot *slot, const struct zk_call *children, uint32_t limit)
{
    struct zk_position position;

    zk_queue_judge(&position, &children->children, slot->node, "", false);
    return position.before < limit || (position.own == NULL && slot->node[0] != '\0');
}

/* Of a semaphore: the predecessor has taken its permit. A predecessor with another limit has to go,
 * whatever it holds. */
static bool is_settled(const struct zk_slot *slot, const struct zk_call *get, uint32_t limit)
{
    struct zk_node predecessor;
    size_t label = 0;

    return zk_node_parse(&predecessor, slot->predecessor) && predecessor.limit == limit &&
           zk_slot_permit_read(get, &label) >= 0;
}

/* What the watcher waits for has happened already. */
static bool is_over(const struct zk_attempt *attempt, const struct zk_call *call)
{
    const uint32_t limit = attempt->req->limit;

    if (call->rc != ZOK || limit == 1)
        return false;
    return attempt->slot->front ? is_room(attempt->slot, call, limit)
                                : is_settled(attempt->slot, call, limit);
}

/* OK: *rc says whether the predecessor is there, and is watched. LOST: the session is over. A get
 * leaves nothing behind in the library if the node is gone; an exists would. */
static enum dlock_status watcher_send(struct watch *watch, int *rc)
{
    struct zk_attempt *attempt = &watch->attempt;
    struct zk_slot *slot = attempt->slot;
    struct zk_link *link = attempt->session->link;
    struct zk_exchange *exchange = zk_exchange_new(link, 1);
    int64_t session_id = slot->session_id;
    struct zk_call *call = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    slot->watcher = zk_watcher_new(link);
    if (exchange != NULL)
        call = slot->front
                   ? zk_exchange_add(exchange, ZK_CHILDREN, attempt->path.text)
                   : zk_exchange_add_child(exchange, ZK_GET, attempt->path.text, slot->predecessor);
    if (call != NULL && slot->watcher != NULL) {
        call->watcher = slot->watcher;
        status = zk_exchange_run(exchange, &session_id, attempt->deadline_ns, attempt->err);
    } else {
        status = dlock_fail(attempt->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a watch");
    }
    if (status == DLOCK_OK)
        *rc = is_over(attempt, call) ? ZNONODE : call->rc;
    if (status != DLOCK_OK || *rc != ZOK)
        watcher_drop(watch);
    zk_exchange_free(exchange);
    return status;
}

/* INTERNAL: the watcher waits for the predecessor. OK: there is none any more. UNAVAILABLE: among
 * others, the node of another program may not be read; the servers tell nobody else of it. */
static enum dlock_status watcher_arm(struct watch *watch)
{
    struct zk_attempt *attempt = &watch->attempt;
    int rc = ZOK;
    enum dlock_status status = DLOCK_OK;

    if (attempt->slot->watcher != NULL) /* of the call before */
        return DLOCK_INTERNAL;
    exchange_begin(watch);
    status = watcher_send(watch, &rc);
    if (status == DLOCK_LOST) {
        zk_slot_over(attempt);
        return DLOCK_BUSY;
    }
    if (status != DLOCK_OK || rc == ZNONODE)
        return status;
    if (rc == ZOK)
        return DLOCK_INTERNAL;
    (void)zk_exchange_fail(attempt->err, rc, "watch a node of", attempt->path.text);
    attempt->err->status = DLOCK_UNAVAILABLE;
    return DLOCK_UNAVAILABLE;
}

/* ---- the queue ---- */

/* The predecessor has changed, or the session ended. */
static enum dlock_status recheck(struct watch *watch)
{
    struct zk_attempt *attempt = &watch->attempt;
    const struct zk_slot *slot = attempt->slot;
    struct zk_position position;
    int64_t lease_ms = 0;
    bool known = false;
    enum dlock_status status = DLOCK_BUSY;

    if (slot->node[0] == '\0')
        return DLOCK_BUSY; /* without a queue entry */
    exchange_begin(watch);
    status = zk_slot_ask(attempt, &position, &known);
    if (status != DLOCK_OK)
        return status;
    if (!known)
        return DLOCK_BUSY;
    if (!position.holds)
        return position.room ? DLOCK_BUSY : DLOCK_INTERNAL;
    if (slot->queued_ns != 0)
        lease_ms = zk_slot_lease_ms(attempt, slot->queued_ns);
    if (lease_ms <= 0)
        return DLOCK_BUSY;
    zk_slot_grant(attempt, &position, lease_ms, watch->grant);
    return DLOCK_OK;
}

/* ---- waiting ---- */

static bool is_interrupted(const struct watch *watch)
{
    bool interrupted = false;

    zk_link_lock(watch->attempt.session->link);
    interrupted = watch->attempt.slot->interrupted;
    zk_link_unlock(watch->attempt.session->link);
    return interrupted;
}

/* OK: the predecessor has changed. INTERNAL: without a queue entry, the children changed; list them
 * again: callers that try make and delete nodes, which frees nothing. */
static enum dlock_status await_change(struct watch *watch)
{
    struct zk_slot *slot = watch->attempt.slot;
    enum dlock_status status = DLOCK_INTERNAL;

    if (slot->predecessor == NULL && !slot->front)
        return dlock_fail(watch->attempt.err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "nothing to wait for: no node of a predecessor is known");
    status = watcher_arm(watch);
    if (status != DLOCK_INTERNAL)
        return status;
    status = zk_watcher_await(watch->attempt.session->link, slot->watcher, &slot->wait,
                              &slot->interrupted, watch->attempt.req->deadline_ns);
    if (status != DLOCK_OK)
        return status;
    watcher_drop(watch);
    return slot->front && slot->node[0] == '\0' ? DLOCK_INTERNAL : DLOCK_OK;
}

static enum dlock_status watch_run(struct watch *watch)
{
    const struct dlock_request *req = watch->attempt.req;
    enum dlock_status status = DLOCK_INTERNAL;

    while (status == DLOCK_INTERNAL) {
        if (is_interrupted(watch))
            return DLOCK_CANCELED;
        if (zk_link_now(watch->attempt.session->link) >= req->deadline_ns)
            return DLOCK_TIMEOUT;
        status = await_change(watch);
        if (status == DLOCK_OK)
            status = recheck(watch);
    }
    return status;
}

enum dlock_status zk_watch(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                           struct dlock_error *err)
{
    struct zk_session *session = self;
    struct watch watch = {.grant = grant};
    enum dlock_status status = zk_slot_begin(&watch.attempt, session, req, err);

    if (status == DLOCK_OK)
        status = watch_run(&watch);
    if (status == DLOCK_OK || status == DLOCK_BUSY)
        zk_slot_error_clear(err);
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        return dlock_fail(err, ZK_ORIGIN, status, 0, "the wait ended before the name was granted");
    return status;
}

void zk_watch_interrupt(void *self, const struct dlock_request *req)
{
    struct zk_session *session = self;
    struct zk_slot *slot = req->attempt;

    zk_link_lock(session->link);
    slot->interrupted = true;
    if (slot->wait != NULL)
        zk_watcher_interrupt(slot->wait);
    zk_link_unlock(session->link);
}
