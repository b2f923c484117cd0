/* SPDX-License-Identifier: MIT */
/*
 * between_kit.h - something happens between two exchanges of one call. The linker puts our
 * etcd_exchange before that of the plugin (-Wl,--wrap=etcd_exchange).
 */
#ifndef DLT_BETWEEN_KIT_H
#define DLT_BETWEEN_KIT_H

#include "exchange.h"
#include "name_kit.h"

#define KEY_OF_A "61616161616161616161616161616161"
#define KEY_OF_B "62626262626262626262626262626262"

enum dlock_status __real_etcd_exchange(struct etcd_endpoints *endpoints,
                                       struct etcd_rpc *const *rpcs, size_t n, bool writes,
                                       int64_t deadline_ns, enum dlock_status *statuses,
                                       struct dlock_error *err);
enum dlock_status __wrap_etcd_exchange(struct etcd_endpoints *endpoints,
                                       struct etcd_rpc *const *rpcs, size_t n, bool writes,
                                       int64_t deadline_ns, enum dlock_status *statuses,
                                       struct dlock_error *err);

#define RESOURCE_EXHAUSTED 8
/* Of versions of etcd without the repair of its issue 13429, for every transaction. */
#define NO_SPACE "etcdserver: mvcc: database space exceeded"

/* What is done with an exchange. */
static struct {
    int left;        /* exchanges before it; less than 0: nothing is done */
    const char *ask; /* of etcdctl, before it */
    void (*act)(void);
    void (*each)(void);  /* before this one and all others */
    bool down;           /* it is not sent */
    bool silent;         /* its answer is lost */
    bool cut;            /* the keys of its first answer lose all but a byte */
    const char *refusal; /* of this one and all others that have a transaction; NULL: none */
} plan = {.left = -1};

static int exchanges, keep_alives;
static int64_t granted_lease; /* the last one */

static void at(int left)
{
    memset(&plan, 0, sizeof plan);
    plan.left = left;
}

static enum dlock_status failed(enum dlock_status status, size_t n, enum dlock_status *statuses,
                                struct dlock_error *err)
{
    for (size_t i = 0; i < n && statuses != NULL; i++)
        statuses[i] = status;
    return dlock_fail(err, "etcd", status, 0, "as the test wants it");
}

static bool is_refused(struct etcd_rpc *const *rpcs, size_t n)
{
    for (size_t i = 0; i < n && plan.refusal != NULL; i++)
        if (rpcs[i]->method == ETCD_TXN)
            return true;
    return false;
}

/* And there are more of them. */
static void keys_cut(const struct etcd_rpc *rpc)
{
    Pb__RangeResponse *answer = (Pb__RangeResponse *)(void *)rpc->answers[0];

    answer->more = true;
    for (size_t i = 0; i < answer->n_kvs; i++)
        answer->kvs[i]->key.len = 1;
}

enum dlock_status __wrap_etcd_exchange(struct etcd_endpoints *endpoints,
                                       struct etcd_rpc *const *rpcs, size_t n, bool writes,
                                       int64_t deadline_ns, enum dlock_status *statuses,
                                       struct dlock_error *err)
{
    bool now = plan.left-- == 0;
    enum dlock_status status = DLOCK_INTERNAL;

    exchanges++;
    for (size_t i = 0; i < n; i++)
        keep_alives += rpcs[i]->method == ETCD_LEASE_KEEP_ALIVE;
    if (now && plan.ask != NULL)
        (void)dlt_etcd_ask(&server, "%s", plan.ask);
    if (now && plan.act != NULL)
        plan.act();
    if (plan.each != NULL)
        plan.each();
    if (now && plan.down)
        return failed(DLOCK_UNAVAILABLE, n, statuses, err);
    if (is_refused(rpcs, n)) {
        (void)failed(DLOCK_UNKNOWN, n, statuses, err);
        return dlock_fail(err, "etcd", DLOCK_UNKNOWN, RESOURCE_EXHAUSTED, "%s", plan.refusal);
    }
    status = __real_etcd_exchange(endpoints, rpcs, n, writes, deadline_ns, statuses, err);
    if (now && plan.silent)
        return failed(writes ? DLOCK_UNKNOWN : DLOCK_UNAVAILABLE, n, statuses, err);
    if (status == DLOCK_OK && rpcs[0]->method == ETCD_LEASE_GRANT)
        granted_lease = ((Pb__LeaseGrantResponse *)(void *)rpcs[0]->answers[0])->id;
    if (now && plan.cut && status == DLOCK_OK)
        keys_cut(rpcs[0]);
    return status;
}

#endif
