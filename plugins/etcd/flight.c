/* SPDX-License-Identifier: MIT */
#include "flight.h"

#include "lib/hex.h"
#include "lib/time.h"

#define HURRY_NS (250 * DL_NS_PER_MS)

enum dlock_status etcd_flight_no_memory(struct etcd_take *take)
{
    return dlock_fail(take->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

void etcd_flight_begin(struct etcd_take *take, struct etcd_session *session,
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
    etcd_keys_make(&take->keys, &session->config, req->name, req->name_len, token);
    take->limit = dlock_request_limit(req);
    take->value_len =
        take->limit > 1
            ? etcd_value_make_waiter(take->value, sizeof take->value, take->limit, req->label)
            : etcd_value_make(take->value, sizeof take->value, req->mode, req->label);
    take->value_len = etcd_value_add_data(take->value, take->value_len, req);
}

/* ---- leases ---- */

void etcd_flight_put(struct etcd_take *take)
{
    struct etcd_stock *stock = &take->session->stock;

    etcd_stock_put(stock, take->full);
    if (take->brief != take->full)
        etcd_stock_put(stock, take->brief);
    take->full = NULL;
    take->brief = NULL;
}

void etcd_flight_drop(struct etcd_take *take)
{
    etcd_stock_drop(take->full);
    if (take->brief != take->full)
        etcd_stock_drop(take->brief);
    take->full = NULL;
    take->brief = NULL;
}

void etcd_flight_keep(struct etcd_take *take, struct etcd_lease *kept)
{
    if (take->full == kept)
        take->full = NULL;
    if (take->brief == kept)
        take->brief = NULL;
    etcd_flight_put(take);
}

/* The request of a caller that goes away soon may be executed after that. What it puts then must
 * not last. */
static int64_t full_ms(const struct etcd_take *take, int64_t waiter_ms)
{
    const int64_t left_ns = take->req->deadline_ns - etcd_stock_now(&take->session->stock);

    return take->enqueue && left_ns < HURRY_NS && waiter_ms < take->req->ttl_ms ? waiter_ms
                                                                                : take->req->ttl_ms;
}

static bool lasts(const struct etcd_take *take, const struct etcd_lease *lease, bool fresh,
                  int64_t now_ns)
{
    return fresh || (!take->again && etcd_stock_lasts(lease, take->req->ttl_ms, now_ns));
}

enum dlock_status etcd_flight_leases(struct etcd_take *take)
{
    struct etcd_stock *stock = &take->session->stock;
    const int64_t now_ns = etcd_stock_now(stock);
    const int64_t waiter_ms = take->session->config.waiter_lease_ms;
    const int64_t ttl_ms = full_ms(take, waiter_ms);
    bool fresh = false;
    enum dlock_status status =
        etcd_stock_take(stock, ttl_ms, take->req->deadline_ns, &take->full, &fresh, take->err);

    if (status != DLOCK_OK)
        return status;
    take->full_lasts = lasts(take, take->full, fresh, now_ns);
    take->brief = take->full;
    take->brief_lasts = take->full_lasts;
    if (!take->enqueue || etcd_stock_round(stock, waiter_ms) >= take->full->ttl_ms)
        return DLOCK_OK;
    status =
        etcd_stock_take(stock, waiter_ms, take->req->deadline_ns, &take->brief, &fresh, take->err);
    if (status == DLOCK_OK)
        take->brief_lasts = lasts(take, take->brief, fresh, now_ns);
    else
        etcd_flight_put(take);
    return status;
}

/* ---- the flight ---- */

static bool alive_add(struct etcd_take *take, const struct etcd_lease *lease)
{
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    request.id = lease->id;
    return etcd_rpc_add(&take->alive, &request.base);
}

static bool requests_make(struct etcd_take *take, struct etcd_txn *txn)
{
    const bool full = !take->full_lasts, brief = take->brief != take->full && !take->brief_lasts;

    etcd_rpc_init(&take->txn, ETCD_TXN, 1);
    etcd_rpc_init(&take->alive, ETCD_LEASE_KEEP_ALIVE, (size_t)full + (size_t)brief);
    return etcd_rpc_add(&take->txn, etcd_txn_request(txn)) &&
           (!full || alive_add(take, take->full)) && (!brief || alive_add(take, take->brief));
}

/* False: the lease has ended, or may end sooner: another leader counts its time now. */
static bool lease_lives(struct etcd_take *take, struct etcd_lease *lease, int64_t sent_ns)
{
    const size_t count = take->alive.count;

    for (size_t i = 0; i < count; i++) {
        const Pb__LeaseResponse *answer =
            (const Pb__LeaseResponse *)(const void *)etcd_rpc_answer(&take->alive, i);

        if (answer->id != lease->id)
            continue;
        etcd_stock_alive(lease, &take->alive, sent_ns);
        return answer->ttl > 0;
    }
    return lease->term == etcd_rpc_term(&take->txn);
}

enum dlock_status etcd_flight_send(struct etcd_take *take, struct etcd_txn *txn)
{
    struct etcd_rpc *rpcs[] = {&take->txn, &take->alive};
    enum dlock_status statuses[2] = {DLOCK_INTERNAL, DLOCK_OK}, status = DLOCK_NOMEM;
    const int64_t sent_ns = etcd_stock_now(&take->session->stock);

    if (!requests_make(take, txn)) {
        etcd_flight_put(take);
        return etcd_flight_no_memory(take);
    }
    status = etcd_exchange(&take->session->endpoints, rpcs, take->alive.most > 0 ? 2 : 1, true,
                           take->req->deadline_ns, statuses, take->err);
    if (status == DLOCK_OK && lease_lives(take, take->full, sent_ns) &&
        lease_lives(take, take->brief, sent_ns))
        return DLOCK_OK;
    take->put = take->put || statuses[0] == DLOCK_OK;
    if (statuses[0] == DLOCK_UNAVAILABLE)
        etcd_flight_put(take);
    else
        etcd_flight_drop(take);
    if (status == DLOCK_OK || statuses[0] == DLOCK_LOST)
        return DLOCK_LOST;
    /* OK: put, with a lease that may have ended */
    return statuses[0] == DLOCK_OK ? DLOCK_UNKNOWN : statuses[0];
}

const Pb__TxnResponse *etcd_flight_answer(const struct etcd_take *take)
{
    return (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&take->txn, 0);
}

void etcd_flight_end(struct etcd_take *take)
{
    etcd_rpc_fini(&take->txn);
    etcd_rpc_fini(&take->alive);
}
