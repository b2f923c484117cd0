/* SPDX-License-Identifier: MIT */
/* Does a lease end when it should, wherever in a second of the store's clock it began? */
#include "conformance.h"

#include <inttypes.h>

#define LEASES  12
#define TTLS    4
#define LATE_MS 1000
#define ASK_MS  20

struct lease {
    const struct dlt_run *run;
    struct dlock_handle *lock, *next; /* of two clients; the second asks all the time */
    int64_t ttl_ms;
    int64_t start_ns;
    int with_claim; /* it ends with the claim */
    int renewed;    /* once, at half its time */
    int64_t earliest_ns, latest_ns;
    int judged;
};

/*
 * The last call, which has just returned, made the lease or extended it. What the handle says is
 * counted from the sending, and less by the margin: 10 % and at least 10 ms, of which a tenth of
 * the lease is used here. A lease that lives in a session ends with the claim.
 */
static void bounds_set(struct lease *lease)
{
    int64_t now_ns = dlt_now_ns();
    int64_t left_ms = dlock_remaining_ms(lease->lock);
    int64_t drift_ns = lease->with_claim ? 0 : left_ms * DLT_NS_PER_MS / 100;

    lease->earliest_ns = now_ns + left_ms * DLT_NS_PER_MS + drift_ns;
    lease->latest_ns = now_ns + lease->ttl_ms * DLT_NS_PER_MS;
}

/* What the store, and for a session the thread that ends the lease, may be late. */
static int64_t late_ms(const struct lease *lease)
{
    int64_t ms = lease->ttl_ms / 20 > LATE_MS ? lease->ttl_ms / 20 : LATE_MS;

    return ms + lease->run->grid_ms + (lease->with_claim ? 1000 + lease->run->slack_ms : 0);
}

static void renew_at_half_time(struct lease *lease)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (!lease->renewed || dlt_now_ns() < lease->start_ns + lease->ttl_ms / 2 * DLT_NS_PER_MS)
        return;
    lease->renewed = 0;
    status = dlock_renew(lease->lock, lease->ttl_ms, &dlt_err);
    if (status == DLOCK_OK)
        bounds_set(lease);
    else /* on a busy machine; it may have been extended nevertheless */
        lease->latest_ns = dlt_now_ns() + lease->ttl_ms * DLT_NS_PER_MS;
}

static void *lease_main(void *arg)
{
    struct lease *lease = arg;
    enum dlock_status status = DLOCK_BUSY;
    int64_t asked_ns = 0, got_ns = 0;

    dlt_sleep_until(lease->start_ns);
    DLT_TAKE(lease->lock);
    bounds_set(lease);
    while (status == DLOCK_BUSY) {
        renew_at_half_time(lease);
        asked_ns = dlt_now_ns();
        status = dlock_trylock(lease->next, &dlt_err);
        got_ns = dlt_now_ns();
        /* No ruler: a store that is always a little late has to be seen on a busy machine, too. */
        DLT_CHECK(status != DLOCK_BUSY ||
                      asked_ns <= lease->latest_ns + late_ms(lease) * DLT_NS_PER_MS,
                  "a lease of %" PRId64 " ms still held its name %.0f ms after its end, want at "
                  "most %" PRId64 " ms",
                  lease->ttl_ms, (double)(asked_ns - lease->latest_ns) / 1e6, late_ms(lease));
        if (status == DLOCK_BUSY)
            dlt_sleep_ms(ASK_MS);
    }
    if (dlt_ran_out(status)) /* no answer in time: the asker itself may have the name now */
        return NULL;
    DLT_STATUS(status, DLOCK_OK);
    DLT_CHECK(got_ns >= lease->earliest_ns,
              "a second client got the name %.1f ms before the lease of %" PRId64 " ms ended",
              (double)(lease->earliest_ns - got_ns) / 1e6, lease->ttl_ms);
    lease->judged = 1;
    return NULL;
}

/* The leases begin at moments that are spread over a second: a store whose clock has whole seconds
 * shows itself in some of them, always. */
void dlt_case_lease_ends_on_time(struct dlt_run *run)
{
    static const int64_t ttls_ms[TTLS] = {500, 1000, 1700, 2500};
    struct dlock_client *one = dlt_client(run, "connections=64");
    struct dlock_client *two = dlt_client(run, "connections=64");
    int64_t start_ns = dlt_now_ns() + 100 * DLT_NS_PER_MS;
    struct lease leases[LEASES];
    pthread_t threads[LEASES];
    /* Where it has a session of its own, it takes one of the server's. */
    int count = dlt_session_lives(one) ? TTLS : LEASES, judged = 0;

    for (int i = 0; i < count; i++) {
        int64_t ttl_ms = dlt_ttl(one, ttls_ms[i % TTLS]);
        char suffix[16];

        (void)snprintf(suffix, sizeof suffix, "%d", i);
        leases[i] = (struct lease){.run = run,
                                   .lock = dlt_lease(run, one, suffix, ttl_ms),
                                   .next = dlt_lease(run, two, suffix, 30000),
                                   .ttl_ms = ttl_ms,
                                   .start_ns = start_ns + i * 1000 * DLT_NS_PER_MS / count,
                                   .with_claim = dlt_ends_with_claim(one),
                                   .renewed = i % 3 == 0};
        threads[i] = dlt_thread(lease_main, &leases[i]);
    }
    for (int i = 0; i < count; i++) {
        (void)dlt_join(threads[i]);
        judged += leases[i].judged;
        dlock_free(leases[i].lock);
        dlock_free(leases[i].next);
    }
    DLT_CHECK(judged >= count / 2, "the store answered in time for %d leases of %d, want half",
              judged, count);
    dlock_client_close(one);
    dlock_client_close(two);
}
