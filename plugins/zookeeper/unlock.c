/* SPDX-License-Identifier: MIT */
#include "unlock.h"

#include "exchange.h"
#include "slot.h"

#include <stdlib.h>

#define TOGETHER ZK_EXCHANGE_MOST

static enum dlock_status no_memory(struct zk_attempt *attempt)
{
    return dlock_fail(attempt->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static enum dlock_status lost(struct dlock_error *err)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
}

/* ---- nodes that are known by their token only ---- */

/* A token has one node, or few of them after lost answers. */
static size_t deletes_add(struct zk_attempt *attempt, struct zk_exchange *exchange,
                          const struct String_vector *children)
{
    struct zk_node node;
    size_t count = 0;

    for (int32_t i = 0; i < children->count && count < ZK_EXCHANGE_MOST; i++)
        if (zk_node_parse(&node, children->data[i]) && zk_node_is(&node, attempt->token) &&
            zk_exchange_add_child(exchange, ZK_DELETE, attempt->path.text, children->data[i]) !=
                NULL)
            count++;
    return count;
}

static size_t count_of(const struct zk_attempt *attempt, const struct String_vector *children)
{
    struct zk_node node;
    size_t count = 0;

    for (int32_t i = 0; i < children->count; i++)
        count += zk_node_parse(&node, children->data[i]) && zk_node_is(&node, attempt->token);
    return count < ZK_EXCHANGE_MOST ? count : ZK_EXCHANGE_MOST;
}

/* OK: none of them is there. */
static enum dlock_status all_delete(struct zk_attempt *attempt, int64_t session_id,
                                    const struct String_vector *children, bool *deleted)
{
    const size_t count = count_of(attempt, children);
    struct zk_exchange *exchange = NULL;
    enum dlock_status status = DLOCK_OK;

    *deleted = false;
    if (count == 0)
        return DLOCK_OK;
    exchange = zk_exchange_new(attempt->session->link, count);
    if (exchange == NULL || deletes_add(attempt, exchange, children) < count)
        status = no_memory(attempt);
    else
        status = zk_exchange_run(exchange, &session_id, attempt->deadline_ns, attempt->err);
    for (size_t i = 0; i < count && status == DLOCK_OK; i++) {
        const struct zk_call *call = zk_exchange_call(exchange, i);

        *deleted = *deleted || call->rc == ZOK;
        if (call->rc != ZOK && call->rc != ZNONODE)
            status = zk_exchange_fail(attempt->err, call->rc, "delete", call->path);
    }
    zk_exchange_free(exchange);
    return status;
}

/* Notes the node, in case that the deletes have no answer. */
static enum dlock_status found_delete(struct zk_attempt *attempt, int64_t session_id,
                                      const struct String_vector *children, const char *own,
                                      bool *deleted)
{
    struct zk_slot *slot = attempt->slot;
    enum dlock_status status = DLOCK_INTERNAL;

    slot->session_id = session_id;
    if (slot->node[0] == '\0')
        (void)zk_slot_name(slot, own);
    status = all_delete(attempt, session_id, children, deleted);
    if (status == DLOCK_OK)
        zk_slot_gone(attempt);
    return status;
}

/* How the nodes of the token are treated if they do not hold the name. */
enum waiters { WAITERS_STAY, WAITERS_GO };

/* *held: the token held the name, and does not any more. */
static enum dlock_status token_delete(struct zk_attempt *attempt, enum waiters waiters, bool *held)
{
    struct zk_slot *slot = attempt->slot;
    int64_t session_id = slot->session_id;
    const struct String_vector *children = NULL;
    struct zk_exchange *exchange = NULL;
    struct zk_position position;
    bool deleted = false;
    enum dlock_status status = zk_slot_list(attempt, true, &session_id, &exchange, &children);

    *held = false;
    if (status == DLOCK_OK) {
        zk_queue_judge(&position, children, NULL, attempt->token, attempt->shared);
        if (position.holds && position.limit > 1)
            status = zk_slot_permit_ask(attempt, session_id, position.own, &position.holds);
        if (position.own == NULL)
            zk_slot_gone(attempt);
        else if (status == DLOCK_OK && (position.holds || waiters == WAITERS_GO))
            status = found_delete(attempt, session_id, children, position.own, &deleted);
        *held = position.holds && deleted;
    }
    zk_exchange_free(exchange);
    if (status != DLOCK_LOST)
        return status;
    zk_slot_error_clear(attempt->err);
    zk_slot_over(attempt);
    return DLOCK_OK;
}

/* ---- the slots ---- */

static bool is_waiter(const struct zk_slot *slot)
{
    return slot->node[0] != '\0' && slot->queued_ns != 0 && !slot->holds;
}

static enum dlock_status unlock_end(struct zk_attempt *attempt, enum dlock_status status, bool held)
{
    if (status == DLOCK_OK && is_waiter(attempt->slot))
        zk_slot_rest(attempt);
    else
        zk_slot_end(attempt);
    return status == DLOCK_OK && !held ? lost(attempt->err) : status;
}

/* A node that is no queue entry, and not known to hold the name, is of an attempt whose requests
 * were not answered: it has to go, too. */
enum dlock_status zk_unlock(void *self, const struct dlock_request *req, struct dlock_error *err)
{
    struct zk_session *session = self;
    struct zk_attempt attempt;
    const struct zk_slot *slot = req->attempt;
    const bool ours = slot->session_id != 0 && !is_waiter(slot);
    bool held = false;
    enum dlock_status status = zk_slot_begin(&attempt, session, req, err);

    if (status != DLOCK_OK)
        return status;
    if (slot->holds)
        status = zk_slot_delete(&attempt, &held);
    else
        status = token_delete(&attempt, ours ? WAITERS_GO : WAITERS_STAY, &held);
    return unlock_end(&attempt, status, held);
}

/* attempts: room for n. Elements that are left out have a call of their own later. */
static void some_unlock(struct zk_session *session, struct zk_attempt *attempts,
                        struct dlock_batch_op *const *ops, size_t n)
{
    struct zk_slot_step deletions[TOGETHER];
    struct dlock_batch_op *of[TOGETHER], *alone[TOGETHER];
    size_t count = 0, rest = 0;

    for (size_t i = 0; i < n; i++) {
        const struct zk_slot *slot = ops[i]->req->attempt;

        if (!slot->holds ||
            zk_slot_begin(&attempts[count], session, ops[i]->req, ops[i]->err) != DLOCK_OK) {
            alone[rest++] = ops[i];
            continue;
        }
        deletions[count].attempt = &attempts[count];
        of[count++] = ops[i];
    }
    zk_slot_delete_all(deletions, count);
    for (size_t i = 0; i < count; i++)
        of[i]->status = unlock_end(&attempts[i], deletions[i].status, deletions[i].deleted);
    for (size_t i = 0; i < rest; i++)
        alone[i]->status = zk_unlock(session, alone[i]->req, alone[i]->err);
}

enum dlock_status zk_unlock_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                  struct dlock_error *err)
{
    struct zk_session *session = self;
    struct zk_attempt *attempts = malloc((n < TOGETHER ? n : TOGETHER) * sizeof *attempts);

    (void)err;
    for (size_t i = 0; i < n && attempts != NULL; i += TOGETHER)
        some_unlock(session, attempts, ops + i, n - i < TOGETHER ? n - i : TOGETHER);
    for (size_t i = 0; i < n && attempts == NULL; i++)
        ops[i]->status = zk_unlock(session, ops[i]->req, ops[i]->err);
    free(attempts);
    return DLOCK_OK;
}

enum dlock_status zk_unlock_dequeue(void *self, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    struct zk_session *session = self;
    struct zk_attempt attempt;
    const struct zk_slot *slot = req->attempt;
    bool deleted = false;
    enum dlock_status status = zk_slot_begin(&attempt, session, req, err);

    if (status != DLOCK_OK)
        return status;
    if (slot->node[0] != '\0' && slot->doubts == 0)
        return zk_slot_delete(&attempt, &deleted);
    return token_delete(&attempt, WAITERS_GO, &deleted);
}

void zk_unlock_forget(void *self, const struct dlock_request *req)
{
    struct zk_session *session = self;
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct zk_attempt attempt;

    if (zk_slot_begin(&attempt, session, req, &ignored) == DLOCK_OK)
        zk_slot_end(&attempt);
}
