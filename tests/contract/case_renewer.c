/* SPDX-License-Identifier: MIT */
/* Is a lock kept for as long as it is wanted, and no longer? */
#include "../kit/notices.h"
#include "conformance.h"

#include <inttypes.h>

void dlt_case_renewer_renews(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlock_handle *lock = dlt_lock(run, client, "x", ttl_ms),
                        *next = dlt_lock(run, other, "x", 0);
    struct dlock_notice event = {.struct_size = sizeof event};
    double held_ms = (double)dlt_ttl(client, ttl_ms) + 2500;
    int64_t start_ns = 0;

    DLT_TAKE(lock);
    for (start_ns = dlt_now_ns(); dlt_ms_since(start_ns) < held_ms;) {
        DLT_STATE(lock, DLOCK_STATE_HELD, "after %.0f ms", dlt_ms_since(start_ns));
        DLT_STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
        dlt_sleep_ms(20);
    }
    DLT_CHECK(dlt_notice_take(client, &event, NULL) == 0,
              "a loss event came though the lock is held");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlock_trylock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Locks of very different ttl side by side: the short one is not starved by the long one. */
void dlt_case_renewer_keeps_many(struct dlt_run *run)
{
    const int64_t least_ms = dlt_kept_ttl_ms(run);
    const int64_t ttls_ms[] = {least_ms,        60000,          least_ms + 500,
                               least_ms + 2000, least_ms + 200, 30000};
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *locks[6];

    for (int i = 0; i < 6; i++) {
        char suffix[8];

        (void)snprintf(suffix, sizeof suffix, "%d", i);
        locks[i] = dlt_lock(run, client, suffix, ttls_ms[i]);
        DLT_TAKE(locks[i]);
    }
    dlt_sleep_ms(dlt_ttl(client, least_ms) + 2500);
    for (int i = 0; i < 6; i++) {
        DLT_STATE(locks[i], DLOCK_STATE_HELD, "the lock with a ttl of %" PRId64 " ms", ttls_ms[i]);
        DLT_OK(dlock_unlock(locks[i], &dlt_err));
        dlock_free(locks[i]);
    }
    dlock_client_close(client);
}

void dlt_case_renewer_stops_at_max_hold(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    const int64_t kept_ms = dlt_kept_ttl_ms(run), hold_ms = kept_ms + 1000;
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = kept_ms,
                                    .max_hold_ms = hold_ms};
    struct dlock_handle *lock = dlt_lock_with(run, client, "x", &options);
    struct dlock_handle *next = dlt_lock(run, other, "x", 0);
    struct dlock_notice event = {.struct_size = sizeof event};
    int64_t ttl_ms = dlt_ttl(client, options.ttl_ms), asked_ns = dlt_now_ns(), start_ns = 0;

    DLT_TAKE(lock);
    start_ns = dlt_now_ns();
    DLT_CHECK(dlt_event_await(client, &event, hold_ms + 7500), "no loss event came, want one");
    DLT_REASON(event.reason, DLOCK_REASON_MAX_HOLD);
    DLT_WITHIN(start_ns, hold_ms + 1300 + 3 * run->slack_ms, "the loss by max_hold");
    DLT_CHECK(dlt_ms_since(asked_ns) >= (double)hold_ms - 100,
              "the loss came after %.0f ms, before max_hold", dlt_ms_since(asked_ns));
    DLT_STATE(lock, DLOCK_STATE_LOST, "after max_hold");
    DLT_OK(dlock_timedlock(next, ttl_ms + 3500 + 5 * run->slack_ms, &dlt_err));
    DLT_WITHIN(start_ns, hold_ms + ttl_ms + 800 + 3 * run->slack_ms,
               "the next handle acquired after max_hold and a ttl");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Shorter than the lease itself: it ends all the same. */
void dlt_case_renewer_stops_within_the_lease(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = dlt_kept_ttl_ms(run),
                                    .max_hold_ms = 500};
    struct dlock_handle *lock = dlt_lock_with(run, client, "x", &options);
    struct dlock_notice event = {.struct_size = sizeof event};
    int64_t start_ns = 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    start_ns = dlt_now_ns();
    DLT_CHECK(dlock_remaining_ms(lock) <= 500,
              "%" PRId64 " ms are left, want 500 (max_hold) at most", dlock_remaining_ms(lock));
    DLT_CHECK(dlt_event_await(client, &event, 10000), "no loss event came, want one");
    DLT_REASON(event.reason, DLOCK_REASON_MAX_HOLD);
    DLT_WITHIN(start_ns, 500 + 1300 + 3 * run->slack_ms, "the loss by max_hold");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    /* The store frees the name with the lease at the latest. */
    DLT_OK(dlock_timedlock(lock, dlt_ttl(client, options.ttl_ms) + 3000, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_renewer_leaves_renewal_to_the_caller(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "renew=off"), *other = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_ttl(client, dlt_kept_ttl_ms(run));
    struct dlock_handle *lock = dlt_lock(run, client, "x", ttl_ms),
                        *next = dlt_lock(run, other, "x", 0);

    DLT_TAKE(lock);
    for (int i = 0; i < 5; i++) { /* longer than the ttl */
        dlt_sleep_ms(ttl_ms * 7 / 30);
        DLT_OK(dlock_renew(lock, 0, &dlt_err));
        DLT_STATUS(dlock_trylock(next, &dlt_err), DLOCK_BUSY);
    }
    DLT_OK(dlock_timedlock(next, ttl_ms + 7000, &dlt_err));
    DLT_STATE(lock, DLOCK_STATE_LOST, "it was renewed though renew=off");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_renew_with_another_ttl(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", dlt_kept_ttl_ms(run));
    struct dlt_name name = dlt_name(run, "x");

    DLT_TAKE(lock);
    if (dlt_ttl_asked(client, 20000) == 0) {
        DLT_STATUS(dlock_renew(lock, 20000, &dlt_err), DLOCK_CONFIG);
        DLT_STATE(lock, DLOCK_STATE_HELD, "a refused renewal ended it");
        dlt_skip("this store gives no ttl of 20 s");
    }
    DLT_OK(dlock_renew(lock, 20000, &dlt_err));
    if (dlt_session_lives(client))
        dlt_skip("a claim lasts from ping to ping, whatever the ttl");
    DLT_CHECK(dlock_remaining_ms(lock) > 15000, "%" PRId64 " ms left after a renewal to 20 s",
              dlock_remaining_ms(lock));
    DLT_OK(dlock_renew(lock, 100, &dlt_err));
    DLT_CHECK(dlock_remaining_ms(lock) > 10000, "a renewal shortened it to %" PRId64 " ms",
              dlock_remaining_ms(lock));
    DLT_CHECK(dlt_is_tethered(client) || !dlt_can_inspect(client) ||
                  dlt_inspect(client, &name).info.remaining_ms > 10000,
              "inspect shows 10 s or less after a renewal to 20 s and one to 100 ms");
    DLT_STATUS(dlock_renew(lock, 49, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_renew(lock, -1, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_renew(lock, INT64_MAX, &dlt_err), DLOCK_INVALID);
    DLT_STATE(lock, DLOCK_STATE_HELD, "a refused renewal ended it");
    dlock_free(lock);
    dlock_client_close(client);
}

/* Unlock ends the renewals: with the next holder in place, nothing of the first disturbs it. */
void dlt_case_renewer_stops_with_unlock(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    const int64_t asked_ms = 400 + 10 * run->slack_ms;
    struct dlock_handle *lock = dlt_lock(run, client, "x", asked_ms);
    struct dlock_handle *next = dlt_lease(run, other, "x", 300);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_notice event = {.struct_size = sizeof event};
    int64_t ttl_ms = dlt_ttl(client, asked_ms);

    for (int i = 0; i < 200; i++) {
        DLT_TAKE(lock);
        if (i % (ttl_ms < 1500 ? 20 : 50) == 0)
            dlt_sleep_ms(ttl_ms / 3);
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    DLT_TAKE(next);
    dlt_sleep_ms(dlt_ttl(other, 300) + 150);
    DLT_CHECK(!dlt_can_inspect(client) || dlt_inspect_expired(run, client, &name).count == 0,
              "inspect shows a holder after the lease: a lock that was unlocked is renewed");
    DLT_CHECK(dlt_notice_take(client, &event, NULL) == 0,
              "a loss event came for a lock that was unlocked");
    DLT_STATUS(dlock_unlock(next, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}
