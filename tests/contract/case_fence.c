/* SPDX-License-Identifier: MIT */
/* Do fences rise with each exclusive claim, and stay what they are in between? */
#include "child.h"
#include "conformance.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void fence_rise(uint64_t *last, uint64_t fence, const char *after)
{
    DLT_CHECK(fence > *last, "fence %" PRIu64 " came after %" PRIu64 " and %s, want a greater one",
              fence, *last, after);
    *last = fence;
}

void dlt_case_fence_rises(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *a = dlt_lock(run, client, "x", 0), *b = dlt_lease(run, other, "x", 150);
    struct dlt_name name = dlt_name(run, "x");
    int breaks = dlt_can_break(run, client);
    uint64_t last = 0;

    for (int i = 0; i < 3; i++) {
        DLT_OK(dlock_timedlock(a, 10000, &dlt_err));
        fence_rise(&last, dlock_fence(a), i == 0 ? "nothing" : "an expiry");
        DLT_OK(dlock_unlock(a, &dlt_err));
        DLT_OK(dlock_trylock(a, &dlt_err));
        fence_rise(&last, dlock_fence(a), "an unlock");
        if (breaks)
            dlt_break(run, client, &name);
        else
            DLT_OK(dlock_unlock(a, &dlt_err));
        DLT_TAKE(b);
        fence_rise(&last, dlock_fence(b), breaks ? "a break" : "an unlock");
        DLT_STATUS(dlock_unlock(a, &dlt_err), breaks ? DLOCK_LOST : DLOCK_NOT_HELD);
        dlt_sleep_ms(dlt_ttl(other, 150) + 50);
        DLT_STATUS(dlock_unlock(b, &dlt_err), DLOCK_LOST);
    }
    dlock_free(a);
    dlock_free(b);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Hand-over between waiters counts as well. */
void dlt_case_fence_rises_for_waiters(struct dlt_run *run)
{
    struct dlock_client *clients[2] = {dlt_client(run, NULL), dlt_client(run, NULL)};
    struct dlock_handle *locks[4];
    struct dlt_waiter waiter;
    uint64_t last = 0;

    for (int i = 0; i < 4; i++)
        locks[i] = dlt_lock(run, clients[i / 2], "x", 0);
    DLT_OK(dlock_trylock(locks[0], &dlt_err));
    last = dlock_fence(locks[0]);
    for (int i = 0; i < 8; i++) {
        dlt_waiter_start(&waiter, locks[(i + 1) % 4], 20000);
        DLT_OK(dlock_unlock(locks[i % 4], &dlt_err));
        DLT_OK(dlt_waiter_join(&waiter));
        fence_rise(&last, waiter.fence, "a hand-over");
    }
    for (int i = 0; i < 4; i++)
        dlock_free(locks[i]);
    dlock_client_close(clients[0]);
    dlock_client_close(clients[1]);
}

void dlt_case_fence_stays_when_renewed(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlock_handle *lock = dlt_lock(run, client, "x", ttl_ms);
    struct dlt_name name = dlt_name(run, "x");
    uint64_t fence = 0;

    DLT_TAKE(lock);
    fence = dlock_fence(lock);
    DLT_OK(dlock_renew(lock, 0, &dlt_err));
    dlt_sleep_ms(dlt_ttl(client, ttl_ms) + 1000);
    DLT_STATE(lock, DLOCK_STATE_HELD, "renewals have to keep it");
    DLT_CHECK(dlock_fence(lock) == fence, "the fence is %" PRIu64 " after renewals, want %" PRIu64,
              dlock_fence(lock), fence);
    DLT_CHECK(!dlt_can_inspect(client) || dlt_inspect(client, &name).info.fence == fence,
              "inspect shows another fence than the handle, want %" PRIu64, fence);
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_fence_over_processes(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_child child;
    uint64_t last = 0;

    for (int i = 0; i < 2; i++) {
        DLT_OK(dlock_timedlock(lock, dlt_death_ms(run, client, 0) + 10000, &dlt_err));
        fence_rise(&last, dlock_fence(lock), "a killed process");
        DLT_OK(dlock_unlock(lock, &dlt_err));
        dlt_child_start(&child, run, NULL);
        dlt_child_want(&child, "OK", "new 0 %sx 300 1", run->prefix);
        dlt_child_want(&child, "OK", "lock 0 15000");
        fence_rise(&last, strtoull(strchr(child.reply, ' '), NULL, 10), "another process");
        dlt_child_kill(&child);
    }
    dlock_free(lock);
    dlock_client_close(client);
}

/* fence=on is a demand: it is met or refused, never made up. */
void dlt_case_fence_on_demand(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .fence = DLOCK_ON};
    int has_fence = (dlock_client_caps(client) & DLOCK_CAP_FENCE) != 0;
    struct dlock_handle *lock = NULL;

    DLT_STATUS(dlock_new(client, "x", 1, &options, &lock, &dlt_err),
               has_fence ? DLOCK_OK : DLOCK_UNSUPPORTED);
    dlock_free(lock);
    options.fence = DLOCK_OFF;
    lock = dlt_lock_with(run, client, "x", &options);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}
