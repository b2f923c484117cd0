/* SPDX-License-Identifier: MIT */
/* From exclusive to shared: nobody gets in between, and the lock goes on. */
#include "child.h"
#include "conformance.h"

#include <stdatomic.h>

void dlt_case_downgrade_lets_readers_in(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0),
                        *writer = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_waiter near;
    struct dlt_holder holder;
    struct dlt_child far;
    uint64_t fence = 0;

    dlt_party_start(&far, run, NULL);
    dlt_child_want(&far, "OK", "new 0 %sx 30000 1", run->prefix);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    fence = dlock_fence(lock);
    dlt_child_want(&far, "OK", "wait 0 s 8000 -1");
    dlt_waiter_enter(&near, dlt_lock(run, client, "x", 0), DLOCK_SHARED, 8000, -1);
    dlt_sleep_ms(40);
    DLT_OK(dlock_downgrade(lock, &dlt_err));
    DLT_OK(dlt_waiter_join(&near));
    dlt_child_want(&far, "OK", "waited 0");
    holder = dlt_inspect(client, &name);
    DLT_CHECK(holder.count == 3 && holder.info.mode == DLOCK_SHARED,
              "inspect shows %u holders in mode %d, want 3 in SHARED (1)", holder.count,
              (int)holder.info.mode);
    DLT_CHECK(dlock_state(lock) == DLOCK_STATE_HELD && dlock_fence(lock) == fence,
              "it is not the same claim any more");
    DLT_STATUS(dlock_trylock(writer, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(near.lock, &dlt_err));
    dlt_child_want(&far, "OK", "unlock 0");
    DLT_STATUS(dlock_trylock(writer, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlock_trylock(writer, &dlt_err));
    dlt_child_stop(&far);
    dlock_free(near.lock);
    dlock_free(writer);
    dlock_free(lock);
    dlock_client_close(client);
}

#define ROUNDS 25

struct gap {
    const struct dlt_run *run;
    _Atomic int ours; /* from the OK to lock to the call of unlock */
    _Atomic int stop;
    _Atomic int taken; /* by the hammer */
};

/* Tries all the time; a writer who waits does so beside it. */
static void *gap_hammer(void *arg)
{
    struct gap *gap = arg;
    struct dlock_client *client = dlt_client(gap->run, NULL);
    struct dlock_handle *lock = dlt_lock(gap->run, client, "x", 0);

    while (!gap->stop) {
        enum dlock_status status = dlock_trylock(lock, &dlt_err);

        DLT_CHECK(status == DLOCK_OK || status == DLOCK_BUSY,
                  "trylock beside a downgrade is %s, want OK or BUSY",
                  dlock_status_name((int)status));
        if (status != DLOCK_OK) {
            dlt_sleep_until(dlt_now_ns() + 100000);
            continue;
        }
        DLT_CHECK(!gap->ours, "one who tried got in beside the one who downgraded");
        gap->taken++;
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    dlock_client_close(client);
    return NULL;
}

static void *gap_waiter(void *arg)
{
    struct gap *gap = arg;
    struct dlock_client *client = dlt_client(gap->run, NULL);
    struct dlock_handle *lock = dlt_lock(gap->run, client, "x", 0);
    int queue = (dlock_client_caps(client) & DLOCK_CAP_QUEUE) != 0;

    while (!gap->stop) {
        DLT_OK(dlock_timedlock(lock, 20000, &dlt_err));
        DLT_CHECK(!gap->ours, "one who waited got in beside the one who downgraded");
        dlt_sleep_ms(1);
        DLT_OK(dlock_unlock(lock, &dlt_err));
        dlt_sleep_ms(queue ? 0 : 5); /* where nobody is served in turn, others need luck */
    }
    dlock_free(lock);
    dlock_client_close(client);
    return NULL;
}

void dlt_case_downgrade_leaves_no_gap(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct gap gap = {.run = run};
    pthread_t hammer = dlt_thread(gap_hammer, &gap), waiter = dlt_thread(gap_waiter, &gap);

    for (int i = 0; i < ROUNDS; i++) {
        DLT_OK(dlock_timedlock(lock, 20000, &dlt_err));
        gap.ours = 1;
        dlt_sleep_ms(i % 5);
        DLT_OK(dlock_downgrade(lock, &dlt_err));
        dlt_sleep_ms(i % 3 * 4);
        DLT_STATE(lock, DLOCK_STATE_HELD, "round %d: not held any more", i);
        gap.ours = 0;
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    gap.stop = 1;
    (void)dlt_join(hammer);
    (void)dlt_join(waiter);
    dlock_free(lock);
    dlock_client_close(client);
}

/* A writer who waits is not passed because the mode became another one. */
void dlt_case_downgrade_keeps_the_order(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, 30000);
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_client *clients[2];
    struct dlt_waiter writer, reader;

    for (int i = 0; i < 2; i++)
        clients[i] = dlt_client(run, lease.text);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_waiter_enter(&writer, dlt_lock(run, clients[0], "x", 0), DLOCK_EXCLUSIVE, 20000, 5);
    dlt_waiters_await(client, &name, 1, 1);
    dlt_waiter_enter(&reader, dlt_lock(run, clients[1], "x", 0), DLOCK_SHARED, 20000, -1);
    dlt_waiters_await(client, &name, 2, 2);
    DLT_OK(dlock_downgrade(lock, &dlt_err));
    dlt_sleep_ms(60);
    DLT_CHECK(!writer.done && !reader.done, "one of the waiters got in");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlt_waiter_join(&writer));
    DLT_OK(dlt_waiter_join(&reader));
    DLT_CHECK(reader.done_ns > writer.done_ns, "the reader passed the writer");
    dlock_free(writer.lock);
    dlock_free(reader.lock);
    dlock_free(lock);
    for (int i = 0; i < 2; i++)
        dlock_client_close(clients[i]);
    dlock_client_close(client);
}

void dlt_case_downgrade_is_renewed(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_kept_ttl_ms(run);
    struct dlock_handle *lock = dlt_lock(run, client, "x", ttl_ms),
                        *late = dlt_lock(run, other, "x", 0);

    DLT_TAKE(lock);
    DLT_OK(dlock_downgrade(lock, &dlt_err));
    dlt_sleep_ms(dlt_ttl(client, ttl_ms) + 1000);
    DLT_STATE(lock, DLOCK_STATE_HELD, "renewals have to keep it");
    DLT_OK(dlock_renew(lock, 0, &dlt_err));
    DLT_STATUS(dlock_trylock(late, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_tryrdlock(late, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    dlock_free(late);
    dlock_free(lock);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Where there is nothing to turn into another thing; and where the store cannot. */
void dlt_case_downgrade_or_a_refusal(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    int can = (dlock_client_caps(client) & DLOCK_CAP_DOWNGRADE) != 0;

    DLT_STATUS(dlock_downgrade(lock, &dlt_err), can ? DLOCK_NOT_HELD : DLOCK_UNSUPPORTED);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_STATUS(dlock_downgrade(lock, &dlt_err), can ? DLOCK_OK : DLOCK_UNSUPPORTED);
    DLT_STATUS(dlock_downgrade(lock, &dlt_err), can ? DLOCK_OK : DLOCK_UNSUPPORTED);
    DLT_STATE(lock, DLOCK_STATE_HELD, "a refusal cost the lock");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    if (can) {
        DLT_OK(dlock_tryrdlock(lock, &dlt_err));
        DLT_OK(dlock_downgrade(lock, &dlt_err));
        DLT_OK(dlock_unlock(lock, &dlt_err));
        DLT_OK(dlock_trylock(lock, &dlt_err));
        dlt_break(run, client, &name);
        DLT_STATUS(dlock_downgrade(lock, &dlt_err), DLOCK_LOST);
        DLT_STATE(lock, DLOCK_STATE_LOST, "not LOST before unlock");
        DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_downgrade(lock, &dlt_err), DLOCK_NOT_HELD);
    }
    dlock_free(lock);
    dlock_client_close(client);
}
