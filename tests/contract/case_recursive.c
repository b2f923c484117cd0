/* SPDX-License-Identifier: MIT */
/* A handle that may be acquired again by who holds it. */
#include "../kit/notices.h"
#include "child.h"
#include "conformance.h"

#include <inttypes.h>

#include <string.h>

static struct dlock_handle *recursive_lock(const struct dlt_run *run, struct dlock_client *client)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .recursive = DLOCK_ON};

    return dlt_lock_with(run, client, "x", &options);
}

/* In three ways, which are one. */
static void acquire_thrice(struct dlock_handle *lock)
{
    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_OK(dlock_lock(lock, &dlt_err));
    DLT_OK(dlock_timedlock(lock, 1000, &dlt_err));
}

void dlt_case_recursive_counts(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = recursive_lock(run, client), *other = dlt_lock(run, client, "x", 0);
    char token[2][DLOCK_TOKEN_CHARS] = {"", ""};
    struct dlt_child far;
    uint64_t fence = 0;

    dlt_party_start(&far, run, NULL);
    dlt_child_want(&far, "OK", "new 0 %sx 30000 1", run->prefix);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    fence = dlock_fence(lock);
    (void)dlock_token(lock, token[0], sizeof token[0]);
    acquire_thrice(lock);
    (void)dlock_token(lock, token[1], sizeof token[1]);
    DLT_CHECK(dlock_fence(lock) == fence && strcmp(token[0], token[1]) == 0,
              "acquiring again made another claim: fence or token changed");
    for (int i = 0; i < 4; i++) {
        DLT_STATE(lock, DLOCK_STATE_HELD, "after unlock %d of 4", i);
        DLT_STATUS(dlock_trylock(other, &dlt_err), DLOCK_BUSY);
        dlt_child_want(&far, "BUSY", "try 0");
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    DLT_STATE(lock, DLOCK_STATE_FREE, "after the last unlock");
    dlt_child_want(&far, "OK", "try 0");
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    dlt_child_stop(&far);
    dlock_free(lock);
    dlock_free(other);
    dlock_client_close(client);
}

/* All the unlocks that are outstanding are told, and then it starts from one. */
void dlt_case_recursive_loss(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = recursive_lock(run, client), *other = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_notice event = {.struct_size = sizeof event};
    uint64_t fence = 0;

    acquire_thrice(lock);
    fence = dlock_fence(lock);
    dlt_break(run, client, &name);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    for (int i = 0; i < 3; i++) {
        DLT_STATE(lock, DLOCK_STATE_LOST, "after unlock %d of 3 of a lost lock", i);
        DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_LOST);
        DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    }
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    DLT_CHECK(dlt_notice_take(client, &event, NULL) == 0,
              "a loss event came after the loss was acknowledged");
    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_CHECK(fence == 0 || dlock_fence(lock) > fence,
              "fence %" PRIu64 " came after %" PRIu64 ", want a greater one", dlock_fence(lock),
              fence);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlock_trylock(other, &dlt_err));
    dlock_free(lock);
    dlock_free(other);
    dlock_client_close(client);
}

/* Exclusive includes shared; shared does not become exclusive. */
void dlt_case_recursive_modes(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = recursive_lock(run, client),
                        *reader = dlt_lock(run, client, "x", 0);
    int downgrade = (dlock_client_caps(client) & DLOCK_CAP_DOWNGRADE) != 0;

    DLT_OK(dlock_tryrdlock(lock, &dlt_err));
    DLT_OK(dlock_timedrdlock(lock, 1000, &dlt_err));
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_ALREADY);
    DLT_STATUS(dlock_timedlock(lock, 1000, &dlt_err), DLOCK_ALREADY);
    DLT_OK(dlock_tryrdlock(reader, &dlt_err));
    DLT_OK(dlock_unlock(reader, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);

    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_OK(dlock_tryrdlock(lock, &dlt_err));
    DLT_STATUS(dlock_tryrdlock(reader, &dlt_err), DLOCK_BUSY);
    DLT_STATUS(dlock_downgrade(lock, &dlt_err), downgrade ? DLOCK_INVALID : DLOCK_UNSUPPORTED);
    DLT_STATUS(dlock_tryrdlock(reader, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_STATE(lock, DLOCK_STATE_HELD, "after the inner unlock");
    DLT_STATUS(dlock_tryrdlock(reader, &dlt_err), DLOCK_BUSY);
    if (downgrade) {
        DLT_OK(dlock_downgrade(lock, &dlt_err));
        DLT_OK(dlock_tryrdlock(lock, &dlt_err));
        DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_ALREADY);
        DLT_OK(dlock_tryrdlock(reader, &dlt_err));
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    dlock_free(lock);
    dlock_free(reader);
    dlock_client_close(client);
}

/* Free and close release it whole; and others wait for as long as it is held at all. */
void dlt_case_recursive_and_others(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "recursive=on"), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0), *far = dlt_lock(run, other, "x", 0);
    struct dlt_waiter near, waiter;

    acquire_thrice(lock);
    dlt_waiter_enter(&near, dlt_lock(run, client, "x", 0), DLOCK_EXCLUSIVE, 20000, 0);
    DLT_OK(dlock_lock(lock, &dlt_err)); /* not behind one who waits for it */
    for (int i = 0; i < 3; i++)
        DLT_OK(dlock_unlock(lock, &dlt_err));
    dlt_sleep_ms(30);
    DLT_CHECK(!near.done, "another handle acquired the lock beside its holder");
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlt_waiter_join(&near));

    acquire_thrice(lock);
    dlock_free(lock);
    DLT_OK(dlock_trylock(far, &dlt_err));
    DLT_OK(dlock_unlock(far, &dlt_err));
    acquire_thrice(near.lock);
    dlt_waiter_enter(&waiter, far, DLOCK_EXCLUSIVE, 20000, 0);
    dlock_client_close(client);
    DLT_OK(dlt_waiter_join_within(&waiter, 5000));
    dlock_free(near.lock);
    dlock_free(far);
    dlock_client_close(other);
}
