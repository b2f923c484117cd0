/* SPDX-License-Identifier: MIT */
#include "hold/renew.h"
#include "hold/held.h"
#include "hold/operation.h"
#include "hold/release_fsm.h"
#include "hold/renew_schedule.h"
#include "hold/validity.h"
#include "session/dispatch.h"
#include "sys/error.h"

void dl_renew_prepare_locked(struct dlock_handle *lock)
{
    struct dlock_request *req = &lock->claim->req;

    req->flags = lock->downgrading ? DLOCK_REQ_DOWNGRADE : 0;
    req->deadline_ns = dl_lease_until_ns(&lock->lease); /* [REN-5] */
    req->ttl_ms = dl_client_ttl_ms(lock->client, req->ttl_ms);
}

/* Returns the time of sending; the answer is in *op. */
static int64_t renew_send(struct dlock_handle *lock, int64_t deadline_ns, struct dlock_lease_op *op,
                          struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dl_claim *claim = lock->claim;
    struct dl_session *session;
    int64_t sent_ns;

    *op = (struct dlock_lease_op){.req = &claim->req};
    op->status = dl_claim_session(client, claim, DL_USE_HOLDER, deadline_ns, &session, err);
    sent_ns = dl_client_now(client);
    if (op->status == DLOCK_OK) {
        dl_dispatch_renew(client->plugin, session->self, &op, 1, deadline_ns, err);
        dl_claim_session_put(client, claim, DL_USE_HOLDER, session, op->status);
    }
    return sent_ns;
}

enum dlock_status dl_renew_first(struct dlock_handle *lock, int64_t deadline_ns, int64_t *lease_ms,
                                 int64_t *valid_until_ns, struct dlock_error *err)
{
    struct dlock_lease_op op;
    int64_t sent_ns;

    lock->claim->req.flags &= DLOCK_REQ_ADOPT;      /* [REN-6] */
    lock->claim->req.deadline_ns = *valid_until_ns; /* [REN-5] */
    sent_ns = renew_send(lock, deadline_ns, &op, err);
    if (op.status == DLOCK_OK) {
        *lease_ms = op.grant.lease_ms;
        *valid_until_ns = dl_validity_until_ns(sent_ns, op.grant.lease_ms);
    }
    return op.status;
}

/* The renewer cannot renew the lock meanwhile, and has to have the time for it afterwards. */
static int64_t asked_exchange_ns_locked(const struct dlock_handle *lock)
{
    return lock->renewal.automatic ? dl_renew_schedule_exchange_ns_locked(lock)
                                   : dl_handle_op_timeout_ms(lock) * DL_NS_PER_MS;
}

/* Returns OK, LOST, or another status with which the old validity stays. */
static enum dlock_status renew_exchange(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct dlock_lease_op op;
    enum dlock_status status;
    int64_t deadline_ns, sent_ns, now_ns;
    bool stale;

    (void)pthread_mutex_lock(&client->mutex);
    dl_renew_prepare_locked(lock);
    deadline_ns = dl_client_now(client) + asked_exchange_ns_locked(lock);
    (void)pthread_mutex_unlock(&client->mutex);
    sent_ns = renew_send(lock, deadline_ns, &op, err);
    now_ns = dl_client_now(client);
    (void)pthread_mutex_lock(&client->mutex);
    status = dl_held_renewed_locked(lock, sent_ns, now_ns, op.status, &op.grant, &stale);
    if (stale) /* it is given back here, and once */
        (void)dl_renew_schedule_take_give_back_locked(lock);
    (void)pthread_mutex_unlock(&client->mutex);
    if (stale) /* an unlock may wait for this call */
        dl_claim_give_back(client, lock->claim, DL_USE_HOLDER,
                           deadline_ns > now_ns + DL_GRACE_NS ? deadline_ns : now_ns + DL_GRACE_NS);
    if (status == DLOCK_LOST)
        (void)dl_error(err, status, "the lock was lost");
    return status;
}

/* OK: the handle is held and in the phase RENEWING. */
static enum dlock_status renew_begin_locked(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;

    if (client->closed)
        return dl_error(err, DLOCK_CLOSED, "the client is closed");
    if (dl_operation_bars_locked(lock->operation, err) != DLOCK_OK)
        return DLOCK_ALREADY;
    dl_handle_wait_for_renewal_locked(lock);
    if (lock->phase == DL_PHASE_ACQUIRING)
        return dl_error(err, DLOCK_NOT_HELD, "the handle is being acquired");
    if (lock->ending >
        0) /* its unlock waits for an earlier renewal, and must not wait for another one */
        return dl_error(err, DLOCK_NOT_HELD, "the handle is being released");
    switch (dl_lease_state(&lock->lease, dl_client_now(client))) {
    case DLOCK_STATE_FREE:
        return dl_error(err, DLOCK_NOT_HELD, "the handle does not hold the lock");
    case DLOCK_STATE_LOST:
        return dl_error(err, DLOCK_LOST, "the lock was lost");
    default:
        lock->phase = DL_PHASE_RENEWING;
        return DLOCK_OK;
    }
}

static enum dlock_status renew_run(struct dlock_handle *lock, struct dlock_error *err)
{
    enum dlock_status status = renew_exchange(lock, err);

    (void)pthread_mutex_lock(&lock->client->mutex);
    dl_held_idle_locked(lock);
    if (status == DLOCK_LOST && lock->claim->lease_session != NULL)
        dl_renew_schedule_wake_locked(lock->client); /* the renewer ends the session */
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return status;
}

enum dlock_status dl_renew(struct dlock_handle *lock, int64_t ttl_ms, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status;

    if (ttl_ms != 0 && dl_ttl_grid_judge(&client->pool.ttls, ttl_ms, err) != DLOCK_OK)
        return DLOCK_CONFIG;
    (void)pthread_mutex_lock(&client->mutex);
    status = renew_begin_locked(lock, err);
    if (status == DLOCK_OK && ttl_ms != 0)
        lock->claim->req.ttl_ms = ttl_ms; /* rounded when it is sent */
    (void)pthread_mutex_unlock(&client->mutex);
    return status == DLOCK_OK ? renew_run(lock, err) : status;
}

/* *tell: the store has to be told; the handle is then in the phase RENEWING. */
static enum dlock_status downgrade_begin_locked(struct dlock_handle *lock, bool *tell,
                                                struct dlock_error *err)
{
    enum dlock_status status = renew_begin_locked(lock, err);

    *tell = false;
    if (status != DLOCK_OK)
        return status;
    if (lock->claim->req.mode == DLOCK_EXCLUSIVE) {
        if (lock->claim->req.limit > 1 || lock->keep_ms > 0)
            status = dl_error(err, DLOCK_INVALID, "limit and keep_ms are for the exclusive mode");
        else if (lock->depth > 0)
            status = dl_error(err, DLOCK_INVALID, "acquired %u times, by callers that rely on it",
                              lock->depth + 1);
        else
            dl_held_downgrade_locked(lock);
    }
    *tell = lock->downgrading;
    if (!*tell)
        dl_held_idle_locked(lock);
    return status;
}

enum dlock_status dl_renew_downgrade(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status;
    bool tell;

    if ((dl_session_pool_caps(&client->pool) & DLOCK_CAP_DOWNGRADE) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store cannot downgrade a lock");
    (void)pthread_mutex_lock(&client->mutex);
    status = downgrade_begin_locked(lock, &tell, err);
    (void)pthread_mutex_unlock(&client->mutex);
    return tell ? renew_run(lock, err) : status;
}
