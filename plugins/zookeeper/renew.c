/* SPDX-License-Identifier: MIT */
/*
 * Many nodes are asked for in one exchange, behind a sync. The answer to the sync is the leader's,
 * and what is read behind it is as new.
 */
#include "renew.h"

#include "exchange.h"
#include "slot.h"

#include <stdlib.h>

#define BATCH ((ZK_EXCHANGE_MOST - 1) / 2) /* two calls for each element */

/* One element that is renewed. */
struct element {
    struct dlock_lease_op *op;
    struct zk_attempt attempt;
    struct zk_call *node, *parent; /* parent: that of the name; NULL: not asked for */
};

struct batch {
    struct zk_session *session;
    struct element *elements;
    size_t n;
    int64_t session_id, deadline_ns;
    struct zk_exchange *exchange;
    struct zk_call *sync;
    struct dlock_error *err;
};

static enum dlock_status lost(const struct batch *batch)
{
    return dlock_fail(batch->err, ZK_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
}

/* ---- the exchange ---- */

/* OK: the element takes part. */
static enum dlock_status element_begin(struct batch *batch, struct element *element,
                                       struct dlock_lease_op *op)
{
    struct zk_attempt *attempt = &element->attempt;
    struct zk_position position;
    bool known = true;
    enum dlock_status status = zk_slot_begin(attempt, batch->session, op->req, batch->err);

    element->op = op;
    attempt->deadline_ns = batch->deadline_ns;
    if (status == DLOCK_OK && (!attempt->slot->holds || attempt->slot->czxid == 0))
        status = zk_slot_ask(attempt, &position, &known);
    if (status == DLOCK_OK && (!known || !attempt->slot->holds))
        status = lost(batch);
    return status;
}

/* The children of a writer's name are itself and the waiters. With key=raw, other names may be
 * among them. */
static bool element_add(const struct batch *batch, struct element *element)
{
    const struct zk_attempt *attempt = &element->attempt;
    const bool counts = !attempt->shared && attempt->req->limit == 1 && !batch->session->config.raw;

    element->parent = NULL;
    element->node =
        zk_exchange_add_child(batch->exchange, ZK_EXISTS, attempt->path.text, attempt->slot->node);
    if (counts)
        element->parent = zk_exchange_add(batch->exchange, ZK_EXISTS, attempt->path.text);
    return element->node != NULL && (!counts || element->parent != NULL);
}

static enum dlock_status exchange_run(struct batch *batch)
{
    const char *path = batch->elements[0].attempt.path.text;
    bool made = true;

    batch->session_id = 0;
    batch->exchange = zk_exchange_new(batch->session->link, 1 + 2 * batch->n);
    if (batch->exchange != NULL)
        batch->sync = zk_exchange_add(batch->exchange, ZK_SYNC, path);
    made = batch->sync != NULL;
    for (size_t i = 0; i < batch->n && made; i++)
        made = element_add(batch, &batch->elements[i]);
    if (!made)
        return dlock_fail(batch->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for renewals");
    return zk_exchange_run(batch->exchange, &batch->session_id, batch->deadline_ns, batch->err);
}

/* ---- its answers ---- */

static bool is_same(const struct batch *batch, const struct element *element)
{
    const struct Stat *stat = &element->node->stat;

    return stat->ephemeralOwner == batch->session_id && stat->czxid == element->attempt.slot->czxid;
}

static enum dlock_status element_judge(struct batch *batch, struct element *element)
{
    struct zk_attempt *attempt = &element->attempt;
    struct dlock_grant *grant = &element->op->grant;
    const int rc = element->node->rc;

    if (rc != ZOK && rc != ZNONODE)
        return zk_exchange_fail(batch->err, rc, "read a node of", attempt->path.text);
    if (rc == ZNONODE || !is_same(batch, element)) {
        zk_slot_gone(attempt);
        return lost(batch);
    }
    grant->lease_ms = zk_slot_lease_ms(attempt, attempt->start_ns);
    if (grant->lease_ms <= 0)
        return dlock_fail(batch->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "the servers have not confirmed the session in time");
    if (element->parent != NULL && element->parent->rc == ZOK &&
        element->parent->stat.numChildren > 0)
        grant->waiters = (uint32_t)element->parent->stat.numChildren - 1;
    return DLOCK_OK;
}

static void batch_run(struct batch *batch)
{
    enum dlock_status status = exchange_run(batch);

    if (status == DLOCK_OK && batch->sync->rc != ZOK)
        status = zk_exchange_fail(batch->err, batch->sync->rc, "sync", batch->sync->path);
    for (size_t i = 0; i < batch->n; i++) {
        struct element *element = &batch->elements[i];

        element->op->status = status == DLOCK_OK ? element_judge(batch, element) : status;
    }
    zk_exchange_free(batch->exchange);
}

enum dlock_status zk_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                           int64_t deadline_ns, struct dlock_error *err)
{
    struct zk_session *session = self;
    struct element *elements = calloc(n < BATCH ? n : BATCH, sizeof *elements);

    if (elements == NULL)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for renewals");
    for (size_t i = 0; i < n;) {
        struct batch batch = {
            .session = session, .elements = elements, .deadline_ns = deadline_ns, .err = err};

        for (; i < n && batch.n < BATCH; i++) {
            ops[i]->status = element_begin(&batch, &elements[batch.n], ops[i]);
            if (ops[i]->status == DLOCK_OK)
                batch.n++;
        }
        if (batch.n > 0)
            batch_run(&batch);
    }
    free(elements);
    return DLOCK_OK;
}
