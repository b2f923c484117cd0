/* SPDX-License-Identifier: MIT */
/*
 * One flight makes the node and reads its place in the queue. A token whose node may be there from
 * before is asked for first.
 */
#include "take.h"

#include "errmap.h"
#include "lib/holder_text.h"
#include "lib/time.h"
#include "parents.h"
#include "permit.h"
#include "slot.h"

#include <stdio.h>
#include <string.h>

#define TRIES 4 /* the node of the name, or our own node, may be deleted between two requests */

/* Questions while contenders before us take their permits, or go, and the pauses between them, each
 * twice the one before it. */
#define PATIENCE       12
#define PAUSE_FIRST_NS (1 * DL_NS_PER_MS)
#define PAUSE_MOST_NS  (16 * DL_NS_PER_MS)

/* One call of the slot. */
struct take {
    struct zk_attempt attempt;
    struct dlock_grant *grant;
    bool enqueue, refresh;
    int patience;
    int64_t pause_ns; /* the next one */
};

static enum dlock_status ask(struct take *take, bool *known);

static enum dlock_status fail(struct take *take, enum dlock_status status, const char *text)
{
    return dlock_fail(take->attempt.err, ZK_ORIGIN, status, 0, "%s", text);
}

/* ---- where the node stands ---- */

/* Takes the node back. OK: it is gone. */
static enum dlock_status take_back(struct take *take)
{
    bool deleted = false;

    return zk_slot_delete(&take->attempt, &deleted);
}

/* Without a queue entry, what to wait for is kept for slot watch. */
static enum dlock_status refused(struct take *take)
{
    struct zk_slot *slot = take->attempt.slot;
    char *predecessor = slot->predecessor;
    const bool front = slot->front;
    enum dlock_status status = DLOCK_INTERNAL;

    slot->predecessor = NULL;
    status = take_back(take);
    slot->predecessor = predecessor;
    slot->front = front;
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* A permit may be free, but contenders before us have to choose first, or go. Half of the time is
 * left for taking the node back. */
static bool settles(const struct take *take, const struct zk_standing *standing)
{
    const struct zk_attempt *attempt = &take->attempt;
    const int64_t until_ns =
        attempt->start_ns + (attempt->deadline_ns - attempt->start_ns) / 2 - take->pause_ns;

    return standing->limit > 1 && standing->before < standing->limit && take->patience > 0 &&
           zk_link_now(attempt->session->link) < until_ns;
}

static enum dlock_status ask_again(struct take *take)
{
    const struct timespec pause = dl_time_spec(take->pause_ns);
    bool known = false;
    enum dlock_status status = DLOCK_INTERNAL;

    take->patience--;
    take->pause_ns = 2 * take->pause_ns < PAUSE_MOST_NS ? 2 * take->pause_ns : PAUSE_MOST_NS;
    (void)nanosleep(&pause, NULL);
    status = ask(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_BUSY : status;
}

/* The slot has the node. */
static enum dlock_status stands(struct take *take, const struct zk_standing *standing)
{
    const int64_t lease_ms = zk_slot_lease_ms(&take->attempt, take->attempt.start_ns);

    if (lease_ms <= 0)
        return fail(take, DLOCK_UNAVAILABLE, "the servers have not confirmed the session in time");
    if (standing->holds) {
        zk_slot_grant(&take->attempt, standing, lease_ms, take->grant);
        return DLOCK_OK;
    }
    zk_slot_wait(standing, take->grant);
    if (!take->enqueue && !take->refresh && take->attempt.slot->queued_ns == 0)
        return settles(take, standing) ? ask_again(take) : refused(take);
    if (take->enqueue || take->refresh)
        zk_slot_queue(&take->attempt, lease_ms, take->grant);
    return DLOCK_BUSY;
}

/* ---- a node that nothing was said of yet ---- */

static enum dlock_status exhausted(struct take *take)
{
    enum dlock_status status = take_back(take);

    if (status != DLOCK_OK)
        return status;
    return dlock_fail(take->attempt.err, ZK_ORIGIN, DLOCK_CONFIG, 0,
                      "the sequences below %s are used up (delete that node when nobody uses it)",
                      take->attempt.path.text);
}

static enum dlock_status other_limit(struct take *take, uint32_t limit)
{
    enum dlock_status status = take_back(take);

    if (status != DLOCK_OK)
        return status;
    return dlock_fail(take->attempt.err, ZK_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, limit,
                      dlock_request_limit(take->attempt.req));
}

/* OK: the node may stay. */
static enum dlock_status admit(struct take *take, const struct zk_standing *standing)
{
    if (standing->exhausted)
        return exhausted(take);
    return standing->other_limit != 0 ? other_limit(take, standing->other_limit) : DLOCK_OK;
}

/* A token from before. OK with *known false: it has no node. */
static enum dlock_status ask(struct take *take, bool *known)
{
    const struct zk_slot *slot = take->attempt.slot;
    const bool is_new =
        slot->queued_ns == 0 && !slot->holds; /* the answer to its create was lost */
    struct zk_standing standing;
    enum dlock_status status = zk_slot_ask(&take->attempt, &standing, known);

    if (status == DLOCK_OK && *known && is_new)
        status = admit(take, &standing);
    return status == DLOCK_OK && *known ? stands(take, &standing) : status;
}

/* ---- the flight ---- */

/* Notes what became of the create. */
static void created_note(struct take *take, const struct zk_call *create, enum dlock_status status,
                         int64_t session_id)
{
    struct zk_slot *slot = take->attempt.slot;
    const char *name = NULL;

    if (!zk_slot_answered(take->attempt.session->link, create)) {
        if (status == DLOCK_UNAVAILABLE || status == DLOCK_NOMEM || session_id == 0)
            return; /* not sent */
        slot->session_id = session_id;
        slot->doubts++;
        return;
    }
    if (create->rc != ZOK)
        return;
    slot->session_id = session_id;
    name = create->text != NULL ? strrchr(create->text, '/') : NULL;
    if (name != NULL && zk_slot_name(slot, name + 1))
        slot->czxid = create->stat.czxid;
    else
        slot->doubts++; /* to be found by its token */
}

/* OK with *again: the node is gone. */
static enum dlock_status permit_ask(struct take *take, const struct String_vector *children,
                                    struct zk_standing *standing, bool *again)
{
    bool known = false;
    enum dlock_status status = zk_permit_take(&take->attempt, children, standing, &known);

    if (status == DLOCK_LOST) {
        zk_slot_error_clear(take->attempt.err);
        zk_slot_over(&take->attempt);
        *again = true;
        return DLOCK_OK;
    }
    if (status != DLOCK_OK)
        return status;
    if (!known) {
        zk_slot_gone(&take->attempt);
        *again = true;
        return DLOCK_OK;
    }
    zk_slot_note(&take->attempt, standing);
    return stands(take, standing);
}

/* The node was made; children: read behind it. */
static enum dlock_status made_judge(struct take *take, const struct zk_call *children, bool *again)
{
    struct zk_attempt *attempt = &take->attempt;
    struct zk_slot *slot = attempt->slot;
    struct zk_standing standing;
    enum dlock_status status = DLOCK_OK;

    if (slot->node[0] == '\0')
        return fail(take, DLOCK_PROTOCOL, "the servers named a node that was not asked for");
    if (children->rc != ZOK && children->rc != ZNONODE) {
        status = take_back(take);
        return status == DLOCK_OK
                   ? zk_errmap_fail(attempt->err, children->rc, "list", attempt->path.text)
                   : status;
    }
    if (slot->doubts > 0) { /* an earlier node may be before this one */
        bool known = false;

        status = ask(take, &known);
        *again = status == DLOCK_OK && !known;
        return status;
    }
    zk_queue_judge(&standing, &children->children, slot->node, attempt->token, attempt->shared);
    if (standing.own == NULL) { /* somebody has deleted it already */
        zk_slot_gone(attempt);
        *again = true;
        return DLOCK_OK;
    }
    status = admit(take, &standing);
    if (status != DLOCK_OK)
        return status;
    if (standing.limit > 1)
        return permit_ask(take, &children->children, &standing, again);
    zk_slot_note(attempt, &standing);
    return stands(take, &standing);
}

/* OK with *again: nothing was made. */
static enum dlock_status flight_run(struct take *take, struct zk_flight *flight, bool *again)
{
    struct zk_attempt *attempt = &take->attempt;
    const struct dlock_request *req = attempt->req;
    char path[ZK_PATH_MAX + 1 + ZK_NODE_MAX], text[DL_HOLDER_TEXT_MAX];
    int64_t session_id = attempt->slot->doubts > 0 ? attempt->slot->session_id : 0;
    struct zk_call *create = NULL, *children = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)zk_node_make(path, attempt->session->config.recipe, attempt->path.text, attempt->token,
                       req->mode, dlock_request_limit(req));
    create = zk_flight_add(flight, ZK_CREATE, path);
    children = zk_flight_add(flight, ZK_CHILDREN, attempt->path.text);
    if (create == NULL || children == NULL)
        return fail(take, DLOCK_NOMEM, "no memory for a request");
    create->flags = ZOO_EPHEMERAL_SEQUENTIAL;
    create->data = text;
    create->data_len = dl_holder_text_make(text, req);
    status = zk_flight_run(flight, &session_id, attempt->deadline_ns, attempt->err);
    *again = status == DLOCK_LOST;
    if (status == DLOCK_LOST) {
        zk_slot_error_clear(attempt->err);
        zk_slot_over(attempt);
        return DLOCK_OK;
    }
    created_note(take, create, status, session_id);
    if (status != DLOCK_OK)
        return status;
    if (create->rc == ZOK)
        return made_judge(take, children, again);
    *again = create->rc == ZNONODE;
    return create->rc == ZNONODE ? zk_parents_make(attempt->session, attempt->path.text,
                                                   attempt->deadline_ns, attempt->err)
                                 : zk_errmap_fail(attempt->err, create->rc, "create a node below",
                                                  attempt->path.text);
}

static enum dlock_status try_once(struct take *take, bool *again)
{
    struct zk_flight *flight = zk_flight_new(take->attempt.session->link, 2);
    enum dlock_status status = DLOCK_INTERNAL;

    if (flight == NULL)
        return fail(take, DLOCK_NOMEM, "no memory for a request");
    status = flight_run(take, flight, again);
    zk_flight_free(flight);
    return status;
}

static enum dlock_status try(struct take *take)
{
    const struct zk_slot *slot = take->attempt.slot;
    bool again = true, known = false;
    enum dlock_status status = DLOCK_OK;

    if (slot->node[0] != '\0' || slot->doubts > 0)
        status = ask(take, &known);
    for (int i = 0; i < TRIES && status == DLOCK_OK && !known && again; i++) {
        again = false;
        status = try_once(take, &again);
    }
    if (status == DLOCK_OK && !known && again)
        status = dlock_fail(take->attempt.err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "%s is deleted as fast as it is made", take->attempt.path.text);
    if (status == DLOCK_OK || status == DLOCK_BUSY || status == DLOCK_PROTOCOL)
        return status;
    if (slot->node[0] == '\0' && (slot->doubts == 0 || status == DLOCK_CONFIG))
        return status;
    take->attempt.err->status = DLOCK_UNKNOWN; /* [TRY-4] */
    return DLOCK_UNKNOWN;
}

enum dlock_status zk_take(struct zk_session *session, const struct dlock_request *req,
                          struct dlock_grant *grant, struct dlock_error *err)
{
    struct take take = {.grant = grant,
                        .enqueue = (req->flags & DLOCK_REQ_ENQUEUE) != 0,
                        .refresh = (req->flags & DLOCK_REQ_REFRESH) != 0,
                        .patience = PATIENCE,
                        .pause_ns = PAUSE_FIRST_NS};
    bool known = false;
    enum dlock_status status = zk_slot_begin(&take.attempt, session, req, err);

    if (status != DLOCK_OK)
        return status;
    take.attempt.claims = true;
    status = take.refresh ? ask(&take, &known) : try(&take);
    if (take.refresh && status == DLOCK_OK && !known)
        status = DLOCK_BUSY; /* not queued any more */
    if (status == DLOCK_OK || status == DLOCK_BUSY)
        zk_slot_error_clear(err);
    return status;
}
