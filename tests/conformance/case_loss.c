/* SPDX-License-Identifier: MIT */
/* Is a loss told once, and does it stay a loss? */
#include "conformance.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>

static void nothing_more(struct dlock_client *client)
{
    struct pollfd fd = {.fd = dlock_client_event_fd(client), .events = POLLIN};
    struct dlock_event event;

    DLT_CHECK(dlock_client_next_event(client, &event) == 0, "told twice");
    DLT_CHECK(poll(&fd, 1, 0) == 0, "readable, and nothing is queued");
}

static void lost_calls_answer_lost(struct dlock *lock)
{
    for (int i = 0; i < 2; i++) {
        DLT_CHECK(dlock_state(lock) == DLOCK_STATE_LOST, "not LOST before unlock");
        DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_timedlock(lock, 10, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    }
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_CHECK(dlock_state(lock) == DLOCK_STATE_FREE, "unlock does not acknowledge");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
}

void dlt_case_loss_by_expiry(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .ttl_ms = 400,
                                    .op_timeout_ms = 2000,
                                    .renew = DLOCK_OFF,
                                    .user = &options};
    struct dlock *lock = dlt_lock_with(run, client, "x", &options);
    struct dlock_event event = {0};
    int64_t latest_ns = 0;

    DLT_TAKE(lock);
    latest_ns = dlt_now_ns() + (400 + 1500 + run->slack_ms) * DLT_NS_PER_MS;
    DLT_CHECK(dlt_event_await(client, &event, 5000), "nobody was told");
    DLT_CHECK(dlt_now_ns() < latest_ns, "told %.0f ms late", dlt_ms_since(latest_ns));
    DLT_CHECK(event.lock == lock && event.user == &options, "the event is of another handle");
    DLT_CHECK(event.reason == DLOCK_REASON_EXPIRED, "reason %d", (int)event.reason);
    DLT_CHECK(event.fence == dlock_fence(lock), "fence %" PRIu64, event.fence);
    lost_calls_answer_lost(lock);
    nothing_more(client);
    /* The store keeps the lease for a little longer than we believe in it. */
    DLT_TAKE(lock);
    DLT_CHECK(dlt_event_await(client, &event, 5000), "the second loss was not told");
    nothing_more(client);
    dlock_free(lock);
    dlock_client_close(client);
}

/* The keeper notices at its next renewal, at ttl/3. */
void dlt_case_loss_by_break(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock *lock = dlt_lock(run, client, "x", 3000), *next = dlt_lock(run, other, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_event event = {0};
    int64_t start_ns = 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    start_ns = dlt_now_ns();
    dlt_break(run, other, &name);
    DLT_OK(dlock_trylock(next, &dlt_err));
    DLT_CHECK(dlt_event_await(client, &event, 5000), "nobody was told");
    DLT_CHECK(dlt_ms_since(start_ns) < 2300 + (double)run->slack_ms, "told after %.0f ms",
              dlt_ms_since(start_ns));
    DLT_CHECK(event.reason == DLOCK_REASON_TAKEN, "reason %d", (int)event.reason);
    lost_calls_answer_lost(lock);
    nothing_more(client);
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_loss_found_by_renew(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock *lock = dlt_lease(run, client, "x", 30000);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_event event = {0};

    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_break(run, client, &name);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    DLT_CHECK(dlock_remaining_ms(lock) == 0, "time is left after LOST");
    DLT_CHECK(dlt_event_await(client, &event, 5000), "nobody was told");
    DLT_CHECK(event.reason == DLOCK_REASON_TAKEN, "reason %d", (int)event.reason);
    lost_calls_answer_lost(lock);
    nothing_more(client);
    dlock_free(lock);
    dlock_client_close(client);
}

/* unlock may be the one that finds out. */
void dlt_case_loss_found_by_unlock(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock *lock = dlt_lease(run, client, "x", 30000), *next = dlt_lease(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");

    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_break(run, client, &name);
    DLT_OK(dlock_trylock(next, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(next, &dlt_err));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
}

struct told {
    _Atomic int calls;
    _Atomic int reason;
    _Atomic int wrong; /* what a call in the callback answered amiss */
};

static void on_lost(void *arg, const struct dlock_event *event)
{
    struct told *told = arg;
    struct dlock_error err = DLOCK_ERROR_INIT;

    told->reason = (int)event->reason;
    told->wrong += dlock_state(event->lock) != DLOCK_STATE_LOST;
    told->wrong += dlock_remaining_ms(event->lock) != 0;
    told->wrong += dlock_fence(event->lock) != event->fence;
    told->wrong += dlock_unlock(event->lock, &err) != DLOCK_LOST;
    told->calls++;
}

void dlt_case_loss_callback(struct dlt_run *run)
{
    struct told told = {0};
    struct dlock_client_options options = {
        .struct_size = sizeof options, .on_lost = on_lost, .on_lost_arg = &told};
    struct dlock_client *client = NULL;
    struct dlock *lock = NULL;

    DLT_OK(dlock_client_open(run->uri, &options, &client, &dlt_err));
    DLT_CHECK(dlock_client_event_fd(client) == -1, "an event fd beside the callback");
    lock = dlt_lease(run, client, "x", 300);
    for (int turn = 1; turn <= 2; turn++) {
        DLT_TAKE(lock);
        for (int i = 0; i < 500 && told.calls < turn; i++)
            dlt_sleep_ms(10);
        dlt_sleep_ms(100);
        DLT_CHECK(told.calls == turn, "%d calls after %d losses", told.calls, turn);
        DLT_CHECK(told.reason == DLOCK_REASON_EXPIRED, "reason %d", told.reason);
        DLT_CHECK(told.wrong == 0, "%d wrong answers in the callback", told.wrong);
        DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    }
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_loss_leaves_the_next_holder_alone(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock *lock = dlt_lease(run, client, "x", 300), *next = dlt_lock(run, other, "x", 0);
    struct dlock *third = dlt_lock(run, other, "x", 0);

    DLT_TAKE(lock);
    DLT_OK(dlock_timedlock(next, 10000, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    DLT_STATUS(dlock_trylock(third, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_renew(next, 0, &dlt_err));
    DLT_OK(dlock_unlock(next, &dlt_err));
    dlock_free(next);
    dlock_free(third);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Nobody took it, and yet a renewal does not bring it back. */
void dlt_case_loss_is_not_renewed_away(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock *lock = dlt_lease(run, client, "x", 300), *next = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");

    DLT_TAKE(lock);
    dlt_sleep_ms(450);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    DLT_CHECK(!dlt_can_inspect(client) || dlt_inspect_expired(client, &name).count == 0,
              "the renewal made a new lease");
    DLT_OK(dlock_trylock(next, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
}

void dlt_case_loss_dies_with_the_handle(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock *lock = dlt_lease(run, client, "x", 100);
    struct pollfd fd = {.fd = dlock_client_event_fd(client), .events = POLLIN};

    DLT_TAKE(lock);
    DLT_CHECK(poll(&fd, 1, 5000) == 1, "nobody was told");
    dlock_free(lock);
    nothing_more(client);
    dlock_client_close(client);
}
