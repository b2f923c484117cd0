/* SPDX-License-Identifier: MIT */
#include "take.h"

#include "lib/text.h"
#include "lib/time.h"
#include "txn.h"
#include "unlock.h"

struct take {
    struct etcd_session *session;
    const struct dlock_request *req;
    struct dlock_grant *grant;
    struct dlock_error *err;
    struct etcd_slot *slot;
    struct etcd_keys keys;
    char value[ETCD_VALUE_SIZE]; /* of a lock; of a semaphore as a waiter */
    size_t value_len;
    uint32_t limit; /* 1: a lock */
    bool shared, enqueue;
    struct etcd_lease *full, *brief; /* of the ttl; of a waiter: the same one, if it is as long */
    bool full_lasts, brief_lasts;
    bool again;     /* leases of the pool have ended, or another leader counts their time */
    bool overtaken; /* the readers that it was to join have gone: nothing was put */
    bool put;       /* the key was put, or found: what fails then is UNKNOWN */
    struct etcd_rpc txn, alive;
};

#define HURRY_NS (250 * DL_NS_PER_MS)

static enum dlock_status no_memory(struct take *take)
{
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static void take_begin(struct take *take, struct etcd_session *session,
                       const struct dlock_request *req, struct dlock_grant *grant,
                       struct dlock_error *err)
{
    char token[ETCD_TOKEN_HEX + 1];

    take->session = session;
    take->req = req;
    take->grant = grant;
    take->err = err;
    take->slot = req->attempt;
    take->shared = req->mode == DLOCK_SHARED;
    take->enqueue = (req->flags & DLOCK_REQ_ENQUEUE) != 0;
    take->full = NULL;
    take->brief = NULL;
    take->again = false;
    take->put = false;
    dl_hex_encode(token, req->token, DLOCK_TOKEN_SIZE);
    etcd_kv_keys(&take->keys, &session->config, req->name, req->name_len, token);
    take->limit = req->limit;
    take->value_len =
        take->limit > 1
            ? etcd_kv_make_waiter(take->value, sizeof take->value, take->limit, req->label)
            : etcd_kv_make(take->value, sizeof take->value, req->mode, req->label);
    take->value_len = etcd_kv_add_data(take->value, take->value_len, req);
}

/* ---- leases ---- */

/* No key has them: they go back to the pool. In doubt: they are dropped. */
static void leases_return(struct take *take)
{
    struct etcd_lease_pool *pool = &take->session->pool;

    etcd_lease_pool_put(pool, take->full);
    if (take->brief != take->full)
        etcd_lease_pool_put(pool, take->brief);
    take->full = NULL;
    take->brief = NULL;
}

static void leases_drop(struct take *take)
{
    etcd_lease_drop(take->full);
    if (take->brief != take->full)
        etcd_lease_drop(take->brief);
    take->full = NULL;
    take->brief = NULL;
}

/* The key was put with this one; the other one is not used. */
static void leases_keep(struct take *take, struct etcd_lease *kept)
{
    if (take->full == kept)
        take->full = NULL;
    if (take->brief == kept)
        take->brief = NULL;
    leases_return(take);
}

/* The request of a caller that goes away soon may be executed after that. What it puts then must
 * not last. */
static int64_t full_lease_ms(const struct take *take, int64_t waiter_ms)
{
    const int64_t left_ns = take->req->deadline_ns - etcd_lease_pool_now(&take->session->pool);

    return take->enqueue && left_ns < HURRY_NS && waiter_ms < take->req->ttl_ms ? waiter_ms
                                                                                : take->req->ttl_ms;
}

static bool lasts(const struct take *take, const struct etcd_lease *lease, bool fresh,
                  int64_t now_ns)
{
    return fresh || (!take->again && etcd_lease_lasts(lease, take->req->ttl_ms, now_ns));
}

/* The leases, from the pool or new ones. OK: they belong to the call. */
static enum dlock_status leases_get(struct take *take)
{
    struct etcd_lease_pool *pool = &take->session->pool;
    const int64_t now_ns = etcd_lease_pool_now(pool);
    const int64_t waiter_ms = take->session->config.waiter_lease_ms;
    const int64_t ttl_ms = full_lease_ms(take, waiter_ms);
    bool fresh = false;
    enum dlock_status status =
        etcd_lease_pool_take(pool, ttl_ms, take->req->deadline_ns, &take->full, &fresh, take->err);

    if (status != DLOCK_OK)
        return status;
    take->full_lasts = lasts(take, take->full, fresh, now_ns);
    take->brief = take->full;
    take->brief_lasts = take->full_lasts;
    if (!take->enqueue || etcd_lease_pool_round(pool, waiter_ms) >= take->full->ttl_ms)
        return DLOCK_OK;
    status = etcd_lease_pool_take(pool, waiter_ms, take->req->deadline_ns, &take->brief, &fresh,
                                  take->err);
    if (status == DLOCK_OK)
        take->brief_lasts = lasts(take, take->brief, fresh, now_ns);
    else
        leases_return(take);
    return status;
}

/* ---- the transaction and the leases, sent together ---- */

static bool alive_add(struct take *take, const struct etcd_lease *lease)
{
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    request.id = lease->id;
    return etcd_rpc_add(&take->alive, &request.base);
}

static bool requests_make(struct take *take, struct etcd_txn *txn)
{
    const bool full = !take->full_lasts, brief = take->brief != take->full && !take->brief_lasts;

    etcd_rpc_init(&take->txn, ETCD_TXN, 1);
    etcd_rpc_init(&take->alive, ETCD_LEASE_KEEP_ALIVE, (size_t)full + (size_t)brief);
    return etcd_rpc_add(&take->txn, etcd_txn_request(txn)) &&
           (!full || alive_add(take, take->full)) && (!brief || alive_add(take, take->brief));
}

/* False: the lease has ended, or may end sooner: another leader counts its time now. */
static bool lease_lives(struct take *take, struct etcd_lease *lease, int64_t sent_ns)
{
    const size_t count = take->alive.count;

    for (size_t i = 0; i < count; i++) {
        const Pb__LeaseResponse *answer =
            (const Pb__LeaseResponse *)(const void *)etcd_rpc_answer(&take->alive, i);

        if (answer->id != lease->id)
            continue;
        etcd_lease_alive(lease, &take->alive, sent_ns);
        return answer->ttl > 0;
    }
    return lease->term == etcd_rpc_term(&take->txn);
}

/* Sends the transaction and keeps the leases alive. LOST: a lease has ended, and so has what may
 * have been put with it. The leases belong to the call with OK only. Always: exchange_end, also
 * before the next one. */
static enum dlock_status exchange_run(struct take *take, struct etcd_txn *txn)
{
    struct etcd_rpc *rpcs[] = {&take->txn, &take->alive};
    enum dlock_status statuses[2] = {DLOCK_INTERNAL, DLOCK_OK}, status = DLOCK_NOMEM;
    const int64_t sent_ns = etcd_lease_pool_now(&take->session->pool);

    if (!requests_make(take, txn)) {
        leases_return(take);
        return no_memory(take);
    }
    status = etcd_exchange(&take->session->endpoints, rpcs, take->alive.most > 0 ? 2 : 1, true,
                           take->req->deadline_ns, statuses, take->err);
    if (status == DLOCK_OK && lease_lives(take, take->full, sent_ns) &&
        lease_lives(take, take->brief, sent_ns))
        return DLOCK_OK;
    take->put = take->put || statuses[0] == DLOCK_OK;
    if (statuses[0] == DLOCK_UNAVAILABLE)
        leases_return(take);
    else
        leases_drop(take);
    if (status == DLOCK_OK || statuses[0] == DLOCK_LOST)
        return DLOCK_LOST;
    /* OK: put, with a lease that may have ended */
    return statuses[0] == DLOCK_OK ? DLOCK_UNKNOWN : statuses[0];
}

static const Pb__TxnResponse *txn_answer(const struct take *take)
{
    return (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&take->txn, 0);
}

static void exchange_end(struct take *take)
{
    etcd_rpc_fini(&take->txn);
    etcd_rpc_fini(&take->alive);
}

/* ---- where the key stands in the queue ---- */

#define CLAIMS 3

/* The key holds the name. */
static enum dlock_status name_grant(struct take *take)
{
    etcd_queue_grant(take->session, take->slot, take->req->ttl_ms, take->grant);
    return DLOCK_OK;
}

static uint32_t others_of(const struct etcd_position *position, uint32_t known)
{
    return position->keys > known ? position->keys - known : 0;
}

/* The key is not there. */
static enum dlock_status refuse(struct take *take, const struct etcd_position *position)
{
    leases_return(take);
    if (position->other_limit != 0)
        return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER,
                          position->other_limit, take->limit);
    take->grant->waiters = others_of(position, 1);
    take->grant->queue_position = take->grant->waiters;
    return DLOCK_BUSY;
}

/* The key is not there, and keys of the name had another limit [LIM-1]. */
static enum dlock_status limits_differ(struct take *take, struct etcd_position *position)
{
    enum dlock_status status = DLOCK_OK;

    if (position->other_limit == 0)
        status = etcd_queue_other_limit(take->session, &take->keys, take->limit,
                                        &position->other_limit, take->req->deadline_ns, take->err);
    if (status == DLOCK_OK)
        return refuse(take, position); /* BUSY, if these keys have gone meanwhile */
    leases_return(take);
    return status;
}

/* The slot has the key. */
static enum dlock_status position_judge(struct take *take, const struct etcd_position *position)
{
    uint32_t holders = position->limit > 1 ? position->limit : 1;

    if (position->holds) {
        take->grant->waiters = others_of(position, 1);
        if ((take->shared || take->limit > 1) && take->grant->waiters > 0)
            take->grant->waiters = UINT32_MAX; /* these may hold it, too */
        return name_grant(take);
    }
    take->grant->waiters = others_of(position, holders + 1);
    take->grant->queue_position =
        position->predecessor_is_first || position->front ? 0 : take->grant->waiters;
    if ((take->req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) == 0)
        return DLOCK_BUSY;
    take->grant->flags |= DLOCK_GRANT_QUEUED;
    take->grant->fence =
        (uint64_t)take->slot->create_revision * take->session->config.fence_scale - 1;
    take->grant->lease_ms = etcd_queue_lease_ms(take->slot, take->req->ttl_ms);
    return DLOCK_BUSY;
}

static enum dlock_status claimed(struct take *take, int64_t revision, uint32_t permit)
{
    take->slot->mod_revision = revision;
    take->slot->holds = true;
    take->slot->front = false;
    take->slot->permit = permit;
    return name_grant(take);
}

/* Puts the lowest permit that is free into the key of the slot. LOST: the key has ended, or an
 * earlier request has changed it. */
static enum dlock_status claim(struct take *take, uint32_t permit)
{
    struct etcd_slot *slot = take->slot;
    struct etcd_rpc rpc;
    char value[ETCD_VALUE_SIZE];
    const size_t len = etcd_kv_add_data(
        value, etcd_kv_make_permit(value, sizeof value, take->limit, permit, take->req->label),
        take->req);
    struct etcd_txn txn;
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_txn_if_unchanged(&txn, &take->keys, slot->mod_revision);
    etcd_txn_put(&txn.then, &take->keys, value, len, slot->lease->id);
    etcd_rpc_init(&rpc, ETCD_TXN, 1);
    status = etcd_exchange_one(&take->session->endpoints, &rpc, etcd_txn_request(&txn), true,
                               take->req->deadline_ns, take->err);
    if (status == DLOCK_OK) {
        const Pb__TxnResponse *answer =
            (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&rpc, 0);

        if (!answer->succeeded || answer->header == NULL)
            status = DLOCK_LOST;
        else
            status = claimed(take, answer->header->revision, permit);
    } else if (status != DLOCK_UNAVAILABLE && status != DLOCK_LOST) {
        etcd_queue_doubt(slot);
    }
    etcd_rpc_fini(&rpc);
    return status;
}

/* Asks for the key of the slot, whose lease is kept alive. LOST: once more. */
static enum dlock_status slot_ask_once(struct take *take, bool *known)
{
    struct etcd_question question;
    struct etcd_slot *slot = take->slot;
    enum dlock_status status =
        etcd_queue_ask(take->session, &question, &take->keys, take->shared, slot->create_revision,
                       slot->lease, take->req->deadline_ns, take->err);

    *known = false;
    if (status == DLOCK_OK && question.position.create_revision == slot->create_revision &&
        question.position.lease_id == slot->lease->id && question.alive_ms > 0 &&
        !question.position.kept) {
        etcd_queue_note(slot, slot->lease, &question.position);
        *known = true;
        status = etcd_queue_has_room(&question.position)
                     ? claim(take, etcd_queue_permit(&question.position))
                     : position_judge(take, &question.position);
    } else if (status == DLOCK_OK) {
        etcd_queue_drop(slot); /* deleted, or about to go with its lease */
    }
    etcd_queue_end(&question);
    return status;
}

/* The second time the key has its permit, or has gone. */
static enum dlock_status slot_ask(struct take *take, bool *known)
{
    enum dlock_status status = DLOCK_LOST;

    for (int i = 0; i < CLAIMS && status == DLOCK_LOST && take->slot->lease != NULL; i++)
        status = slot_ask_once(take, known);
    return status == DLOCK_LOST ? dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                                             "an earlier request changed the key meanwhile")
                                : status;
}

/* Asks where a key stands of which only the token is known. */
static enum dlock_status position_find(struct take *take, bool *known)
{
    struct etcd_question question;
    struct etcd_lease *lease = NULL;
    enum dlock_status status = etcd_queue_ask(take->session, &question, &take->keys, take->shared,
                                              0, NULL, take->req->deadline_ns, take->err);

    *known = false;
    if (status == DLOCK_OK && question.position.create_revision != 0) {
        lease = etcd_lease_adopt(question.position.lease_id);
        if (lease == NULL)
            status = no_memory(take);
        else
            etcd_queue_note(take->slot, lease, &question.position);
    }
    etcd_queue_end(&question);
    return lease != NULL ? slot_ask(take, known) : status;
}

/* Asks where the key stands, and takes a permit that is free for it. OK with *known false: there is
 * no such key. */
static enum dlock_status position_ask(struct take *take, bool *known)
{
    if (take->slot->lease != NULL && take->slot->create_revision != 0)
        return slot_ask(take, known);
    etcd_queue_drop(take->slot);
    return position_find(take, known);
}

/* The operations that tell where the key stands: the key, and the keys before it. */
static void position_add(struct etcd_ops *ops, const struct take *take)
{
    etcd_queue_own(etcd_txn_range(ops), &take->keys);
    etcd_queue_range(etcd_txn_range(ops), &take->keys, take->shared || take->limit > 1, 0);
}

/* Operation i and the next one of the answer. False: these are not there. */
static bool position_read(const struct take *take, size_t i, struct etcd_position *position)
{
    const Pb__TxnResponse *answer = txn_answer(take);
    const Pb__RangeResponse *own = etcd_txn_range_answer(answer, i);
    const Pb__RangeResponse *others = etcd_txn_range_answer(answer, i + 1);

    if (own == NULL || others == NULL || answer->header == NULL)
        return false;
    position->revision = answer->header->revision;
    position->limit = take->limit;
    etcd_queue_judge(position, etcd_queue_find(own, &take->keys), others, take->shared);
    return true;
}

/* The answer has not what was asked for. */
static enum dlock_status nonsense(struct take *take)
{
    leases_drop(take);
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                      "an answer without what the transaction asked for");
}

/* The transaction has put the key with this lease, behind others. LOST: it has ended. */
static enum dlock_status put_judge(struct take *take, struct etcd_lease *lease,
                                   const struct etcd_position *position)
{
    bool known = true;
    enum dlock_status status = DLOCK_INTERNAL;

    take->put = true;
    etcd_queue_note(take->slot, lease, position);
    leases_keep(take, lease);
    status = position->further == 0 && !etcd_queue_has_room(position)
                 ? position_judge(take, position)
                 : slot_ask(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_LOST : status;
}

/* The key was there before the call. LOST: it has ended. */
static enum dlock_status found_judge(struct take *take)
{
    bool known = false;
    enum dlock_status status = DLOCK_INTERNAL;

    leases_return(take);
    take->put = true;
    status = position_find(take, &known);
    return status == DLOCK_OK && !known ? DLOCK_LOST : status;
}

/* ---- a permit of a semaphore ---- */

#define ROUNDS       ETCD_LIMIT_MOST /* in each of which another request was executed */
#define QUIET_ROUNDS 3               /* after so many failures the call enters the queue */

/* What the next transaction does. */
enum step {
    TAKE_FREE,  /* the first permit of a name without keys */
    TAKE_QUIET, /* a permit that is free, if no key was put since the others were read */
    ENQUEUE
};

struct trial {
    enum step step;
    int quiet;                     /* transactions of TAKE_QUIET that came too late */
    struct etcd_position position; /* as the keys were read last */
};

static void permit_put(const struct take *take, struct etcd_txn *txn, char *value, uint32_t permit)
{
    const size_t len = etcd_kv_add_data(
        value, etcd_kv_make_permit(value, ETCD_VALUE_SIZE, take->limit, permit, take->req->label),
        take->req);

    etcd_txn_put(&txn->then, &take->keys, value, len, take->full->id);
}

/* agreed: succeeds if nothing is in the way but others of the same limit. */
static void permit_make(const struct take *take, const struct trial *trial, struct etcd_txn *txn,
                        struct etcd_txn *agreed, char *value)
{
    switch (trial->step) {
    case TAKE_FREE:
        etcd_txn_if_free(txn, &take->keys);
        permit_put(take, txn, value, 0);
        break;
    case TAKE_QUIET:
        etcd_txn_if_absent(txn, &take->keys);
        etcd_txn_and_quiet(txn, &take->keys, trial->position.revision);
        permit_put(take, txn, value, etcd_queue_permit(&trial->position));
        break;
    case ENQUEUE:
        etcd_txn_if_agreed(txn, &take->keys, take->limit);
        etcd_txn_put(&txn->then, &take->keys, take->value, take->value_len, take->brief->id);
        position_add(&txn->then, take);
        break;
    }
    etcd_txn_if_agreed(agreed, &take->keys, take->limit);
    etcd_txn_nested(&txn->otherwise, agreed);
    position_add(&txn->otherwise, take);
}

static enum dlock_status taken(struct take *take, uint32_t permit)
{
    const Pb__TxnResponse *answer = txn_answer(take);

    if (answer->header == NULL || answer->header->revision <= 0)
        return nonsense(take);
    etcd_queue_hold(take->slot, take->full, answer->header->revision, permit);
    leases_keep(take, take->full);
    take->grant->waiters = 0;
    return name_grant(take);
}

static enum dlock_status enqueued(struct take *take)
{
    struct etcd_position position = {0};

    return position_read(take, 1, &position) ? put_judge(take, take->brief, &position)
                                             : nonsense(take);
}

static enum dlock_status permit_done(struct take *take, const struct trial *trial)
{
    switch (trial->step) {
    case TAKE_FREE:
        return taken(take, 0);
    case TAKE_QUIET:
        return taken(take, etcd_queue_permit(&trial->position));
    case ENQUEUE:
        break;
    }
    return enqueued(take);
}

/* The rest of many keys. */
static enum dlock_status read_on(struct take *take, struct etcd_position *position)
{
    struct etcd_question question;
    enum dlock_status status = DLOCK_INTERNAL;

    question.position = *position;
    etcd_rpc_init(&question.range, ETCD_RANGE, 1);
    etcd_rpc_init(&question.alive, ETCD_LEASE_KEEP_ALIVE, 1);
    status = etcd_queue_older(take->session, &question, &take->keys, false, take->req->deadline_ns,
                              take->err);
    *position = question.position;
    position->predecessor = NULL; /* goes with the question */
    etcd_queue_end(&question);
    if (status != DLOCK_OK)
        leases_return(take);
    return status;
}

/* INTERNAL: another transaction may do it. */
static enum dlock_status next_step(struct take *take, struct trial *trial)
{
    const struct etcd_position *position = &trial->position;

    trial->quiet += trial->step == TAKE_QUIET;
    if (position->keys == 0)
        trial->step = TAKE_FREE;
    else if (etcd_queue_has_room(position) && (!take->enqueue || trial->quiet < QUIET_ROUNDS))
        trial->step = TAKE_QUIET;
    else if (take->enqueue)
        trial->step = ENQUEUE;
    else
        return refuse(take, position);
    return DLOCK_INTERNAL;
}

/* Nothing was put. */
static enum dlock_status permit_refused(struct take *take, struct trial *trial)
{
    struct etcd_position *position = &trial->position;
    const Pb__TxnResponse *agreed = etcd_txn_nested_answer(txn_answer(take), 0);
    enum dlock_status status = DLOCK_OK;

    *position = (struct etcd_position){0};
    if (agreed == NULL || !position_read(take, 1, position))
        return nonsense(take);
    if (position->create_revision != 0)
        return found_judge(take); /* from before [TRY-5] */
    if (!agreed->succeeded && position->keys > 0)
        return limits_differ(take, position);
    if (position->further != 0)
        status = read_on(take, position);
    return status == DLOCK_OK ? next_step(take, trial) : status;
}

static enum dlock_status permit_run(struct take *take, struct trial *trial)
{
    char value[ETCD_VALUE_SIZE];
    struct etcd_txn txn, agreed;
    enum dlock_status status = DLOCK_INTERNAL;

    permit_make(take, trial, &txn, &agreed, value);
    status = exchange_run(take, &txn);
    if (status == DLOCK_OK)
        status =
            txn_answer(take)->succeeded ? permit_done(take, trial) : permit_refused(take, trial);
    exchange_end(take);
    return status;
}

static int64_t left_ns(const struct take *take)
{
    return take->req->deadline_ns - etcd_lease_pool_now(&take->session->pool);
}

/* A call without a queue entry ends before its deadline cuts a transaction, which would be UNKNOWN
 * and end the connection of the others. */
static bool gives_up(const struct take *take, const struct trial *trial, int64_t spare_ns)
{
    return !take->enqueue && trial->quiet >= QUIET_ROUNDS && left_ns(take) < spare_ns;
}

/* LOST: the leases or the key have ended meanwhile: once more. */
static enum dlock_status permit_try(struct take *take)
{
    const int64_t spare_ns = left_ns(take) / 4;
    struct trial trial = {.step = TAKE_FREE};
    enum dlock_status status = DLOCK_INTERNAL;

    for (int i = 0; i < ROUNDS && status == DLOCK_INTERNAL && !gives_up(take, &trial, spare_ns);
         i++)
        status = permit_run(take, &trial);
    if (status != DLOCK_INTERNAL)
        return status;
    leases_return(take);
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "others change the name as fast as it is read");
}

/* ---- a lock, exclusive or shared ---- */

/* A reader wants to join other readers without a queue entry: it puts its key and takes it back if
 * a writer came first. */
static enum dlock_status join(struct take *take)
{
    struct etcd_txn txn;
    struct etcd_position position = {0};
    enum dlock_status status = DLOCK_INTERNAL;

    exchange_end(take);
    etcd_txn_if_agreed(&txn, &take->keys, take->limit);
    etcd_txn_put(&txn.then, &take->keys, take->value, take->value_len, take->full->id);
    position_add(&txn.then, take);
    position_add(&txn.otherwise, take);
    status = exchange_run(take, &txn);
    if (status != DLOCK_OK)
        return status;
    if (!txn_answer(take)->succeeded) {
        if (position_read(take, 0, &position) && position.create_revision == 0) {
            leases_return(take);
            take->overtaken = true;
            return DLOCK_LOST;
        }
        leases_drop(take);
        return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNKNOWN, 0,
                          "an earlier request of this token was executed meanwhile");
    }
    if (!position_read(take, 1, &position))
        return nonsense(take);
    status = put_judge(take, take->full, &position);
    if (status != DLOCK_BUSY)
        return status;
    status = etcd_unlock_delete(take->session, take->req, NULL, take->err);
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* The name has keys, but none of this token. */
static enum dlock_status refused(struct take *take, const struct etcd_position *position)
{
    if (take->shared && position->predecessor == NULL && position->keys > 0)
        return join(take);
    return refuse(take, position);
}

static void try_make(const struct take *take, struct etcd_txn *txn, struct etcd_txn *nested)
{
    etcd_txn_if_free(txn, &take->keys);
    etcd_txn_put(&txn->then, &take->keys, take->value, take->value_len, take->full->id);
    etcd_txn_if_agreed(nested, &take->keys, take->limit);
    if (take->enqueue)
        etcd_txn_put(&nested->then, &take->keys, take->value, take->value_len, take->brief->id);
    etcd_txn_nested(&txn->otherwise, nested);
    position_add(&txn->otherwise, take);
}

static enum dlock_status try_judge(struct take *take)
{
    const Pb__TxnResponse *answer = txn_answer(take), *nested = NULL;
    struct etcd_position position = {0};

    if (answer->succeeded && answer->header != NULL && answer->header->revision > 0) {
        etcd_queue_hold(take->slot, take->full, answer->header->revision, 0);
        leases_keep(take, take->full);
        take->grant->waiters = 0;
        return name_grant(take);
    }
    nested = etcd_txn_nested_answer(answer, 0);
    if (answer->succeeded || nested == NULL || !position_read(take, 1, &position))
        return nonsense(take);
    if (position.create_revision == 0)
        return nested->succeeded ? refused(take, &position) : limits_differ(take, &position);
    if (nested->succeeded)
        return put_judge(take, take->brief, &position);
    return found_judge(take); /* the key is there from before [TRY-5] */
}

/* LOST: the leases or the key have ended meanwhile: once more. */
static enum dlock_status lock_try(struct take *take)
{
    struct etcd_txn txn, nested;
    enum dlock_status status = DLOCK_INTERNAL;

    try_make(take, &txn, &nested);
    status = exchange_run(take, &txn);
    if (status == DLOCK_OK)
        status = try_judge(take);
    exchange_end(take);
    return status;
}

/* ---- the slot ---- */

#define TRIES     3  /* with other leases, if those of the pool have ended */
#define OVERTAKEN 20 /* by readers that go before it has joined them */

/* LOST: the leases have ended, or the key has ended meanwhile: once more. */
static enum dlock_status try_once(struct take *take)
{
    enum dlock_status status = leases_get(take);

    if (status != DLOCK_OK)
        return status;
    return take->limit > 1 ? permit_try(take) : lock_try(take);
}

static enum dlock_status try(struct take *take)
{
    enum dlock_status status = DLOCK_LOST;
    int leases = 0, joins = 0;

    while (status == DLOCK_LOST && leases < TRIES && joins < OVERTAKEN) {
        take->again = leases > 0;
        take->overtaken = false;
        status = try_once(take);
        if (take->overtaken)
            joins++;
        else
            leases++;
    }
    if (status == DLOCK_LOST)
        status = dlock_fail(take->err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s",
                            take->overtaken ? "readers come and go faster than the cluster answers"
                                            : "the cluster ends leases as fast as it grants them");
    if (!take->put || status == DLOCK_OK || status == DLOCK_BUSY || status == DLOCK_PROTOCOL)
        return status;
    take->err->status = DLOCK_UNKNOWN; /* [TRY-4] */
    return DLOCK_UNKNOWN;
}

enum dlock_status etcd_take(void *self, const struct dlock_request *req, struct dlock_grant *grant,
                            struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct take take;
    bool known = false;
    enum dlock_status status = DLOCK_OK;

    take_begin(&take, session, req, grant, err);
    if ((req->flags & DLOCK_REQ_REFRESH) != 0) {
        status = position_ask(&take, &known);
        return status == DLOCK_OK && !known ? DLOCK_BUSY : status; /* not queued any more */
    }
    if (take.slot->create_revision != 0)
        status = position_ask(&take, &known);
    return status == DLOCK_OK && !known ? try(&take) : status;
}
