/* SPDX-License-Identifier: MIT */
#include "take.h"

#include "lock.h"
#include "permit.h"
#include "stand.h"

#define TRIES     3  /* with other leases, if those of the stock have ended */
#define OVERTAKEN 20 /* by readers that go before it has joined them */

/* LOST: the leases have ended, or the key has ended meanwhile: once more. */
static enum dlock_status try_once(struct etcd_take *take)
{
    enum dlock_status status = etcd_flight_leases(take);

    if (status != DLOCK_OK)
        return status;
    return take->limit > 1 ? etcd_permit_try(take) : etcd_lock_try(take);
}

static enum dlock_status try(struct etcd_take *take)
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

enum dlock_status etcd_take(struct etcd_session *session, const struct dlock_request *req,
                            struct dlock_grant *grant, struct dlock_error *err)
{
    struct etcd_take take;
    bool known = false;
    enum dlock_status status = DLOCK_OK;

    etcd_flight_begin(&take, session, req, grant, err);
    if ((req->flags & DLOCK_REQ_REFRESH) != 0) {
        status = etcd_stand_ask(&take, &known);
        return status == DLOCK_OK && !known ? DLOCK_BUSY : status; /* not queued any more */
    }
    if (take.slot->create_revision != 0)
        status = etcd_stand_ask(&take, &known);
    return status == DLOCK_OK && !known ? try(&take) : status;
}
