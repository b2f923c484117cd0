/* SPDX-License-Identifier: MIT */
/* Is a loss told once, and does it stay a loss? */
#include "../kit/notices.h"
#include "conformance.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>

static void nothing_more(struct dlock_client *client)
{
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    struct dlock_notice event = {.struct_size = sizeof event};

    DLT_CHECK(dlt_notice_take(client, &event, NULL) == 0,
              "a second loss event came, want one for each acquisition");
    DLT_CHECK(poll(&fd, 1, 0) == 0, "the event descriptor is readable and no event is queued");
}

static void lost_calls_answer_lost(struct dlock_handle *lock)
{
    for (int i = 0; i < 2; i++) {
        DLT_STATE(lock, DLOCK_STATE_LOST, "after the loss, before the unlock that acknowledges it");
        DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_timedlock(lock, 10, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    }
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_STATE(lock, DLOCK_STATE_FREE, "after the unlock that acknowledges the loss");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
}

/* Takes a lease, and waits for its loss, which comes 1500 ms after the ttl at the latest. */
static void expiry_await(const struct dlt_run *run, struct dlock_client *client,
                         struct dlock_handle *lock, struct dlock_notice *event, int64_t ttl_ms)
{
    int64_t taken_ns = 0;

    DLT_TAKE(lock);
    taken_ns = dlt_now_ns();
    DLT_CHECK(dlt_event_await(client, event, ttl_ms + 4600), "no loss event came, want one");
    DLT_WITHIN(taken_ns, ttl_ms + 1500 + run->slack_ms, "the loss of a lease of %" PRId64 " ms",
               ttl_ms);
}

void dlt_case_loss_by_expiry(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 400, /* it is to run out */
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .renew = DLOCK_OFF,
                                    .user = &options};
    struct dlock_handle *lock = dlt_lock_with(run, client, "x", &options);
    struct dlock_notice event = {.struct_size = sizeof event};
    int64_t ttl_ms = dlt_ttl(client, options.ttl_ms);

    expiry_await(run, client, lock, &event, ttl_ms);
    DLT_CHECK(event.lock == lock && event.user == &options,
              "the loss event has another handle or user pointer");
    DLT_REASON(event.reason, DLOCK_REASON_EXPIRED);
    DLT_CHECK(event.fence == dlock_fence(lock),
              "the loss event has fence %" PRIu64 ", want %" PRIu64, event.fence,
              dlock_fence(lock));
    lost_calls_answer_lost(lock);
    nothing_more(client);
    /* The store keeps the lease for a little longer than we believe in it. */
    expiry_await(run, client, lock, &event, ttl_ms);
    nothing_more(client);
    dlock_free(lock);
    dlock_client_close(client);
}

/* The renewer notices at its next renewal, at ttl/3. */
void dlt_case_loss_by_break(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_ttl(client, dlt_kept_ttl_ms(run)), start_ns = 0;
    int64_t most_ms = ttl_ms * 2 / 3 + 300 + run->slack_ms;
    struct dlock_handle *lock = dlt_lock(run, client, "x", ttl_ms),
                        *next = dlt_lock(run, other, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_notice event = {.struct_size = sizeof event};

    DLT_TAKE(lock);
    start_ns = dlt_now_ns();
    dlt_break(run, other, &name);
    DLT_OK(dlock_trylock(next, &dlt_err));
    DLT_CHECK(dlt_event_await(client, &event, most_ms + 3000), "no loss event came, want one");
    DLT_WITHIN(start_ns, most_ms, "the loss event came after the break");
    DLT_REASON(event.reason, DLOCK_REASON_TAKEN);
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
    struct dlock_handle *lock = dlt_lease(run, client, "x", 30000);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_notice event = {.struct_size = sizeof event};

    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_break(run, client, &name);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    DLT_CHECK(dlock_remaining_ms(lock) == 0, "%" PRId64 " ms are left after LOST, want 0",
              dlock_remaining_ms(lock));
    DLT_CHECK(dlt_event_await(client, &event, 5000), "no loss event came, want one");
    DLT_REASON(event.reason, DLOCK_REASON_TAKEN);
    lost_calls_answer_lost(lock);
    nothing_more(client);
    dlock_free(lock);
    dlock_client_close(client);
}

/* unlock may be the one that finds out. */
void dlt_case_loss_found_by_unlock(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 30000),
                        *next = dlt_lease(run, client, "x", 0);
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

static void on_lost(void *arg, const struct dlock_notice *event)
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
    struct dlock_handle *lock = NULL;

    DLT_OK(dlock_client_open(run->uri, &options, &client, &dlt_err));
    DLT_CHECK(dlock_client_fd(client) == -1, "dlock_client_fd is %d beside a callback, want -1",
              dlock_client_fd(client));
    lock = dlt_lease(run, client, "x", 300);
    for (int turn = 1; turn <= 2; turn++) {
        DLT_TAKE(lock);
        for (int i = 0; i < 500 + dlt_ttl(client, 300) / 10 && told.calls < turn; i++)
            dlt_sleep_ms(10);
        dlt_sleep_ms(100);
        DLT_CHECK(told.calls == turn, "the callback was called %d times after %d losses",
                  told.calls, turn);
        DLT_REASON(told.reason, DLOCK_REASON_EXPIRED);
        DLT_CHECK(told.wrong == 0, "%d wrong answers in the callback, want 0", told.wrong);
        DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    }
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_loss_leaves_the_next_holder_alone(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 300),
                        *next = dlt_lock(run, other, "x", 0);
    struct dlock_handle *third = dlt_lock(run, other, "x", 0);

    DLT_TAKE(lock);
    DLT_OK(dlock_timedlock(next, dlt_ttl(client, 300) + 9700, &dlt_err));
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
    struct dlock_handle *lock = dlt_lease(run, client, "x", 300),
                        *next = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");

    DLT_TAKE(lock);
    dlt_sleep_ms(dlt_ttl(client, 300) + 150);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    DLT_CHECK(!dlt_can_inspect(client) || dlt_inspect_expired(run, client, &name).count == 0,
              "inspect shows a holder: a renewal after the end made a new lease");
    DLT_OK(dlock_trylock(next, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
}

void dlt_case_loss_dies_with_the_handle(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 100);
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};

    DLT_TAKE(lock);
    DLT_CHECK(poll(&fd, 1, (int)dlt_ttl(client, 100) + 5000) == 1, "no loss event came, want one");
    dlock_free(lock);
    nothing_more(client);
    dlock_client_close(client);
}
