/* SPDX-License-Identifier: MIT */
/* Threads of one client: they stand in line, and may hand the lock from one to the next. */
#include "../kit/notices.h"
#include "conformance.h"
#include "hammer.h"

#include <inttypes.h>
#include <stdatomic.h>

#define SOON_MS 6000
#define LINE    10

/* The holder's client is the line's own, or another one. */
void dlt_case_local_line_is_fifo(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    int fences = (dlock_client_caps(client) & DLOCK_CAP_FENCE) != 0;
    struct dlt_waiter waiters[LINE];

    for (int round = 0; round < 4; round++) {
        struct dlock_handle *holder = dlt_lock(run, round % 2 == 0 ? client : other, "x", 0);

        DLT_OK(dlock_timedlock(holder, 10000, &dlt_err));
        for (int i = 0; i < LINE; i++)
            dlt_waiter_enter(&waiters[i], dlt_lock(run, client, "x", 0), DLOCK_EXCLUSIVE, 20000, 0);
        DLT_OK(dlock_unlock(holder, &dlt_err));
        for (int i = 0; i < LINE; i++) {
            DLT_OK(dlt_waiter_join(&waiters[i]));
            DLT_CHECK(i == 0 || waiters[i].done_ns > waiters[i - 1].done_ns,
                      "thread %d got it before thread %d", i, i - 1);
            DLT_CHECK(i == 0 || !fences || waiters[i].fence > waiters[i - 1].fence,
                      "fence %" PRIu64 " came after %" PRIu64, waiters[i].fence,
                      waiters[i == 0 ? 0 : i - 1].fence);
        }
        for (int i = 0; i < LINE; i++)
            dlock_free(waiters[i].lock);
        dlock_free(holder);
    }
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Who does not wait, or not for long, is not let past those who do. */
void dlt_case_local_line_is_not_passed(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0),
                        *late = dlt_lock(run, client, "x", 0);
    struct dlt_waiter waiter;
    int64_t start_ns = 0;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    dlt_waiter_enter(&waiter, dlt_lock(run, client, "x", 0), DLOCK_EXCLUSIVE, 20000, -1);
    for (int i = 0; i < 20; i++) {
        start_ns = dlt_now_ns();
        DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
        DLT_WITHIN(start_ns, SOON_MS, "trylock said BUSY");
    }
    start_ns = dlt_now_ns();
    DLT_STATUS(dlock_timedlock(late, 60, &dlt_err), DLOCK_TIMEOUT);
    DLT_CHECK(dlt_ms_since(start_ns) >= 60, "a timeout of 60 ms ended after %.0f ms",
              dlt_ms_since(start_ns));
    DLT_WITHIN(start_ns, 60 + SOON_MS, "a timeout of 60 ms ended");
    DLT_OK(dlock_unlock(holder, &dlt_err));
    DLT_OK(dlt_waiter_join(&waiter));
    DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(waiter.lock, &dlt_err));
    DLT_OK(dlock_trylock(late, &dlt_err));
    dlock_free(waiter.lock);
    dlock_free(late);
    dlock_free(holder);
    dlock_client_close(client);
}

/* Without a place in the store's queue it is the line alone that keeps others behind; a lease that
 * is handed on inside the client would hide it. */
void dlt_case_local_line_holds_by_itself(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "queue=off&handoff=0"),
                        *other = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, other, "x", 0),
                        *lock = dlt_lock(run, client, "x", 0);
    struct dlock_handle *late = dlt_lock(run, client, "x", 0);
    struct dlt_hammer hammer;
    struct dlt_waiter waiter;

    for (int i = 0; i < 20; i++) {
        DLT_OK(dlock_timedlock(holder, 10000, &dlt_err));
        dlt_waiter_enter(&waiter, lock, DLOCK_EXCLUSIVE, 20000, 0);
        dlt_sleep_ms(2);
        dlt_hammer_start(&hammer, run, late, &waiter);
        DLT_OK(dlock_unlock(holder, &dlt_err));
        DLT_OK(dlt_waiter_join(&waiter));
        dlt_hammer_stop(&hammer);
    }
    dlock_free(late);
    dlock_free(lock);
    dlock_free(holder);
    dlock_client_close(client);
    dlock_client_close(other);
}

#define ROUNDS 60

/* One who gives up when it is handed to him: he has it, or the next one does. */
void dlt_case_local_given_up_at_the_handoff(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0);
    struct dlock_handle *locks[2] = {dlt_lock(run, client, "x", 0), dlt_lock(run, client, "x", 0)};
    struct dlt_waiter waiters[2];

    for (int i = 0; i < ROUNDS; i++) {
        enum dlock_status status = DLOCK_INTERNAL;

        DLT_OK(dlock_timedlock(holder, 10000, &dlt_err));
        for (int k = 0; k < 2; k++)
            dlt_waiter_enter(&waiters[k], locks[k], DLOCK_EXCLUSIVE, 20000, 0);
        dlt_sleep_ms(i % 3 == 0 ? 8 : 1);
        if (i % 2 == 0)
            dlock_cancel(locks[0]);
        DLT_OK(dlock_unlock(holder, &dlt_err));
        if (i % 2 != 0)
            dlock_cancel(locks[0]);
        status = dlt_waiter_join(&waiters[0]);
        DLT_CHECK(status == DLOCK_OK || status == DLOCK_CANCELED,
                  "round %d: the cancelled call is %s, want OK or CANCELED", i,
                  dlock_status_name((int)status));
        DLT_OK(dlt_waiter_join_within(&waiters[1], SOON_MS));
        dlock_cancel_reset(locks[0]); /* it may have come when the wait was over */
    }
    dlock_free(locks[0]);
    dlock_free(locks[1]);
    dlock_free(holder);
    dlock_client_close(client);
}

#define MEMBERS 6
#define TURNS   40
#define TAKEN   (MEMBERS * TURNS)

struct ledger {
    const struct dlt_run *run;
    struct dlock_client *clients[2];
    _Atomic int next;
    _Atomic int count; /* only so that the race detector looks at dlock alone */
    uint64_t fences[TAKEN];
};

/* One in three is of the other client. */
static void *ledger_member(void *arg)
{
    struct ledger *ledger = arg;
    int me = atomic_fetch_add(&ledger->next, 1);
    struct dlock_handle *lock = dlt_lock(ledger->run, ledger->clients[me % 3 == 2], "x", 0);
    int line;

    for (int i = 0; i < TURNS; i++) {
        DLT_OK(dlock_timedlock(lock, 50000, &dlt_err));
        line = atomic_load(&ledger->count);
        ledger->fences[line] = dlock_fence(lock);
        atomic_store(&ledger->count, line + 1); /* apart: only the lock keeps both */
        dlt_sleep_until(dlt_now_ns() + 100000); /* others come to stand in line */
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    return NULL;
}

/* A turn inside a client counts as an acquisition, and shares no number with another client's. */
void dlt_case_handoff_fences_rise(struct dlt_run *run)
{
    static struct ledger ledger;
    pthread_t threads[MEMBERS];

    ledger.run = run;
    for (int i = 0; i < 2; i++)
        ledger.clients[i] = dlt_client(run, NULL);
    for (int i = 0; i < MEMBERS; i++)
        threads[i] = dlt_thread(ledger_member, &ledger);
    for (int i = 0; i < MEMBERS; i++)
        (void)dlt_join(threads[i]);
    DLT_CHECK(ledger.count == TAKEN, "the threads counted %d acquisitions, want %d",
              atomic_load(&ledger.count), TAKEN);
    for (int i = 1; i < TAKEN; i++)
        DLT_CHECK(ledger.fences[i] > ledger.fences[i - 1], "fence %" PRIu64 " came after %" PRIu64,
                  ledger.fences[i], ledger.fences[i - 1]);
    for (int i = 0; i < 2; i++)
        dlock_client_close(ledger.clients[i]);
}

/* From one handle to another; both are of one client, and `to` waits before `from` unlocks. */
static void hand_on(struct dlock_handle *from, struct dlock_handle *to)
{
    struct dlt_waiter waiter;

    dlt_waiter_enter(&waiter, to, DLOCK_EXCLUSIVE, 20000, -1);
    dlt_sleep_ms(2);
    DLT_OK(dlock_unlock(from, &dlt_err));
    DLT_OK(dlt_waiter_join(&waiter));
}

/* The lease that the next one has is his own. */
void dlt_case_handoff_between_ttls(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *first = dlt_lock(run, client, "x", 60000),
                        *brief = dlt_lock(run, client, "x", 20000);
    struct dlock_handle *same = dlt_lock(run, client, "x", 60000);
    struct dlt_name name = dlt_name(run, "x");
    int64_t brief_ms = dlt_ttl(client, 20000), same_ms = dlt_ttl(client, 60000);

    DLT_OK(dlock_trylock(first, &dlt_err));
    hand_on(first, brief);
    DLT_CHECK(dlock_remaining_ms(brief) <= brief_ms,
              "%" PRId64 " ms are left of a handle with ttl %" PRId64, dlock_remaining_ms(brief),
              brief_ms);
    DLT_CHECK(!dlt_can_inspect(client) || dlt_inspect(client, &name).info.remaining_ms <= brief_ms,
              "inspect shows more time than the ttl of the handle");
    hand_on(brief, first);
    DLT_OK(dlock_renew(first, dlt_ttl_asked(client, 600000), &dlt_err));
    hand_on(first, same);
    DLT_CHECK(dlock_remaining_ms(same) <= same_ms,
              "%" PRId64 " ms are left of a handle with ttl %" PRId64, dlock_remaining_ms(same),
              same_ms);
    DLT_CHECK(!dlt_can_inspect(client) || dlt_inspect(client, &name).info.remaining_ms <= same_ms,
              "inspect shows more time than the ttl of the handle");
    dlock_free(first);
    dlock_free(brief);
    dlock_free(same);
    dlock_client_close(client);
}

/* The loss is that of who has it now. */
void dlt_case_handoff_then_loss(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    char token[DLOCK_TOKEN_CHARS] = "";
    struct dlock_handle *locks[3];
    struct dlock_notice event = {.struct_size = sizeof event};

    if (!dlt_can_break(run, client))
        dlt_skip("this store cannot break a lock");
    for (int i = 0; i < 3; i++)
        locks[i] = dlt_lock(run, client, "x", 30000);
    DLT_OK(dlock_trylock(locks[0], &dlt_err));
    hand_on(locks[0], locks[1]);
    hand_on(locks[1], locks[2]);
    (void)dlock_token(locks[2], token, sizeof token);
    dlt_break_owner(run, client, &name, token);
    DLT_STATUS(dlock_renew(locks[2], 0, &dlt_err), DLOCK_LOST);
    DLT_CHECK(dlt_event_await(client, &event, 5000), "no loss event came, want one");
    DLT_CHECK(event.lock == locks[2] && event.fence == dlock_fence(locks[2]),
              "the loss event is of another handle or fence than the holder's");
    DLT_CHECK(dlt_notice_take(client, &event, NULL) == 0, "a second loss event came, want one");
    for (int i = 0; i < 2; i++) {
        DLT_STATE(locks[i], DLOCK_STATE_FREE, "handle %d, which handed the lock on", i);
        DLT_STATUS(dlock_unlock(locks[i], &dlt_err), DLOCK_NOT_HELD);
    }
    DLT_OK(dlock_trylock(locks[0], &dlt_err));
    DLT_CHECK(dlock_fence(locks[0]) == 0 || dlock_fence(locks[0]) > dlock_fence(locks[2]),
              "fence %" PRIu64 " came after %" PRIu64, dlock_fence(locks[0]),
              dlock_fence(locks[2]));
    DLT_STATUS(dlock_unlock(locks[2], &dlt_err), DLOCK_LOST);
    for (int i = 0; i < 3; i++)
        dlock_free(locks[i]);
    dlock_client_close(client);
}

/* It is renewed, or not, and held, as the handle says that has it. (One who comes late for a
 * hand-off has it from the store's queue, and then for no less than the waiter's lease.) */
void dlt_case_handoff_is_kept_as_asked(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, 500);
    struct dlock_client *client = dlt_client(run, lease.text);
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlock_options hold = {.struct_size = sizeof hold,
                                 .wait_ms = DLOCK_AS_OPTIONS,
                                 .ttl_ms = ttl_ms,
                                 .op_timeout_ms = dlt_op_timeout_ms(run),
                                 .max_hold_ms = 1000};
    struct dlock_handle *from[3] = {dlt_lease(run, client, "x", ttl_ms),
                                    dlt_lock(run, client, "y", ttl_ms),
                                    dlt_lock(run, client, "z", ttl_ms)};
    struct dlock_handle *to[3] = {dlt_lock(run, client, "x", ttl_ms),
                                  dlt_lease(run, client, "y", ttl_ms),
                                  dlt_lock_with(run, client, "z", &hold)};

    for (int i = 0; i < 3; i++) {
        DLT_TAKE(from[i]);
        hand_on(from[i], to[i]);
    }
    dlt_sleep_ms(dlt_ttl(client, ttl_ms) + 1500);
    DLT_STATE(to[0], DLOCK_STATE_HELD, "renewals have to keep it");
    DLT_STATE(to[1], DLOCK_STATE_LOST, "a handle with renew=off, after its ttl");
    DLT_STATE(to[2], DLOCK_STATE_LOST, "a handle with max_hold, after max_hold");
    for (int i = 0; i < 3; i++) {
        DLT_STATE(from[i], DLOCK_STATE_FREE, "a handle that handed the lock on");
        dlock_free(from[i]);
        dlock_free(to[i]);
    }
    dlock_client_close(client);
}

#define HANDOFF_TURNS 30

/* Two threads of a client who pass it to each other, and a waiter of another client, who came
 * first; `told`: the holder's store has told of him. Returns how often they passed it on before he
 * got it. */
static int turns_until_foreign(const struct dlt_run *run, struct dlock_client *client,
                               struct dlock_handle *holder, int told)
{
    struct dlock_client *foreign = dlt_client(run, NULL);
    struct dlock_handle *locks[2] = {holder, dlt_lock(run, client, "x", 0)};
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_waiter far, near;
    int turns = 0;

    dlt_waiter_enter(&far, dlt_lock(run, foreign, "x", 0), DLOCK_EXCLUSIVE, 20000, 0);
    dlt_waiters_await(foreign, &name, 1, 1);
    if (told) {
        DLT_OK(dlock_renew(holder, 0, &dlt_err));
        dlt_sleep_ms(40);
    }
    for (;; turns++) {
        DLT_CHECK(turns <= HANDOFF_TURNS,
                  "it was handed on %d times past a waiter of another client, want 30 at most",
                  turns);
        dlt_waiter_enter(&near, locks[(turns + 1) % 2], DLOCK_EXCLUSIVE, 20000, -1);
        dlt_sleep_ms(1);
        DLT_OK(dlock_unlock(locks[turns % 2], &dlt_err));
        DLT_OK(dlt_waiter_join(&near));
        if (far.done)
            break;
    }
    DLT_OK(dlt_waiter_join(&far));
    DLT_CHECK(far.done_ns < near.done_ns,
              "the waiter of the other client acquired beside a holder");
    DLT_OK(dlock_unlock(near.lock, &dlt_err));
    dlock_free(far.lock);
    dlock_free(locks[1]);
    dlock_client_close(foreign);
    return turns;
}

/* By number; by time, once the store told of others who wait; and at once, where it is asked for.
 */
void dlt_case_handoff_lets_others_in(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *never = dlt_client(run, "handoff=0");
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0), *none = dlt_lock(run, never, "x", 0);
    int turns = 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    (void)turns_until_foreign(run, client, lock, 0);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    turns = turns_until_foreign(run, client, lock, 1);
    DLT_CHECK(turns == 0,
              "it was handed on %d times more than 20 ms after the store told of a waiter, want 0",
              turns);
    DLT_OK(dlock_trylock(none, &dlt_err));
    turns = turns_until_foreign(run, never, none, 0);
    DLT_CHECK(turns == 0, "with handoff=0 it was handed on %d times, want 0", turns);
    dlock_free(lock);
    dlock_free(none);
    dlock_client_close(client);
    dlock_client_close(never);
}
