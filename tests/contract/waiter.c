/* SPDX-License-Identifier: MIT */
#include "waiter.h"

#include <inttypes.h>

#define DEFAULT_LEASE_MS 3000
#define AWAIT_MS         30000 /* no clause: a machine may be busy */

static void *waiter_run(void *arg)
{
    struct dlt_waiter *waiter = arg;

    waiter->status = waiter->mode == DLOCK_SHARED
                         ? dlock_timedrdlock(waiter->lock, waiter->timeout_ms, &dlt_err)
                         : dlock_timedlock(waiter->lock, waiter->timeout_ms, &dlt_err);
    waiter->done_ns = dlt_now_ns();
    /* Who ended the wait in another way may have freed the handle by now. */
    if (waiter->status == DLOCK_OK)
        waiter->fence = dlock_fence(waiter->lock);
    waiter->done = 1;
    if (waiter->status == DLOCK_OK && waiter->hold_ms >= 0) {
        dlt_sleep_ms(waiter->hold_ms);
        DLT_OK(dlock_unlock(waiter->lock, &dlt_err));
    }
    return NULL;
}

void dlt_waiter_go(struct dlt_waiter *waiter, struct dlock_handle *lock, enum dlock_mode mode,
                   int64_t timeout_ms, int64_t hold_ms)
{
    *waiter = (struct dlt_waiter){.lock = lock,
                                  .mode = mode,
                                  .timeout_ms = timeout_ms,
                                  .hold_ms = hold_ms,
                                  .status = DLOCK_INTERNAL};
    waiter->thread = dlt_thread(waiter_run, waiter);
}

void dlt_waiter_enter(struct dlt_waiter *waiter, struct dlock_handle *lock, enum dlock_mode mode,
                      int64_t timeout_ms, int64_t hold_ms)
{
    dlt_waiter_go(waiter, lock, mode, timeout_ms, hold_ms);
    /* ALREADY: the acquire is in progress. NOT_HELD: it has not begun. */
    while (dlock_unlock(lock, NULL) == DLOCK_NOT_HELD && !waiter->done)
        dlt_sleep_ms(1);
}

void dlt_waiter_start(struct dlt_waiter *waiter, struct dlock_handle *lock, int64_t timeout_ms)
{
    dlt_waiter_enter(waiter, lock, DLOCK_EXCLUSIVE, timeout_ms, -1);
    dlt_sleep_ms(40);
}

enum dlock_status dlt_waiter_join(struct dlt_waiter *waiter)
{
    (void)dlt_join(waiter->thread);
    return waiter->status;
}

enum dlock_status dlt_waiter_join_within(struct dlt_waiter *waiter, int64_t limit_ms)
{
    int64_t start_ns = dlt_now_ns();

    while (!waiter->done) {
        DLT_WITHIN(start_ns, limit_ms, "still waiting");
        dlt_sleep_ms(1);
    }
    return dlt_waiter_join(waiter);
}

int dlt_ran_out(enum dlock_status status)
{
    return status == DLOCK_TIMEOUT || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE;
}

void dlt_times_out(struct dlock_handle *lock, int64_t timeout_ms)
{
    enum dlock_status status = DLOCK_UNKNOWN;

    for (int i = 0; i < 8 && status != DLOCK_TIMEOUT; i++) {
        status = dlock_timedlock(lock, timeout_ms << i, &dlt_err);
        DLT_CHECK(dlt_ran_out(status), "a wait of %" PRId64 " ms for a name that is held is %s",
                  timeout_ms << i, dlock_status_name((int)status));
    }
    DLT_STATUS(status, DLOCK_TIMEOUT);
}

void dlt_waiters_await(struct dlock_client *client, const struct dlt_name *name, uint32_t least,
                       uint32_t most)
{
    int64_t start_ns = dlt_now_ns();

    for (;;) {
        struct dlt_holder holder = dlt_inspect(client, name);

        if (holder.count > 0 && holder.info.waiters >= least && holder.info.waiters <= most)
            return;
        DLT_WITHIN(start_ns, AWAIT_MS,
                   "%u holders and %" PRIu32 " waiters, want a holder and %" PRIu32 " to %" PRIu32,
                   holder.count, holder.info.waiters, least, most);
        dlt_sleep_ms(5);
    }
}

struct dlt_text dlt_waiter_lease(const struct dlt_run *run, int64_t ms)
{
    struct dlt_text lease;
    struct dlock_client_options options = {.struct_size = sizeof options};
    struct dlock_client *client = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)snprintf(lease.text, sizeof lease.text, "waiter_lease=%" PRId64 "ms", ms);
    options.defaults = lease.text;
    status = dlock_client_open(run->uri, &options, &client, &dlt_err);
    if (status == DLOCK_INVALID) /* not an option of this store */
        lease.text[0] = '\0';
    else
        DLT_STATUS(status, DLOCK_OK);
    dlock_client_close(client);
    return lease;
}

struct dlock_client *dlt_client_patient(const struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, 30000); /* looked at after a third of it */
    char options[sizeof lease.text + 16];

    (void)snprintf(options, sizeof options, "poll_max=20s%s%s", lease.text[0] != '\0' ? "&" : "",
                   lease.text);
    return dlt_client(run, options);
}

int64_t dlt_waiter_lease_ms(const struct dlt_text *lease, int64_t ms)
{
    return lease->text[0] == '\0' ? DEFAULT_LEASE_MS : ms;
}
