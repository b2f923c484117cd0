/* SPDX-License-Identifier: MIT */
/* exchange_plan.h - what goes wrong with an exchange: the linker puts our zk_exchange_run before
 * that of the plugin. Each exchange counts. */
#ifndef DLT_FLIGHT_PLAN_H
#define DLT_FLIGHT_PLAN_H

#include "name_kit.h"

enum dlock_status __real_zk_exchange_run(struct zk_exchange *exchange, int64_t *id,
                                         int64_t deadline_ns, struct dlock_error *err);
enum dlock_status __wrap_zk_exchange_run(struct zk_exchange *exchange, int64_t *id,
                                         int64_t deadline_ns, struct dlock_error *err);

/* What is done with an exchange. */
static struct {
    int left;                    /* exchanges before it; less than 0: nothing is done */
    const char *ask;             /* of the server, before it */
    struct dlt_session *expires; /* the session of this client, before it */
    bool down;                   /* it is not sent */
    struct dlt_session *lost;    /* it is of this client, and vanishes on its way */
    bool silent;                 /* its answers are lost, from number `heard` on */
    size_t heard;
    bool blind;       /* it sees no children */
    int rc;           /* its first answer; 0: the real one */
    enum zk_op first; /* out: its first call */
} plan = {.left = -1};

static void at(int left)
{
    memset(&plan, 0, sizeof plan);
    plan.left = left;
}

static enum dlock_status failed(struct zk_exchange *exchange, size_t from, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;
    struct zk_call *call = NULL;

    for (size_t i = from; (call = zk_exchange_call(exchange, i)) != NULL; i++) {
        call->done = false;
        if (call->op == ZK_CREATE || call->op == ZK_DELETE)
            status = DLOCK_UNKNOWN;
    }
    return dlock_fail(err, ZK_ORIGIN, status, 0, "as the test wants it");
}

static void children_hide(struct zk_exchange *exchange)
{
    struct zk_call *call = NULL;

    for (size_t i = 0; (call = zk_exchange_call(exchange, i)) != NULL; i++) {
        for (int32_t j = 0; j < call->children.count; j++)
            free(call->children.data[j]);
        call->children.count = 0;
    }
}

static bool now_is_it(void)
{
    return plan.left-- == 0;
}

enum dlock_status __wrap_zk_exchange_run(struct zk_exchange *exchange, int64_t *id,
                                         int64_t deadline_ns, struct dlock_error *err)
{
    const bool now = now_is_it();
    enum dlock_status status = DLOCK_INTERNAL;

    if (now)
        plan.first = zk_exchange_call(exchange, 0)->op;
    if (now && plan.ask != NULL)
        (void)dlt_zk_ask(&server, "%s", plan.ask);
    if (now && plan.expires != NULL)
        expire(plan.expires);
    if (now && plan.down)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0, "as the test wants it");
    if (now && plan.lost != NULL) {
        *id = session_id(plan.lost);
        return failed(exchange, 0, err);
    }
    status = __real_zk_exchange_run(exchange, id, deadline_ns, err);
    if (now && status == DLOCK_OK && plan.silent)
        return failed(exchange, plan.heard, err);
    if (now && status == DLOCK_OK && plan.blind)
        children_hide(exchange);
    if (now && status == DLOCK_OK && plan.rc != 0)
        zk_exchange_call(exchange, 0)->rc = plan.rc;
    return status;
}

#endif
