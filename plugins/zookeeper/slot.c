/* SPDX-License-Identifier: MIT */
#include "slot.h"

#include "exchange.h"
#include "lib/request.h"
#include "lib/text.h"
#include "lib/time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FENCE_SCALE 32
#define TRIES       3 /* an earlier request of ours may have been executed meanwhile */
#define HEAD_MAX    40

/* What was read of the nodes before ours. */
struct permits {
    struct zk_attempt *attempt;
    const char *const *names; /* the nodes, ours last */
    size_t count;
    unsigned char taken[(ZK_LIMIT_MOST + 7) / 8];
    const char *unsettled; /* the last one without a permit; NULL: there is none */
    int64_t own;           /* our permit; -1: none */
    bool gone;             /* our node */
};

int64_t zk_slot_permit_read(const struct zk_call *get, size_t *label)
{
    char head[HEAD_MAX + 1] = {0};
    uint32_t permit = 0, limit = 0;
    int end = 0;

    *label = 0;
    if (get->rc != ZOK || get->text == NULL || get->stat.version == 0)
        return -1;
    memcpy(head, get->text, get->text_len < HEAD_MAX ? get->text_len : HEAD_MAX);
    /* NOLINTNEXTLINE(cert-err34-c): dlock writes these numbers, and they fit */
    if (sscanf(head, "permit %" SCNu32 " of %" SCNu32 ": %n", &permit, &limit, &end) != 2 ||
        end == 0 || permit >= limit || limit > ZK_LIMIT_MOST)
        return -1;
    *label = (size_t)end;
    return permit;
}

static enum dlock_status no_memory(const struct zk_attempt *attempt)
{
    return dlock_fail(attempt->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

/* ---- permits: reading ---- */

static enum dlock_status permit_note(struct permits *permits, size_t i, const struct zk_call *get)
{
    const bool own = i + 1 == permits->count;
    size_t label = 0;
    const int64_t permit = zk_slot_permit_read(get, &label);

    if (get->rc != ZOK && get->rc != ZNONODE)
        return zk_exchange_fail(permits->attempt->err, get->rc, "read", get->path);
    if (own) {
        permits->gone = get->rc == ZNONODE;
        permits->own = permit;
    } else if (permit >= 0) {
        permits->taken[permit / 8] |= (unsigned char)(1u << permit % 8);
    } else if (get->rc == ZOK) {
        permits->unsettled = permits->names[i];
    }
    return DLOCK_OK;
}

static enum dlock_status part_read(struct permits *permits, size_t first, size_t n)
{
    struct zk_attempt *attempt = permits->attempt;
    struct zk_exchange *exchange = zk_exchange_new(attempt->session->link, n);
    int64_t session_id = attempt->slot->session_id;
    enum dlock_status status = exchange != NULL ? DLOCK_OK : no_memory(attempt);

    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        if (zk_exchange_add_child(exchange, ZK_GET, attempt->path.text,
                                  permits->names[first + i]) == NULL)
            status = no_memory(attempt);
    if (status == DLOCK_OK)
        status = zk_exchange_run(exchange, &session_id, attempt->deadline_ns, attempt->err);
    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        status = permit_note(permits, first + i, zk_exchange_call(exchange, i));
    zk_exchange_free(exchange);
    return status;
}

static enum dlock_status all_read(struct permits *permits)
{
    enum dlock_status status = DLOCK_OK;

    memset(permits->taken, 0, sizeof permits->taken);
    permits->unsettled = NULL;
    permits->own = -1;
    permits->gone = false;
    for (size_t i = 0; i < permits->count && status == DLOCK_OK; i += ZK_EXCHANGE_MOST)
        status = part_read(permits, i,
                           permits->count - i < ZK_EXCHANGE_MOST ? permits->count - i
                                                                 : ZK_EXCHANGE_MOST);
    return status;
}

enum dlock_status zk_slot_permit_ask(struct zk_attempt *attempt, int64_t session_id,
                                     const char *node, bool *has)
{
    struct zk_exchange *exchange = zk_exchange_new(attempt->session->link, 1);
    struct zk_call *get = NULL;
    size_t label = 0;
    enum dlock_status status = DLOCK_OK;

    *has = false;
    if (exchange != NULL)
        get = zk_exchange_add_child(exchange, ZK_GET, attempt->path.text, node);
    if (get != NULL)
        status = zk_exchange_run(exchange, &session_id, attempt->deadline_ns, attempt->err);
    else
        status = no_memory(attempt);
    if (status == DLOCK_OK && get->rc != ZOK && get->rc != ZNONODE)
        status = zk_exchange_fail(attempt->err, get->rc, "read", get->path);
    if (status == DLOCK_OK)
        *has = zk_slot_permit_read(get, &label) >= 0;
    zk_exchange_free(exchange);
    return status;
}

/* ---- permits: taking ---- */

static uint32_t lowest(const struct permits *permits)
{
    uint32_t permit = 0;

    while (permit < ZK_LIMIT_MOST && (permits->taken[permit / 8] >> permit % 8 & 1) != 0)
        permit++;
    return permit;
}

/* OK: what our node has now is to be read. */
static enum dlock_status permit_write(struct permits *permits, uint32_t limit)
{
    struct zk_attempt *attempt = permits->attempt;
    struct zk_exchange *exchange = zk_exchange_new(attempt->session->link, 1);
    int64_t session_id = attempt->slot->session_id;
    const uint32_t permit = lowest(permits);
    char value[HEAD_MAX + DL_HOLDER_TEXT_MAX];
    const int head = snprintf(value, HEAD_MAX, "permit %u of %u: ", permit, limit);
    struct zk_call *set = NULL;
    enum dlock_status status = DLOCK_NOMEM;

    if (exchange != NULL)
        set = zk_exchange_add_child(exchange, ZK_SET, attempt->path.text, attempt->slot->node);
    if (set != NULL) {
        set->data = value;
        set->data_len = (size_t)head + dl_holder_text_make(value + head, attempt->req);
        set->version = 0;
        status = zk_exchange_run(exchange, &session_id, attempt->deadline_ns, attempt->err);
    } else {
        status = no_memory(attempt);
    }
    if (status == DLOCK_OK && set->rc == ZOK)
        permits->own = permit;
    else if (status == DLOCK_OK && set->rc == ZNONODE)
        permits->gone = true;
    else if (status == DLOCK_OK && set->rc != ZBADVERSION)
        status = zk_exchange_fail(attempt->err, set->rc, "write", set->path);
    zk_exchange_free(exchange);
    return status;
}

static enum dlock_status permits_run(struct permits *permits, uint32_t limit)
{
    enum dlock_status status = DLOCK_OK;

    for (int i = 0; i < TRIES; i++) {
        status = all_read(permits);
        if (status != DLOCK_OK || permits->gone || permits->own >= 0 ||
            permits->unsettled != NULL || !permits->attempt->claims)
            return status;
        status = permit_write(permits, limit);
        if (status != DLOCK_OK || permits->gone || permits->own >= 0)
            return status;
    }
    return dlock_fail(permits->attempt->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "the value of the node is not one of ours");
}

enum dlock_status zk_slot_permit_take(struct zk_attempt *attempt,
                                      const struct String_vector *children,
                                      struct zk_position *position, bool *known)
{
    struct permits permits = {.attempt = attempt};
    const char **names = NULL;
    enum dlock_status status = DLOCK_OK;

    *known = true;
    if (!position->holds) /* fewer than it needs may have gone */
        return DLOCK_OK;
    if (!zk_queue_before(children, attempt->slot->node, &names, &permits.count)) {
        free(names);
        return no_memory(attempt);
    }
    names[permits.count++] = attempt->slot->node;
    permits.names = names;
    status = permits_run(&permits, position->limit);
    *known = status == DLOCK_OK && !permits.gone;
    position->holds = *known && permits.own >= 0;
    position->permit = position->holds ? (uint32_t)permits.own : 0;
    position->room = *known && permits.own < 0 && permits.unsettled == NULL;
    if (permits.unsettled != NULL)
        position->predecessor = permits.unsettled;
    free(names);
    return status;
}

/* ---- attempts ---- */

static const struct String_vector no_children;

enum dlock_status zk_slot_begin(struct zk_attempt *attempt, struct zk_session *session,
                                const struct dlock_request *req, struct dlock_error *err)
{
    attempt->session = session;
    attempt->req = req;
    attempt->slot = req->attempt;
    attempt->err = err;
    attempt->shared = req->mode == DLOCK_SHARED;
    attempt->claims = false;
    attempt->start_ns = zk_link_now(session->link);
    attempt->deadline_ns = req->deadline_ns;
    dl_hex_encode(attempt->token, req->token, DLOCK_TOKEN_SIZE);
    if (zk_node_path(&attempt->path, &session->config, req->name, req->name_len))
        return DLOCK_OK;
    return dlock_fail(err, ZK_ORIGIN, DLOCK_INVALID, 0,
                      "with key=raw the name has to be a path that ZooKeeper takes");
}

/* ---- ends ---- */

static void predecessor_set(struct zk_attempt *attempt, const char *name)
{
    struct zk_slot *slot = attempt->slot;

    if (name != NULL && slot->predecessor != NULL && strcmp(name, slot->predecessor) == 0)
        return;
    zk_watcher_free(attempt->session->link, slot->watcher);
    slot->watcher = NULL;
    free(slot->predecessor);
    slot->predecessor = name != NULL ? strdup(name) : NULL; /* without memory: watch says so */
}

void zk_slot_rest(struct zk_attempt *attempt)
{
    predecessor_set(attempt, NULL);
}

void zk_slot_gone(struct zk_attempt *attempt)
{
    struct zk_slot *slot = attempt->slot;

    predecessor_set(attempt, NULL);
    slot->node[0] = '\0';
    slot->czxid = 0;
    slot->queued_ns = 0;
    slot->holds = false;
    slot->front = false;
    slot->permit = 0;
}

void zk_slot_over(struct zk_attempt *attempt)
{
    zk_slot_gone(attempt);
    attempt->slot->doubts = 0;
    attempt->slot->session_id = 0;
}

void zk_slot_end(struct zk_attempt *attempt)
{
    const struct zk_slot *slot = attempt->slot;

    if (slot->node[0] != '\0' || slot->doubts > 0)
        zk_leftover_add(&attempt->session->leftovers, attempt->path.text, attempt->token,
                        slot->session_id);
    zk_slot_over(attempt);
}

/* ---- requests ---- */

bool zk_slot_answered(struct zk_link *link, const struct zk_call *call)
{
    bool answered = false;

    zk_link_lock(link);
    answered = call->done && (call->rc == ZOK || call->rc <= ZAPIERROR) &&
               call->rc != ZSESSIONEXPIRED && call->rc != ZCLOSING;
    zk_link_unlock(link);
    return answered;
}

static enum dlock_status children_of(struct zk_attempt *attempt, const struct zk_call *call,
                                     const struct String_vector **children)
{
    *children = &no_children;
    if (call->rc == ZNONODE)
        return DLOCK_OK;
    if (call->rc != ZOK)
        return zk_exchange_fail(attempt->err, call->rc, "list", attempt->path.text);
    *children = &call->children;
    return DLOCK_OK;
}

enum dlock_status zk_slot_list(struct zk_attempt *attempt, bool sync, int64_t *session_id,
                               struct zk_exchange **exchange, const struct String_vector **children)
{
    const char *path = attempt->path.text;
    struct zk_call *synced = NULL, *call = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *children = &no_children;
    *exchange = zk_exchange_new(attempt->session->link, 2);
    if (*exchange == NULL)
        return no_memory(attempt);
    if (sync)
        synced = zk_exchange_add(*exchange, ZK_SYNC, path);
    call = zk_exchange_add(*exchange, ZK_CHILDREN, path);
    if (call == NULL || (sync && synced == NULL))
        return no_memory(attempt);
    status = zk_exchange_run(*exchange, session_id, attempt->deadline_ns, attempt->err);
    if (status != DLOCK_OK)
        return status;
    if (sync && synced->rc != ZOK)
        return zk_exchange_fail(attempt->err, synced->rc, "sync", path);
    return children_of(attempt, call, children);
}

/* Asks for the node of the slot. LOST: the session is over. */
static enum dlock_status node_read(struct zk_attempt *attempt, struct Stat *stat, int *rc)
{
    int64_t session_id = attempt->slot->session_id;
    struct zk_exchange *exchange = zk_exchange_new(attempt->session->link, 1);
    struct zk_call *call = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (exchange != NULL)
        call = zk_exchange_add_child(exchange, ZK_EXISTS, attempt->path.text, attempt->slot->node);
    if (call != NULL)
        status = zk_exchange_run(exchange, &session_id, attempt->deadline_ns, attempt->err);
    else
        status = no_memory(attempt);
    if (status == DLOCK_OK) {
        *rc = call->rc;
        *stat = call->stat;
    }
    zk_exchange_free(exchange);
    return status;
}

/* ---- where the node stands ---- */

bool zk_slot_name(struct zk_slot *slot, const char *node)
{
    const size_t size = strlen(node) + 1;

    if (size > sizeof slot->node)
        return false;
    if (memcmp(slot->node, node, size) != 0)
        slot->czxid = 0;
    memcpy(slot->node, node, size);
    return true;
}

void zk_slot_note(struct zk_attempt *attempt, const struct zk_position *position)
{
    struct zk_slot *slot = attempt->slot;
    const bool front =
        position->limit > 1 && !position->holds && position->before == position->limit;

    if (front != slot->front)
        predecessor_set(attempt, NULL); /* and its watcher */
    slot->front = front;
    slot->holds = position->holds;
    slot->permit = position->permit;
    predecessor_set(attempt, position->predecessor);
}

/* A node that was found by its token: is it of this session, and what is its number? */
static enum dlock_status node_identify(struct zk_attempt *attempt, bool *known)
{
    struct zk_slot *slot = attempt->slot;
    struct Stat stat;
    int rc = ZOK;
    enum dlock_status status = node_read(attempt, &stat, &rc);

    *known = false;
    if (status != DLOCK_OK)
        return status;
    if (rc == ZNONODE) {
        zk_slot_gone(attempt);
        return DLOCK_OK;
    }
    if (rc != ZOK)
        return zk_exchange_fail(attempt->err, rc, "read a node of", attempt->path.text);
    if (stat.ephemeralOwner != slot->session_id) {
        zk_slot_gone(attempt);
        return dlock_fail(attempt->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "the node of this token is of a session that ends");
    }
    slot->czxid = stat.czxid;
    *known = true;
    return DLOCK_OK;
}

/* *known: the node is in the list. */
static enum dlock_status node_find(struct zk_attempt *attempt, const struct String_vector *children,
                                   struct zk_position *position, bool *known)
{
    struct zk_slot *slot = attempt->slot;
    const bool sure = slot->node[0] != '\0' && slot->doubts == 0;
    enum dlock_status status = DLOCK_OK;

    zk_queue_judge(position, children, sure ? slot->node : NULL, attempt->token, attempt->shared);
    if (position->own == NULL || !zk_slot_name(slot, position->own)) {
        zk_slot_gone(attempt);
        return DLOCK_OK;
    }
    *known = true;
    if (position->limit > 1)
        status = zk_slot_permit_take(attempt, children, position, known);
    if (status == DLOCK_OK && *known)
        zk_slot_note(attempt, position);
    else if (status == DLOCK_OK)
        zk_slot_gone(attempt);
    position->own = position->predecessor = NULL;
    return status;
}

/* The node is known, and no other one may be there. */
static bool is_sure(const struct zk_slot *slot)
{
    return slot->node[0] != '\0' && slot->doubts == 0;
}

/* status: of the question for the children. */
static enum dlock_status asked(struct zk_attempt *attempt, enum dlock_status status,
                               const struct String_vector *children, int64_t session_id,
                               struct zk_position *position, bool *known)
{
    struct zk_slot *slot = attempt->slot;
    const bool was_known = slot->node[0] != '\0';

    *known = false;
    if (status == DLOCK_OK)
        status = node_find(attempt, children, position, known);
    if (*known)
        slot->session_id = session_id;
    if (status == DLOCK_OK && *known && slot->czxid == 0)
        status = node_identify(attempt, known);
    if (*known && !was_known && slot->doubts > 0)
        slot->doubts--; /* that create was executed */
    if (status != DLOCK_LOST)
        return status;
    zk_slot_error_clear(attempt->err);
    zk_slot_over(attempt);
    return DLOCK_OK;
}

enum dlock_status zk_slot_ask(struct zk_attempt *attempt, struct zk_position *position, bool *known)
{
    int64_t session_id = attempt->slot->session_id;
    struct zk_exchange *exchange = NULL;
    const struct String_vector *children = NULL;
    enum dlock_status status =
        zk_slot_list(attempt, !is_sure(attempt->slot), &session_id, &exchange, &children);

    status = asked(attempt, status, children, session_id, position, known);
    zk_exchange_free(exchange);
    return status;
}

/* ---- deleting ---- */

/* status: of the delete. */
static enum dlock_status deleted(struct zk_attempt *attempt, enum dlock_status status, int rc,
                                 bool *by_us)
{
    *by_us = false;
    if (status == DLOCK_LOST) {
        zk_slot_error_clear(attempt->err);
        zk_slot_over(attempt);
        return DLOCK_OK;
    }
    if (status != DLOCK_OK)
        return status;
    if (rc != ZOK && rc != ZNONODE)
        return zk_exchange_fail(attempt->err, rc, "delete a node of", attempt->path.text);
    *by_us = rc == ZOK;
    zk_slot_gone(attempt);
    return DLOCK_OK;
}

enum dlock_status zk_slot_delete(struct zk_attempt *attempt, bool *by_us)
{
    struct zk_slot_step step = {.attempt = attempt};

    zk_slot_delete_all(&step, 1);
    *by_us = step.deleted;
    return step.status;
}

/* ---- many at once ---- */

/* Steps of one session. */
struct steps {
    struct zk_slot_step *of[ZK_EXCHANGE_MOST];
    size_t n;
    enum zk_op op; /* ZK_CHILDREN or ZK_DELETE */
    int64_t session_id, deadline_ns;
};

static bool step_add(const struct steps *steps, size_t i, struct zk_exchange *exchange)
{
    const struct zk_attempt *attempt = steps->of[i]->attempt;

    if (steps->op == ZK_CHILDREN)
        return zk_exchange_add(exchange, ZK_CHILDREN, attempt->path.text) != NULL;
    return zk_exchange_add_child(exchange, ZK_DELETE, attempt->path.text, attempt->slot->node) !=
           NULL;
}

/* call: NULL: status is not OK. */
static void step_end(const struct steps *steps, size_t i, enum dlock_status status,
                     const struct zk_call *call)
{
    struct zk_slot_step *step = steps->of[i];
    const struct String_vector *children = &no_children;

    if (steps->op == ZK_DELETE) {
        step->status =
            deleted(step->attempt, status, call != NULL ? call->rc : ZOK, &step->deleted);
        return;
    }
    if (call != NULL)
        status = children_of(step->attempt, call, &children);
    step->status =
        asked(step->attempt, status, children, steps->session_id, &step->position, &step->known);
}

static void steps_run(struct steps *steps)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    struct zk_exchange *exchange = zk_exchange_new(steps->of[0]->attempt->session->link, steps->n);
    enum dlock_status said = DLOCK_OK;
    bool made = exchange != NULL;

    for (size_t i = 0; i < steps->n && made; i++)
        made = step_add(steps, i, exchange);
    said = made ? zk_exchange_run(exchange, &steps->session_id, steps->deadline_ns, &why)
                : dlock_fail(&why, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    for (size_t i = 0; i < steps->n; i++) {
        const enum dlock_status status =
            zk_exchange_part(exchange, i, 1, said, &why, steps->of[i]->attempt->err);

        step_end(steps, i, status, status == DLOCK_OK ? zk_exchange_call(exchange, i) : NULL);
    }
    zk_exchange_free(exchange);
}

/* The first one, and the others of its session. */
static void session_run(struct zk_slot_step *all, size_t n, enum zk_op op)
{
    struct steps steps = {.op = op, .session_id = all[0].attempt->slot->session_id};

    for (size_t i = 0; i < n && steps.n < ZK_EXCHANGE_MOST; i++) {
        const struct zk_attempt *attempt = all[i].attempt;

        if (all[i].done || attempt->slot->session_id != steps.session_id)
            continue;
        if (attempt->deadline_ns > steps.deadline_ns)
            steps.deadline_ns = attempt->deadline_ns;
        all[i].done = true;
        steps.of[steps.n++] = &all[i];
    }
    steps_run(&steps);
}

static void sessions_run(struct zk_slot_step *all, size_t n, enum zk_op op)
{
    for (size_t i = 0; i < n; i++)
        if (!all[i].done)
            session_run(&all[i], n - i, op);
}

void zk_slot_ask_all(struct zk_slot_step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        steps[i].done = !is_sure(steps[i].attempt->slot);
        if (steps[i].done)
            steps[i].status = zk_slot_ask(steps[i].attempt, &steps[i].position, &steps[i].known);
    }
    sessions_run(steps, n, ZK_CHILDREN);
}

void zk_slot_delete_all(struct zk_slot_step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        steps[i].done = false;
    sessions_run(steps, n, ZK_DELETE);
}

/* ---- grants ---- */

int64_t zk_slot_lease_ms(const struct zk_attempt *attempt, int64_t from_ns)
{
    struct zk_session_state state;
    int64_t left_ms = 0;

    zk_link_state(attempt->session->link, &state);
    if (state.session_id == attempt->slot->session_id && state.until_ns > from_ns)
        left_ms = (state.until_ns - from_ns) / DL_NS_PER_MS;
    return left_ms < attempt->req->ttl_ms ? left_ms : attempt->req->ttl_ms;
}

/* Contenders that hold the name, or may take a permit. */
static uint32_t holders_of(const struct zk_position *position)
{
    if (position->limit > 1)
        return position->contenders < position->limit ? position->contenders : position->limit;
    return position->shared_first > 0 ? position->shared_first : position->contenders > 0;
}

void zk_slot_grant(const struct zk_attempt *attempt, const struct zk_position *position,
                   int64_t lease_ms, struct dlock_grant *grant)
{
    grant->fence = (uint64_t)attempt->slot->czxid * FENCE_SCALE;
    grant->fence_room = FENCE_SCALE - 1;
    grant->lease_ms = lease_ms;
    grant->waiters = position->contenders - holders_of(position);
    grant->permit = attempt->slot->permit;
}

void zk_slot_wait(const struct zk_position *position, struct dlock_grant *grant)
{
    const uint32_t holders = holders_of(position);

    grant->queue_position = position->before > holders ? position->before - holders : 0;
    grant->waiters = position->contenders > holders ? position->contenders - holders - 1 : 0;
}

void zk_slot_queue(struct zk_attempt *attempt, int64_t lease_ms, struct dlock_grant *grant)
{
    attempt->slot->queued_ns = attempt->start_ns;
    grant->flags |= DLOCK_GRANT_QUEUED;
    grant->fence = (uint64_t)attempt->slot->czxid * FENCE_SCALE - 1;
    grant->lease_ms = lease_ms;
}
