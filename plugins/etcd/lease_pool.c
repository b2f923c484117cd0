/* SPDX-License-Identifier: MIT */
#include "lease_pool.h"

#include "lib/time.h"

#include <stdlib.h>

#define IDLE_MOST     256
#define MS_PER_S      1000
#define MORE_MS       1000        /* of a lease than its ttl */
#define MORE_FROM_MS  20000       /* for ttls from this one on: a twentieth, as [TRY-2] allows */
#define FRESH_PART(t) ((t)*2 / 3) /* of the ttl: an older lease is not given */

bool etcd_lease_pool_init(struct etcd_lease_pool *pool, struct etcd_endpoints *endpoints)
{
    pool->endpoints = endpoints;
    return pthread_mutex_init(&pool->mutex, NULL) == 0;
}

void etcd_lease_pool_fini(struct etcd_lease_pool *pool)
{
    while (pool->idle != NULL) {
        struct etcd_lease *lease = pool->idle;

        pool->idle = lease->next;
        free(lease);
    }
    (void)pthread_mutex_destroy(&pool->mutex);
}

int64_t etcd_lease_pool_now(const struct etcd_lease_pool *pool)
{
    const struct dlock_host *host = pool->endpoints->cluster.host;

    return host->now_ns(host->ctx);
}

int64_t etcd_lease_pool_least(struct etcd_lease_pool *pool)
{
    int64_t least_ms = 0;

    (void)pthread_mutex_lock(&pool->mutex);
    least_ms = pool->least_ms;
    (void)pthread_mutex_unlock(&pool->mutex);
    return least_ms;
}

/* A later member may grant more; ttls that were promised before are kept then, too. */
void etcd_lease_pool_set_least(struct etcd_lease_pool *pool, int64_t least_ms)
{
    (void)pthread_mutex_lock(&pool->mutex);
    if (least_ms > pool->least_ms)
        pool->least_ms = least_ms;
    (void)pthread_mutex_unlock(&pool->mutex);
}

int64_t etcd_lease_pool_round(struct etcd_lease_pool *pool, int64_t ttl_ms)
{
    int64_t rounded_ms = (ttl_ms + MS_PER_S - 1) / MS_PER_S * MS_PER_S;
    int64_t least_ms = etcd_lease_pool_least(pool);

    if (rounded_ms >= MORE_FROM_MS)
        rounded_ms += MORE_MS;
    return rounded_ms > least_ms ? rounded_ms : least_ms;
}

/* Takes it out of the list; drops the leases that are too old. */
static struct etcd_lease *find_locked(struct etcd_lease_pool *pool, int64_t ttl_ms, int64_t now_ns)
{
    struct etcd_lease **at = &pool->idle;

    while (*at != NULL) {
        struct etcd_lease *lease = *at;
        bool old = now_ns - lease->alive_ns > FRESH_PART(lease->ttl_ms * DL_NS_PER_MS);

        if (!old && lease->ttl_ms != ttl_ms) {
            at = &lease->next;
            continue;
        }
        *at = lease->next;
        pool->count--;
        if (!old)
            return lease;
        free(lease);
    }
    return NULL;
}

enum dlock_status etcd_lease_pool_take(struct etcd_lease_pool *pool, int64_t ttl_ms,
                                       int64_t deadline_ns, struct etcd_lease **out, bool *fresh,
                                       struct dlock_error *err)
{
    const int64_t rounded_ms = etcd_lease_pool_round(pool, ttl_ms),
                  now_ns = etcd_lease_pool_now(pool);

    (void)pthread_mutex_lock(&pool->mutex);
    *out = find_locked(pool, rounded_ms, now_ns);
    (void)pthread_mutex_unlock(&pool->mutex);
    *fresh = *out == NULL;
    return *fresh ? etcd_lease_pool_grant(pool, ttl_ms, deadline_ns, out, err) : DLOCK_OK;
}

bool etcd_lease_lasts(const struct etcd_lease *lease, int64_t ttl_ms, int64_t now_ns)
{
    const int64_t said_ms = ttl_ms < lease->ttl_ms ? ttl_ms : lease->ttl_ms;

    return now_ns - lease->alive_ns <= (lease->ttl_ms - said_ms) * DL_NS_PER_MS;
}

void etcd_lease_alive(struct etcd_lease *lease, const struct etcd_rpc *rpc, int64_t sent_ns)
{
    lease->alive_ns = sent_ns;
    lease->term = etcd_rpc_term(rpc);
}

/* What the cluster granted goes to *lease. */
static enum dlock_status granted(const struct etcd_rpc *rpc, struct etcd_lease *lease,
                                 struct dlock_error *err)
{
    const Pb__LeaseGrantResponse *answer =
        (const Pb__LeaseGrantResponse *)(const void *)etcd_rpc_answer(rpc, 0);

    if (answer->id <= 0 || answer->ttl <= 0 || answer->ttl > INT64_MAX / DL_NS_PER_S)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0, "a lease without an id or a ttl");
    lease->id = answer->id;
    lease->ttl_ms = answer->ttl * MS_PER_S;
    return DLOCK_OK;
}

enum dlock_status etcd_lease_pool_grant(struct etcd_lease_pool *pool, int64_t ttl_ms,
                                        int64_t deadline_ns, struct etcd_lease **out,
                                        struct dlock_error *err)
{
    Pb__LeaseGrantRequest request = PB__LEASE_GRANT_REQUEST__INIT;
    struct etcd_lease *lease = calloc(1, sizeof *lease);
    struct etcd_rpc rpc, *rpcs[] = {&rpc};
    int64_t sent_ns = 0;
    enum dlock_status status = DLOCK_NOMEM;

    etcd_rpc_init(&rpc, ETCD_LEASE_GRANT, 1);
    request.ttl = etcd_lease_pool_round(pool, ttl_ms) / MS_PER_S;
    if (lease == NULL || !etcd_rpc_add(&rpc, &request.base)) {
        status = dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a lease");
    } else {
        sent_ns = etcd_lease_pool_now(pool);
        status = etcd_exchange(pool->endpoints, rpcs, 1, false, deadline_ns, NULL, err);
        if (status == DLOCK_OK)
            status = granted(&rpc, lease, err);
        if (status == DLOCK_OK)
            etcd_lease_alive(lease, &rpc, sent_ns);
    }
    etcd_rpc_fini(&rpc);
    if (status == DLOCK_OK) {
        *out = lease;
        return DLOCK_OK;
    }
    free(lease);
    *out = NULL;
    return status;
}

struct etcd_lease *etcd_lease_adopt(int64_t id)
{
    struct etcd_lease *lease = calloc(1, sizeof *lease);

    if (lease != NULL)
        lease->id = id;
    return lease;
}

void etcd_lease_pool_put(struct etcd_lease_pool *pool, struct etcd_lease *lease)
{
    bool full = false;

    if (lease == NULL)
        return;
    (void)pthread_mutex_lock(&pool->mutex);
    full = pool->count >= IDLE_MOST;
    if (!full) {
        lease->next = pool->idle;
        pool->idle = lease;
        pool->count++;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    if (full)
        free(lease);
}

void etcd_lease_drop(struct etcd_lease *lease)
{
    free(lease);
}

void etcd_lease_pool_revoke(struct etcd_lease_pool *pool, struct etcd_lease *lease,
                            int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;
    struct etcd_rpc rpc;

    if (lease == NULL)
        return;
    request.id = lease->id;
    etcd_rpc_init(&rpc, ETCD_LEASE_REVOKE, 1);
    (void)etcd_exchange_one(pool->endpoints, &rpc, &request.base, false, deadline_ns, &ignored);
    etcd_rpc_fini(&rpc);
    free(lease);
}
