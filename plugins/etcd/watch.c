/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include "kv.h"
#include "lib/text.h"
#include "lib/time.h"
#include "txn.h"

#include <string.h>

#define ANSWERS_MOST 256 /* of one watch of etcd; there are few */
#define WATCHERS     2   /* the predecessor and the own key */
#define ASK_LEAST_NS (40 * DL_NS_PER_MS)

/* One call of the slot. INTERNAL as a status: the wait goes on. */
struct watch {
    struct etcd_session *session;
    const struct dlock_request *req;
    struct etcd_slot *slot;
    struct dlock_grant *grant;
    struct dlock_error *err;
    struct etcd_keys keys;
    bool shared, permit; /* what is waited for */
    struct etcd_wait wait;
    struct etcd_rpc rpc;
    size_t read; /* answers of rpc */
    unsigned created;
    int64_t created_revision;
    bool recheck, own_gone, ended;
};

static int64_t now(const struct watch *watch)
{
    return etcd_lease_pool_now(&watch->session->pool);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the watch of etcd ---- */

/* to_len, of a range's end, 0: one key. */
static bool watcher_add(struct watch *watch, const void *key, size_t len, const void *to,
                        size_t to_len, bool puts)
{
    static Pb__WatchCreate__Filter no_put = PB__WATCH_CREATE__FILTER__NOPUT;
    Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
    Pb__WatchCreate create = PB__WATCH_CREATE__INIT;

    create.key = etcd_txn_bytes(key, len);
    create.range_end = etcd_txn_bytes(to, to_len);
    create.n_filters = puts ? 0 : 1;
    create.filters = &no_put;
    request.of_case = PB__WATCH_REQUEST__OF_CREATE;
    request.create = &create;
    return etcd_rpc_add(&watch->rpc, &request.base);
}

/* A reader hears of a writer that becomes a reader, and a waiter for a permit of one before it that
 * gets its permit. At the front it hears of the end of any key. */
static bool watchers_add(struct watch *watch)
{
    const struct etcd_slot *slot = watch->slot;
    const struct etcd_keys *keys = &watch->keys;
    const bool others =
        slot->front ? watcher_add(watch, keys->key, keys->dir_len, keys->end, keys->dir_len, false)
                    : watcher_add(watch, slot->predecessor, slot->predecessor_len, NULL, 0,
                                  watch->shared || watch->permit);

    return others && watcher_add(watch, keys->key, keys->key_len, NULL, 0, false);
}

static enum dlock_status begin(struct watch *watch)
{
    etcd_rpc_fini(&watch->rpc);
    etcd_rpc_init(&watch->rpc, ETCD_WATCH, ANSWERS_MOST);
    watch->read = 0;
    watch->created = 0;
    watch->created_revision = 0;
    watch->recheck = false;
    watch->ended = false;
    if (!watchers_add(watch))
        return dlock_fail(watch->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a watch");
    if (!etcd_channel_begin(&watch->wait, &watch->rpc.call))
        return dlock_fail(watch->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s",
                          watch->rpc.call.text);
    return DLOCK_INTERNAL;
}

static void event_read(struct watch *watch, const Pb__Event *event)
{
    const Pb__KeyValue *kv = event->kv;

    if (kv == NULL)
        return;
    if (kv->key.len == watch->keys.key_len &&
        memcmp(kv->key.data, watch->keys.key, watch->keys.key_len) == 0)
        watch->own_gone = true;
    else if (event->type == PB__EVENT__TYPE__DELETE || watch->permit ||
             etcd_kv_is_shared(kv->value.data, kv->value.len))
        watch->recheck = true;
}

static void answer_read(struct watch *watch, const Pb__WatchResponse *answer)
{
    if (answer->canceled)
        watch->ended = true;
    if (answer->created) {
        watch->created++;
        if (answer->header != NULL && answer->header->revision > watch->created_revision)
            watch->created_revision = answer->header->revision;
        if (watch->created == WATCHERS && watch->created_revision > watch->slot->read_revision)
            watch->recheck = true;
    }
    for (size_t i = 0; i < answer->n_events; i++)
        event_read(watch, answer->events[i]);
}

static void answers_read(struct watch *watch)
{
    const size_t count = watch->rpc.count;

    for (; watch->read < count; watch->read++)
        answer_read(watch, (const Pb__WatchResponse *)(const void *)etcd_rpc_answer(&watch->rpc,
                                                                                    watch->read));
}

/* ---- the queue ---- */

/* Another key is before ours than the slot has. */
static bool is_other(const struct etcd_slot *slot, const Pb__KeyValue *predecessor)
{
    if (slot->front)
        return false;
    return predecessor == NULL || slot->predecessor == NULL ||
           predecessor->key.len != slot->predecessor_len ||
           memcmp(predecessor->key.data, slot->predecessor, slot->predecessor_len) != 0;
}

/* Where does the key stand now? *moved: another key is before it. */
static enum dlock_status stands(struct watch *watch, const struct etcd_position *position,
                                bool *moved)
{
    struct etcd_slot *slot = watch->slot;
    const Pb__KeyValue *predecessor = position->predecessor;

    if (position->create_revision == 0 || position->kept || etcd_queue_has_room(position))
        return DLOCK_BUSY; /* it is over, or a permit is free */
    *moved = position->front != slot->front || is_other(slot, predecessor);
    etcd_queue_note(slot, slot->lease, position);
    if (position->holds) {
        etcd_queue_grant(watch->session, slot, watch->req->ttl_ms, watch->grant);
        watch->grant->waiters = !watch->shared && !watch->permit && position->keys > 0
                                    ? position->keys - 1
                                : position->keys == 1 ? 0
                                                      : UINT32_MAX;
        return DLOCK_OK;
    }
    if (slot->predecessor == NULL && !slot->front)
        return dlock_fail(watch->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0, "no memory for a watch");
    return DLOCK_INTERNAL;
}

static enum dlock_status recheck(struct watch *watch, bool *moved)
{
    struct etcd_question question;
    const int64_t start_ns = now(watch);
    int64_t until_ns =
        earlier(watch->req->deadline_ns, start_ns + watch->req->op_timeout_ms * DL_NS_PER_MS);
    enum dlock_status status = DLOCK_INTERNAL;

    if (until_ns < start_ns + ASK_LEAST_NS)
        until_ns = start_ns + ASK_LEAST_NS;
    status = etcd_queue_ask(watch->session, &question, &watch->keys, watch->shared,
                            watch->slot->create_revision, NULL, until_ns, watch->err);
    if (status == DLOCK_OK)
        status = stands(watch, &question.position, moved);
    etcd_queue_end(&question);
    watch->recheck = false;
    return status;
}

/* ---- waiting ---- */

static bool is_interrupted(struct watch *watch)
{
    bool interrupted = false;

    (void)pthread_mutex_lock(&watch->session->mutex);
    interrupted = watch->slot->interrupted;
    (void)pthread_mutex_unlock(&watch->session->mutex);
    return interrupted;
}

static void wait_set(struct watch *watch, struct etcd_wait *wait)
{
    (void)pthread_mutex_lock(&watch->session->mutex);
    watch->slot->wait = wait;
    (void)pthread_mutex_unlock(&watch->session->mutex);
}

/* What the answers mean. */
static enum dlock_status verdict(struct watch *watch)
{
    bool moved = false;
    enum dlock_status status = DLOCK_INTERNAL;

    answers_read(watch);
    if (watch->own_gone)
        return DLOCK_BUSY;
    if (watch->recheck)
        status = recheck(watch, &moved);
    if (status == DLOCK_INTERNAL && moved) {
        etcd_channel_reset(&watch->wait, &watch->rpc.call);
        status = begin(watch);
    }
    if (status != DLOCK_INTERNAL)
        return status;
    if (watch->ended)
        return dlock_fail(watch->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "the watch of the key before ours has ended");
    return DLOCK_INTERNAL;
}

static enum dlock_status wait_for_it(struct watch *watch)
{
    enum dlock_status status = begin(watch);

    while (status == DLOCK_INTERNAL) {
        if (is_interrupted(watch))
            return DLOCK_CANCELED;
        if (now(watch) >= watch->req->deadline_ns)
            return DLOCK_TIMEOUT;
        if (!etcd_channel_await(&watch->wait, watch->req->deadline_ns))
            watch->ended = !is_interrupted(watch) && now(watch) < watch->req->deadline_ns;
        status = verdict(watch);
    }
    return status;
}

/* On a connection that is there, or is made now. */
static enum dlock_status watch_run(struct watch *watch)
{
    struct etcd_endpoints *endpoints = &watch->session->endpoints;
    const int64_t until_ns =
        earlier(watch->req->deadline_ns, now(watch) + watch->req->op_timeout_ms * DL_NS_PER_MS);
    struct etcd_connection *connection = NULL;
    bool fresh = false;
    enum dlock_status status =
        etcd_endpoints_take(endpoints, until_ns, &connection, &fresh, watch->err);

    if (status != DLOCK_OK)
        return status;
    etcd_channel_join(connection->channel, &watch->wait);
    wait_set(watch, &watch->wait);
    status = wait_for_it(watch);
    wait_set(watch, NULL);
    etcd_channel_leave(&watch->wait);
    etcd_endpoints_put(endpoints, connection);
    etcd_rpc_fini(&watch->rpc);
    return status;
}

enum dlock_status etcd_watch(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                             struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct watch watch = {.session = session,
                          .req = req,
                          .slot = req->attempt,
                          .grant = grant,
                          .err = err,
                          .shared = req->mode == DLOCK_SHARED,
                          .permit = req->limit > 1};
    char token[ETCD_TOKEN_HEX + 1];
    enum dlock_status status = DLOCK_UNAVAILABLE;

    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    etcd_kv_keys(&watch.keys, &session->config, req->name, req->name_len, token);
    if (is_interrupted(&watch))
        status = DLOCK_CANCELED;
    else if (watch.slot->lease == NULL || (watch.slot->predecessor == NULL && !watch.slot->front))
        return dlock_fail(err, ETCD_ORIGIN, status, 0, "nothing to wait for: no queue entry");
    else
        status = watch_run(&watch);
    if (status == DLOCK_TIMEOUT || status == DLOCK_CANCELED)
        return dlock_fail(err, ETCD_ORIGIN, status, 0,
                          "the wait ended before the name was granted");
    return status;
}

void etcd_watch_interrupt(void *self, const struct dlock_request *req)
{
    struct etcd_session *session = self;
    struct etcd_slot *slot = req->attempt;

    (void)pthread_mutex_lock(&session->mutex);
    slot->interrupted = true;
    if (slot->wait != NULL)
        etcd_channel_interrupt(slot->wait);
    (void)pthread_mutex_unlock(&session->mutex);
}
