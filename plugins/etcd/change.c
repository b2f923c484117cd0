/* SPDX-License-Identifier: MIT */
#include "change.h"

#include "txn.h"
#include "value.h"

#include <stdlib.h>
#include <string.h>

/* One Put under way. */
struct part {
    const struct etcd_change *change;
    struct etcd_slot *slot;
    struct etcd_lease *longer; /* NULL: the key keeps its lease */
    bool downgrade;
    char value[ETCD_VALUE_SIZE];
    size_t value_len;
    struct etcd_txn txn;
    struct etcd_rpc rpc;
};

static bool wants_reader(const struct etcd_change *change)
{
    return (change->op->req->flags & DLOCK_REQ_DOWNGRADE) != 0 &&
           !etcd_value_is_shared(change->kv->value.data, change->kv->value.len);
}

static bool wants_longer(struct etcd_session *session, const struct etcd_change *change)
{
    const struct etcd_slot *slot = change->op->req->attempt;

    return etcd_stock_round(&session->stock, change->op->req->ttl_ms) > slot->lease->ttl_ms;
}

bool etcd_change_needed(struct etcd_session *session, const struct etcd_change *change)
{
    return wants_reader(change) || wants_longer(session, change);
}

static void value_make(struct part *part)
{
    const Pb__KeyValue *kv = part->change->kv;

    part->value_len = kv->value.len < sizeof part->value ? kv->value.len : sizeof part->value;
    if (part->value_len > 0)
        memcpy(part->value, kv->value.data, part->value_len);
    if (part->downgrade && part->value_len >= 2)
        part->value[0] = 's';
    else if (part->downgrade)
        part->value_len = etcd_value_make(part->value, sizeof part->value, DLOCK_SHARED,
                                          part->change->op->req->label);
}

/* A new lease takes half of the time at most: what is there already goes on without. */
static bool part_make(struct part *part, struct etcd_session *session,
                      const struct etcd_change *change, int64_t grants_until_ns,
                      struct dlock_error *err)
{
    const int64_t ttl_ms = change->op->req->ttl_ms;
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    part->change = change;
    part->slot = change->op->req->attempt;
    part->downgrade = wants_reader(change);
    etcd_rpc_init(&part->rpc, ETCD_TXN, 1);
    if (wants_longer(session, change) && etcd_stock_now(&session->stock) < grants_until_ns)
        (void)etcd_stock_grant(&session->stock, ttl_ms, grants_until_ns, &part->longer, &ignored);
    if (part->longer == NULL && !part->downgrade)
        return false;
    value_make(part);
    etcd_txn_if_unchanged(&part->txn, change->keys, part->slot->mod_revision);
    etcd_txn_put(&part->txn.then, change->keys, part->value, part->value_len,
                 part->longer != NULL ? part->longer->id : part->slot->lease->id);
    if (etcd_rpc_add(&part->rpc, etcd_txn_request(&part->txn)))
        return true;
    etcd_rpc_fini(&part->rpc);
    etcd_stock_put(&session->stock, part->longer);
    if (part->downgrade)
        change->op->status =
            dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
    return false;
}

static void done(struct etcd_session *session, struct part *part, int64_t revision)
{
    struct dlock_lease_op *op = part->change->op;
    struct etcd_slot *slot = part->slot;

    slot->mod_revision = revision;
    if (part->longer == NULL)
        return;
    etcd_stock_put(&session->stock, slot->lease);
    slot->lease = part->longer;
    op->grant.lease_ms = etcd_slot_lease_ms(slot, op->req->ttl_ms);
}

static void part_judge(struct etcd_session *session, struct part *part, enum dlock_status status,
                       struct dlock_error *err)
{
    const Pb__TxnResponse *answer = NULL;

    if (status == DLOCK_OK) {
        answer = (const Pb__TxnResponse *)(const void *)etcd_rpc_answer(&part->rpc, 0);
        if (answer->succeeded && answer->header != NULL) {
            done(session, part, answer->header->revision);
            return;
        }
        status = dlock_fail(err, ETCD_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "an earlier request changed the key meanwhile");
        etcd_stock_put(&session->stock, part->longer);
        etcd_slot_doubt(part->slot);
    } else if (status == DLOCK_UNAVAILABLE) {
        etcd_stock_put(&session->stock, part->longer);
    } else if (status == DLOCK_LOST) {
        status = DLOCK_UNAVAILABLE; /* not executed: the next renewal finds out why */
        etcd_stock_drop(part->longer);
    } else {
        etcd_stock_drop(part->longer);
        etcd_slot_doubt(part->slot);
    }
    if (part->downgrade)
        part->change->op->status = status;
}

static void run(struct etcd_session *session, struct part *parts, struct etcd_rpc **rpcs,
                enum dlock_status *statuses, size_t n, int64_t deadline_ns, struct dlock_error *err)
{
    for (size_t i = 0; i < n; i++)
        rpcs[i] = &parts[i].rpc;
    if (n > 0)
        (void)etcd_exchange(&session->endpoints, rpcs, n, true, deadline_ns, statuses, err);
    for (size_t i = 0; i < n; i++) {
        part_judge(session, &parts[i], statuses[i], err);
        etcd_rpc_fini(&parts[i].rpc);
    }
}

void etcd_change_run(struct etcd_session *session, const struct etcd_change *changes, size_t n,
                     int64_t deadline_ns, struct dlock_error *err)
{
    const int64_t now_ns = etcd_stock_now(&session->stock);
    struct part *parts = calloc(n, sizeof *parts);
    struct etcd_rpc **rpcs = calloc(n, sizeof *rpcs);
    enum dlock_status *statuses = calloc(n, sizeof *statuses);
    size_t count = 0;

    if (parts != NULL && rpcs != NULL && statuses != NULL) {
        for (size_t i = 0; i < n; i++)
            if (part_make(&parts[count], session, &changes[i], now_ns + (deadline_ns - now_ns) / 2,
                          err))
                count++;
            else
                memset(&parts[count], 0, sizeof parts[count]);
        run(session, parts, rpcs, statuses, count, deadline_ns, err);
    }
    for (size_t i = 0; i < n && (parts == NULL || rpcs == NULL || statuses == NULL); i++)
        if (wants_reader(&changes[i]))
            changes[i].op->status =
                dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for renewals");
    free(parts);
    free(rpcs);
    free(statuses);
}
