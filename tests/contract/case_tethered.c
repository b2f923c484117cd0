/* SPDX-License-Identifier: MIT */
/* A lease that lives in the session of its client does not end by its time while the client lives:
 * is it free for others when the claim has run out? */
#include "conformance.h"

#include <inttypes.h>

#define LOOK_MS 50 /* the waiter looks so often, where the store does not tell him */

/* Held by a handle that says nothing more. Another client waits, and has it after least_ms, and
 * after most_ms at the latest. */
static void ends_by_itself(struct dlt_run *run, const struct dlock_options *options,
                           enum dlock_reason reason, int64_t least_ms, int64_t most_ms)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, "poll_max=50ms");
    struct dlock_handle *lock = dlt_lock_with(run, client, "x", options);
    struct dlock_handle *next = dlt_lock(run, other, "x", 0);
    struct dlock_notice event = {.struct_size = sizeof event};
    int64_t asked_ns = 0, start_ns = 0, late_ms = run->slack_ms;
    enum dlock_status status;

    if (late_ms > 100) /* a thread ends the lease, another one looks */
        late_ms += 3 * (late_ms - 100);
    asked_ns = dlt_now_ns();
    DLT_TAKE(lock);
    start_ns = dlt_now_ns();
    status = dlock_trylock(next, &dlt_err);
    if (status == DLOCK_BUSY) /* or this thread stood still until the end */
        status = dlock_timedlock(next, most_ms + 10000, &dlt_err);
    DLT_STATUS(status, DLOCK_OK);
    DLT_WITHIN(start_ns, most_ms + LOOK_MS + late_ms, "the next client has it");
    DLT_CHECK(dlt_ms_since(asked_ns) >= (double)(least_ms - run->slack_ms),
              "the next client has it after %.0f ms, want %" PRId64, dlt_ms_since(asked_ns),
              least_ms);
    DLT_CHECK(dlt_event_await(client, &event, 5000), "no loss event came, want one");
    DLT_REASON(event.reason, reason);
    DLT_STATE(lock, DLOCK_STATE_LOST, "nobody has acknowledged the loss");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_renew(next, 0, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_tethered_ends_with_the_claim(struct dlt_run *run)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 1500, /* it is to run out */
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .renew = DLOCK_OFF};
    struct dlock_client *client = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_ttl(client, options.ttl_ms);

    dlock_client_close(client);
    ends_by_itself(run, &options, DLOCK_REASON_EXPIRED, ttl_ms - dlt_margin_ms(ttl_ms), ttl_ms);
}

void dlt_case_tethered_ends_at_max_hold(struct dlt_run *run)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 5000,
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .max_hold_ms = 1000};

    ends_by_itself(run, &options, DLOCK_REASON_MAX_HOLD, 1000, 1000);
}
