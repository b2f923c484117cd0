/* SPDX-License-Identifier: MIT */
#include "take.h"

#include "lib/request.h"
#include "lib/time.h"
#include "slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * One exchange makes the node and reads its place in the queue. A token whose node may be there
 * from before is asked for first. Each step is made for all elements of a batch that need it; a
 * single call is a batch of one.
 */

#define TAKE_MOST     (ZK_EXCHANGE_MOST / 2) /* two requests for each */
#define LEVELS_MOST   64                     /* in one exchange */
#define TRIES         4 /* the node of the name, or our own node, may be deleted between two requests */
#define SLEEP_MOST_NS (143 * DL_NS_PER_MS)

/* Pauses between questions while contenders before us take their permits, or go, each twice the one
 * before it. */
#define PAUSE_FIRST_NS (1 * DL_NS_PER_MS)
#define PAUSE_MOST_NS  (16 * DL_NS_PER_MS)

enum reason {
    ADMITTED,        /* the node may stay */
    HELD,            /* by another node: BUSY. What the slot waits for is kept for slot watch */
    USED_UP,         /* the sequences of the name: CONFIG */
    OTHER_LIMIT,     /* of the name: CONFIG */
    NOT_TO_BE_LISTED /* the children of the name cannot be read */
};

/* A node that was made has to go; the answer waits for that. */
struct refusal {
    enum reason reason;
    uint32_t limit; /* of OTHER_LIMIT: that of the name */
    int rc;         /* of NOT_TO_BE_LISTED */
};

/* One call of the slot, or an element of a batch. */
struct take {
    struct zk_attempt attempt;
    struct dlock_grant *grant;
    bool enqueue, refresh;
    int64_t *sleep_ns; /* how long all elements of the batch may still sleep while contenders for
 permits choose; 0: the answer is BUSY */
    int64_t pause_ns;  /* the next one */

    enum dlock_status status;
    bool again;             /* with OK: nothing was made */
    bool orphan;            /* the name has no node */
    struct refusal refusal; /* with a reason, the status is BUSY until the node is gone */
    struct zk_call *create, *children;
};

static bool is_to_try(const struct take *take)
{
    return take->status == DLOCK_OK && take->again;
}

static int64_t deadline_of(struct take *const *takes, size_t n)
{
    int64_t deadline_ns = takes[0]->attempt.deadline_ns;

    for (size_t i = 1; i < n; i++)
        if (takes[i]->attempt.deadline_ns > deadline_ns)
            deadline_ns = takes[i]->attempt.deadline_ns;
    return deadline_ns;
}

/* ---- the node of the name ---- */

/* The base and what is above it are persistent. The node of a name, and with key=raw each node
 * below the base, is a container: the servers delete it some time after its last child. */

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static bool is_made(const struct zk_call *call)
{
    return call->rc == ZOK || call->rc == ZNODEEXISTS;
}

/* The last node of the exchange counts: without the right to make a node, the servers do not say
 * whether it is there. */
static enum dlock_status answers_judge(struct zk_exchange *exchange, size_t count,
                                       struct dlock_error *err)
{
    for (size_t i = 0; i < count && !is_made(zk_exchange_call(exchange, count - 1)); i++) {
        const struct zk_call *call = zk_exchange_call(exchange, i);

        if (call->rc == ZNONODE)
            return dlock_fail(err, ZK_ORIGIN, DLOCK_UNAVAILABLE, ZNONODE,
                              "create %s: a node above it was deleted meanwhile", call->path);
        if (!is_made(call))
            return zk_exchange_fail(err, call->rc, "create", call->path);
    }
    return DLOCK_OK;
}

static bool level_add(const struct zk_session *session, struct zk_exchange *exchange,
                      const char *path, size_t end)
{
    char text[ZK_PATH_MAX + 1];
    struct zk_call *call = NULL;

    memcpy(text, path, end);
    text[end] = '\0';
    call = zk_exchange_add(exchange, ZK_CREATE, text);
    if (call == NULL)
        return false;
    call->data = "";
    call->flags = end > session->config.base_len ? ZOO_CONTAINER : ZOO_PERSISTENT;
    return true;
}

/* Makes the node that ends at each of `ends`, in one exchange. */
static enum dlock_status levels_make(struct zk_session *session, const char *path,
                                     const size_t *ends, size_t count, int64_t deadline_ns,
                                     struct dlock_error *err)
{
    struct zk_exchange *exchange = zk_exchange_new(session->link, count);
    int64_t session_id = 0;
    enum dlock_status status = exchange != NULL ? DLOCK_OK : no_memory(err);

    for (size_t i = 0; i < count && status == DLOCK_OK; i++)
        if (!level_add(session, exchange, path, ends[i]))
            status = no_memory(err);
    if (status == DLOCK_OK)
        status = zk_exchange_run(exchange, &session_id, deadline_ns, err);
    if (status == DLOCK_OK)
        status = answers_judge(exchange, count, err);
    zk_exchange_free(exchange);
    return status;
}

static enum dlock_status all_make(struct zk_session *session, const char *path, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    const size_t len = strlen(path);
    size_t ends[LEVELS_MOST], count = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 1; i <= len && status == DLOCK_OK; i++) {
        if (i == len || path[i] == '/')
            ends[count++] = i;
        if (count < LEVELS_MOST && i < len)
            continue;
        status = levels_make(session, path, ends, count, deadline_ns, err);
        count = 0;
    }
    return status;
}

/* The answer to the create of the last node alone. False: a node above it is missing. */
static bool last_judge(struct take *take, const struct zk_call *call)
{
    if (call->rc == ZNONODE)
        return false;
    if (!is_made(call))
        take->status = zk_exchange_fail(take->attempt.err, call->rc, "create", call->path);
    return true;
}

/* Makes the last node of each. Returns how many are left in `takes`: a node above is missing. */
static size_t lasts_make(struct zk_session *session, struct take **takes, size_t n,
                         int64_t deadline_ns)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    struct zk_exchange *exchange = zk_exchange_new(session->link, n);
    int64_t session_id = 0;
    enum dlock_status said = DLOCK_OK;
    bool made = exchange != NULL;
    size_t left = 0;

    for (size_t i = 0; i < n && made; i++)
        made = level_add(session, exchange, takes[i]->attempt.path.text,
                         strlen(takes[i]->attempt.path.text));
    said = made ? zk_exchange_run(exchange, &session_id, deadline_ns, &why) : no_memory(&why);
    for (size_t i = 0; i < n; i++) {
        struct take *take = takes[i];

        take->status = zk_exchange_part(exchange, i, 1, said, &why, take->attempt.err);
        if (take->status == DLOCK_OK && !last_judge(take, zk_exchange_call(exchange, i)))
            takes[left++] = take;
    }
    zk_exchange_free(exchange);
    return left;
}

/* Makes the nodes of names that have none. One exchange makes all that need no more than their last
 * node. If a node above is missing, one path is made first, and the last nodes of the others are
 * tried again; what is still missing then has an exchange each. The status is never UNKNOWN
 * (UNAVAILABLE): a node without children matters to nobody. */
static void parents_make(struct take *const *takes, size_t n)
{
    struct zk_session *session = takes[0]->attempt.session;
    struct take *of[TAKE_MOST], *some[TAKE_MOST];
    size_t count = 0, left = 0;
    int64_t deadline_ns = 0;

    for (size_t i = 0; i < n; i++)
        if (is_to_try(takes[i]) && takes[i]->orphan)
            of[count++] = takes[i];
    if (count == 0)
        return;
    memcpy(some, of, count * sizeof(struct take *));
    deadline_ns = deadline_of(of, count);
    left = lasts_make(session, some, count, deadline_ns);
    for (size_t i = 0; i < left; i++) {
        struct zk_attempt *attempt = &some[i]->attempt;

        some[i]->status = all_make(session, attempt->path.text, deadline_ns, attempt->err);
        if (i == 0 && left > 1)
            left = 1 + lasts_make(session, some + 1, left - 1, deadline_ns);
    }
    for (size_t i = 0; i < count; i++)
        if (of[i]->status == DLOCK_UNKNOWN)
            of[i]->status = of[i]->attempt.err->status = DLOCK_UNAVAILABLE;
}

/* ---- nodes that have to go ---- */

/* The node is gone. */
static enum dlock_status say(const struct take *take)
{
    const struct zk_attempt *attempt = &take->attempt;

    if (take->refusal.reason == USED_UP)
        return dlock_fail(
            attempt->err, ZK_ORIGIN, DLOCK_CONFIG, 0,
            "the sequences below %s are used up (delete that node when nobody uses it)",
            attempt->path.text);
    if (take->refusal.reason == OTHER_LIMIT)
        return dlock_fail(attempt->err, ZK_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER,
                          take->refusal.limit, attempt->req->limit);
    if (take->refusal.reason == NOT_TO_BE_LISTED)
        return zk_exchange_fail(attempt->err, take->refusal.rc, "list", attempt->path.text);
    return DLOCK_BUSY;
}

/* What a slot waits for, while its node is deleted. */
struct kept {
    char *predecessor;
    bool front;
};

static void keep(struct kept *kept, const struct take *take)
{
    struct zk_slot *slot = take->attempt.slot;

    if (take->refusal.reason != HELD)
        return;
    *kept = (struct kept){.predecessor = slot->predecessor, .front = slot->front};
    slot->predecessor = NULL;
}

static void give_back(const struct kept *kept, const struct take *take)
{
    struct zk_slot *slot = take->attempt.slot;

    if (take->refusal.reason != HELD)
        return;
    slot->predecessor = kept->predecessor;
    slot->front = kept->front;
}

/* Deletes them, in one exchange for those of one session. */
static void refused_delete(struct take *const *takes, size_t n)
{
    struct zk_slot_step deletions[TAKE_MOST];
    struct kept kept[TAKE_MOST];
    struct take *of[TAKE_MOST];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (takes[i]->refusal.reason == ADMITTED)
            continue;
        keep(&kept[count], takes[i]);
        deletions[count].attempt = &takes[i]->attempt;
        of[count++] = takes[i];
    }
    zk_slot_delete_all(deletions, count);
    for (size_t i = 0; i < count; i++) {
        give_back(&kept[i], of[i]);
        of[i]->status = deletions[i].status == DLOCK_OK ? say(of[i]) : deletions[i].status;
        of[i]->refusal.reason = ADMITTED;
    }
}

static enum dlock_status ask(struct take *take, bool *known);

static enum dlock_status fail(struct take *take, enum dlock_status status, const char *text)
{
    return dlock_fail(take->attempt.err, ZK_ORIGIN, status, 0, "%s", text);
}

static enum dlock_status refuse(struct take *take, enum reason reason)
{
    take->refusal.reason = reason;
    return DLOCK_BUSY;
}

/* ---- where the node stands ---- */

/* A permit may be free, but contenders before us have to choose first, or go. Half of the time is
 * left for taking the node back. */
static bool settles(const struct take *take, const struct zk_position *position)
{
    const struct zk_attempt *attempt = &take->attempt;
    const int64_t until_ns =
        attempt->start_ns + (attempt->deadline_ns - attempt->start_ns) / 2 - take->pause_ns;

    return position->limit > 1 && position->before < position->limit &&
           take->pause_ns <= *take->sleep_ns && zk_link_now(attempt->session->link) < until_ns;
}

static enum dlock_status ask_again(struct take *take)
{
    const struct timespec pause = dl_time_spec(take->pause_ns);
    bool known = false;
    enum dlock_status status = DLOCK_INTERNAL;

    *take->sleep_ns -= take->pause_ns;
    take->pause_ns = 2 * take->pause_ns < PAUSE_MOST_NS ? 2 * take->pause_ns : PAUSE_MOST_NS;
    (void)nanosleep(&pause, NULL);
    status = ask(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_BUSY : status;
}

/* The slot has the node. */
static enum dlock_status stands(struct take *take, const struct zk_position *position)
{
    const int64_t lease_ms = zk_slot_lease_ms(&take->attempt, take->attempt.start_ns);

    if (lease_ms <= 0)
        return fail(take, DLOCK_UNAVAILABLE, "the servers have not confirmed the session in time");
    if (position->holds) {
        zk_slot_grant(&take->attempt, position, lease_ms, take->grant);
        return DLOCK_OK;
    }
    zk_slot_wait(position, take->grant);
    if (!take->enqueue && !take->refresh && take->attempt.slot->queued_ns == 0)
        return settles(take, position) ? ask_again(take) : refuse(take, HELD);
    if (take->enqueue || take->refresh)
        zk_slot_queue(&take->attempt, lease_ms, take->grant);
    return DLOCK_BUSY;
}

/* A node that nothing was said of yet. OK: it may stay. */
static enum dlock_status admit(struct take *take, const struct zk_position *position)
{
    if (position->exhausted)
        return refuse(take, USED_UP);
    take->refusal.limit = position->other_limit;
    return position->other_limit != 0 ? refuse(take, OTHER_LIMIT) : DLOCK_OK;
}

/* The answer to its create was lost. */
static bool is_new(const struct take *take)
{
    return take->attempt.slot->queued_ns == 0 && !take->attempt.slot->holds;
}

/* A token from before has a node. was_new: before it was asked for. */
static enum dlock_status found(struct take *take, const struct zk_position *position, bool was_new)
{
    const enum dlock_status status = was_new ? admit(take, position) : DLOCK_OK;

    return status == DLOCK_OK ? stands(take, position) : status;
}

/* A token from before. OK with *known false: it has no node. */
static enum dlock_status ask(struct take *take, bool *known)
{
    const bool was_new = is_new(take);
    struct zk_position position;
    enum dlock_status status = zk_slot_ask(&take->attempt, &position, known);

    return status == DLOCK_OK && *known ? found(take, &position, was_new) : status;
}

/* ---- the exchange ---- */

/* Notes what became of the create. */
static void created_note(struct take *take, enum dlock_status status, int64_t session_id)
{
    const struct zk_call *create = take->create;
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

/* OK with take->again: the node is gone. */
static enum dlock_status permit_ask(struct take *take, const struct String_vector *children,
                                    struct zk_position *position)
{
    bool known = false;
    enum dlock_status status = zk_slot_permit_take(&take->attempt, children, position, &known);

    if (status == DLOCK_LOST) {
        zk_slot_error_clear(take->attempt.err);
        zk_slot_over(&take->attempt);
        take->again = true;
        return DLOCK_OK;
    }
    if (status != DLOCK_OK)
        return status;
    if (!known) {
        zk_slot_gone(&take->attempt);
        take->again = true;
        return DLOCK_OK;
    }
    zk_slot_note(&take->attempt, position);
    return stands(take, position);
}

/* The node was made, and the children were read behind it. */
static enum dlock_status made_judge(struct take *take)
{
    struct zk_attempt *attempt = &take->attempt;
    const struct zk_call *children = take->children;
    struct zk_slot *slot = attempt->slot;
    struct zk_position position;
    enum dlock_status status = DLOCK_OK;

    if (slot->node[0] == '\0')
        return fail(take, DLOCK_PROTOCOL, "the servers named a node that was not asked for");
    if (children->rc != ZOK && children->rc != ZNONODE) {
        take->refusal.rc = children->rc;
        return refuse(take, NOT_TO_BE_LISTED);
    }
    if (slot->doubts > 0) { /* an earlier node may be before this one */
        bool known = false;

        status = ask(take, &known);
        take->again = status == DLOCK_OK && !known;
        return status;
    }
    zk_queue_judge(&position, &children->children, slot->node, attempt->token, attempt->shared);
    if (position.own == NULL) { /* somebody has deleted it already */
        zk_slot_gone(attempt);
        take->again = true;
        return DLOCK_OK;
    }
    status = admit(take, &position);
    if (status != DLOCK_OK)
        return status;
    if (position.limit > 1)
        return permit_ask(take, &children->children, &position);
    zk_slot_note(attempt, &position);
    return stands(take, &position);
}

/* status: of the two calls. OK with take->again: nothing was made. */
static enum dlock_status exchange_judge(struct take *take, enum dlock_status status,
                                        int64_t session_id)
{
    struct zk_attempt *attempt = &take->attempt;

    if (status == DLOCK_LOST) {
        zk_slot_error_clear(attempt->err);
        zk_slot_over(attempt);
        take->again = true;
        return DLOCK_OK;
    }
    if (take->create == NULL) /* no memory */
        return status;
    created_note(take, status, session_id);
    if (status != DLOCK_OK)
        return status;
    if (take->create->rc == ZOK)
        return made_judge(take);
    take->again = take->orphan = take->create->rc == ZNONODE;
    return take->orphan ? DLOCK_OK
                        : zk_exchange_fail(attempt->err, take->create->rc, "create a node below",
                                           attempt->path.text);
}

static bool calls_add(struct take *take, struct zk_exchange *exchange)
{
    const struct zk_attempt *attempt = &take->attempt;
    const struct dlock_request *req = attempt->req;
    char path[ZK_PATH_MAX + 1 + ZK_NODE_MAX], text[DL_HOLDER_TEXT_MAX];

    (void)zk_node_make(path, attempt->session->config.recipe, attempt->path.text, attempt->token,
                       req->mode, req->limit);
    take->create = zk_exchange_add(exchange, ZK_CREATE, path);
    take->children = zk_exchange_add(exchange, ZK_CHILDREN, attempt->path.text);
    if (take->create == NULL || take->children == NULL)
        return false;
    take->create->flags = ZOO_EPHEMERAL_SEQUENTIAL;
    return zk_exchange_value(take->create, text, dl_holder_text_make(text, req));
}

/* Of more than one, none is in doubt: that would be of one session. */
static void exchange_run(struct take *const *takes, size_t n)
{
    struct zk_exchange *exchange = zk_exchange_new(takes[0]->attempt.session->link, 2 * n);
    const struct zk_slot *slot = takes[0]->attempt.slot;
    struct dlock_error why = DLOCK_ERROR_INIT;
    int64_t session_id = slot->doubts > 0 ? slot->session_id : 0;
    enum dlock_status said = DLOCK_OK;
    bool made = exchange != NULL;

    for (size_t i = 0; i < n; i++) {
        takes[i]->create = takes[i]->children = NULL;
        takes[i]->again = takes[i]->orphan = false;
        made = made && calls_add(takes[i], exchange);
    }
    said = made ? zk_exchange_run(exchange, &session_id, deadline_of(takes, n), &why)
                : dlock_fail(&why, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    for (size_t i = 0; i < n; i++)
        takes[i]->status = exchange_judge(
            takes[i], zk_exchange_part(exchange, 2 * i, 2, said, &why, takes[i]->attempt.err),
            session_id);
    zk_exchange_free(exchange);
}

/* ---- all steps ---- */

/* One try of each element that needs one. False: there is none. */
static bool round_run(struct take *const *takes, size_t n)
{
    struct take *together[TAKE_MOST];
    size_t count = 0;
    bool some = false;

    for (size_t i = 0; i < n; i++) {
        if (!is_to_try(takes[i]))
            continue;
        some = true;
        if (takes[i]->attempt.slot->doubts > 0)
            exchange_run(&takes[i], 1);
        else
            together[count++] = takes[i];
    }
    if (count > 0)
        exchange_run(together, count);
    if (!some)
        return false;
    refused_delete(takes, n);
    parents_make(takes, n);
    return true;
}

static void first_asked(struct take *take, const struct zk_slot_step *question, bool was_new)
{
    take->status = question->status;
    take->again = question->status == DLOCK_OK && !question->known;
    if (take->again && take->refresh)
        take->status = DLOCK_BUSY; /* not queued any more */
    else if (take->status == DLOCK_OK && question->known)
        take->status = found(take, &question->position, was_new);
}

static void first_ask(struct take *const *takes, size_t n)
{
    struct zk_slot_step questions[TAKE_MOST];
    struct take *of[TAKE_MOST];
    bool were_new[TAKE_MOST];
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        const struct zk_slot *slot = takes[i]->attempt.slot;

        takes[i]->status = DLOCK_OK;
        takes[i]->again = true;
        if (!takes[i]->refresh && slot->node[0] == '\0' && slot->doubts == 0)
            continue;
        questions[count].attempt = &takes[i]->attempt;
        were_new[count] = is_new(takes[i]);
        of[count++] = takes[i];
    }
    zk_slot_ask_all(questions, count);
    for (size_t i = 0; i < count; i++)
        first_asked(of[i], &questions[i], were_new[i]);
}

/* The node was not made, or is gone, or else nobody knows [TRY-4]. */
static void end(struct take *take)
{
    const struct zk_slot *slot = take->attempt.slot;
    struct dlock_error *err = take->attempt.err;

    if (take->status == DLOCK_OK || take->status == DLOCK_BUSY)
        zk_slot_error_clear(err);
    else if (!take->refresh && take->status != DLOCK_PROTOCOL &&
             (slot->node[0] != '\0' || (slot->doubts > 0 && take->status != DLOCK_CONFIG)))
        take->status = err->status = DLOCK_UNKNOWN;
}

static void take_all(struct take *const *takes, size_t n)
{
    first_ask(takes, n);
    refused_delete(takes, n);
    for (int i = 0; i < TRIES && round_run(takes, n); i++)
        ;
    for (size_t i = 0; i < n; i++)
        if (is_to_try(takes[i]))
            takes[i]->status =
                dlock_fail(takes[i]->attempt.err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                           "%s is deleted as fast as it is made", takes[i]->attempt.path.text);
    for (size_t i = 0; i < n; i++)
        end(takes[i]);
}

/* ---- calls ---- */

static enum dlock_status take_init(struct take *take, struct zk_session *session,
                                   const struct dlock_request *req, struct dlock_grant *grant,
                                   int64_t *sleep_ns, struct dlock_error *err)
{
    enum dlock_status status = zk_slot_begin(&take->attempt, session, req, err);

    take->attempt.claims = true;
    take->grant = grant;
    take->enqueue = (req->flags & DLOCK_REQ_ENQUEUE) != 0;
    take->refresh = (req->flags & DLOCK_REQ_REFRESH) != 0;
    take->sleep_ns = sleep_ns;
    take->pause_ns = PAUSE_FIRST_NS;
    take->refusal = (struct refusal){.reason = ADMITTED};
    return status;
}

static enum dlock_status take_one(struct zk_session *session, const struct dlock_request *req,
                                  struct dlock_grant *grant, int64_t *sleep_ns,
                                  struct dlock_error *err)
{
    struct take take, *one = &take;
    enum dlock_status status = take_init(&take, session, req, grant, sleep_ns, err);

    if (status != DLOCK_OK)
        return status;
    take_all(&one, 1);
    return take.status;
}

/*
 * Locks whose attempts have nothing in doubt, TAKE_MOST at most: the steps of all are made
 * together, in this order. A node that is refused is deleted before the next step. Each element has
 * its status. False: no memory, and nothing was done.
 */
static bool take_together(struct zk_session *session, struct dlock_batch_op *const *ops, size_t n,
                          int64_t *sleep_ns)
{
    struct take *takes = malloc(n * sizeof *takes), *list[TAKE_MOST];
    struct dlock_batch_op *of[TAKE_MOST];
    size_t count = 0;

    if (takes == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct dlock_batch_op *op = ops[i];

        op->status = take_init(&takes[count], session, op->req, &op->grant, sleep_ns, op->err);
        if (op->status != DLOCK_OK)
            continue;
        list[count] = &takes[count];
        of[count++] = op;
    }
    if (count > 0)
        take_all(list, count);
    for (size_t i = 0; i < count; i++)
        of[i]->status = takes[i].status;
    free(takes);
    return true;
}

enum dlock_status zk_take(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                          struct dlock_error *err)
{
    struct zk_session *session = self;
    int64_t sleep_ns = SLEEP_MOST_NS;

    return take_one(session, req, grant, &sleep_ns, err);
}

/* ---- a batch ---- */

/* What the steps are made together for: a lock, and no answer was lost. */
static bool can_batch(const struct dlock_request *req)
{
    const struct zk_slot *slot = req->attempt;

    return req->limit == 1 && slot->doubts == 0;
}

static bool is_same_name(const struct dlock_request *a, const struct dlock_request *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

/* Its node may be refused, and a reader behind it may not. */
static bool is_in_the_way(struct dlock_batch_op *const *ops, size_t n, size_t i)
{
    const struct dlock_request *req = ops[i]->req;

    if (req->mode == DLOCK_SHARED || (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0)
        return false;
    for (size_t j = i + 1; j < n; j++)
        if (ops[j]->req->mode == DLOCK_SHARED && is_same_name(ops[j]->req, req))
            return true;
    return false;
}

/* How many of `ops` can be in a batch: they are first in `ordered`, and the others follow. */
static size_t order(struct dlock_batch_op *const *ops, size_t n, struct dlock_batch_op **ordered)
{
    struct dlock_batch_op *last[TAKE_MOST], *alone[TAKE_MOST];
    size_t first = 0, behind = 0, rest = 0;

    for (size_t i = 0; i < n; i++)
        if (!can_batch(ops[i]->req))
            alone[rest++] = ops[i];
        else if (is_in_the_way(ops, n, i))
            last[behind++] = ops[i];
        else
            ordered[first++] = ops[i];
    memcpy(ordered + first, last, behind * sizeof(struct dlock_batch_op *));
    memcpy(ordered + first + behind, alone, rest * sizeof(struct dlock_batch_op *));
    return first + behind;
}

static void some_take(struct zk_session *session, struct dlock_batch_op *const *ops, size_t n,
                      int64_t *sleep_ns)
{
    struct dlock_batch_op *ordered[TAKE_MOST];
    size_t together = order(ops, n, ordered);

    if (together > 0 && !take_together(session, ordered, together, sleep_ns))
        together = 0;
    for (size_t i = together; i < n; i++)
        ordered[i]->status =
            take_one(session, ordered[i]->req, &ordered[i]->grant, sleep_ns, ordered[i]->err);
}

enum dlock_status zk_take_batch(void *self, struct dlock_batch_op *const *ops, size_t n,
                                struct dlock_error *err)
{
    struct zk_session *session = self;
    int64_t sleep_ns = SLEEP_MOST_NS;

    (void)err;
    for (size_t i = 0; i < n; i += TAKE_MOST)
        some_take(session, ops + i, n - i < TAKE_MOST ? n - i : TAKE_MOST, &sleep_ns);
    return DLOCK_OK;
}
