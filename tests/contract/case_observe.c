/* SPDX-License-Identifier: MIT */
/* Is a change of the holder seen? */
#include "child.h"
#include "conformance.h"

#include <dlock/dlock.h>
#include <inttypes.h>
#include <string.h>

static bool fence_take(void *arg, const struct dlock_holder *holder)
{
    *(uint64_t *)arg = holder->fence;
    return false;
}

static enum dlock_status observe(struct dlock_client *client, const struct dlt_name *name,
                                 uint64_t seen, int64_t timeout_ms, uint64_t *fence)
{
    *fence = 0;
    return dlock_client_observe(client, name->text, name->len, seen, timeout_ms, fence_take, fence,
                                &dlt_err);
}

void dlt_case_observe_each_change(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    uint64_t first = 0, second = 0, none = 0;
    struct dlt_child far;

    if (!dlt_can_inspect(client))
        dlt_skip("this store has no inspect");
    dlt_party_start(&far, run, NULL);
    dlt_child_want(&far, "OK", "new 0 %sx 30000 1", run->prefix);
    DLT_STATUS(observe(client, &name, 0, 100, &none), DLOCK_TIMEOUT);
    dlt_child_want(&far, "OK", "try 0");
    DLT_OK(observe(client, &name, 0, 20000, &first));
    DLT_CHECK(first != 0, "the holder that was observed has no fence");
    DLT_STATUS(observe(client, &name, first, 0, &none), DLOCK_TIMEOUT);
    DLT_STATUS(observe(client, &name, first, 100, &none), DLOCK_TIMEOUT);
    dlt_child_want(&far, "OK", "unlock 0");
    DLT_STATUS(observe(client, &name, first, 20000, &none), DLOCK_NOT_HELD);
    dlt_child_want(&far, "OK", "try 0");
    DLT_OK(observe(client, &name, first, 20000, &second));
    DLT_CHECK(second > first, "the second holder has fence %" PRIu64 ", the first one %" PRIu64,
              second, first);
    dlt_child_stop(&far);
    dlock_client_close(client);
}

struct told {
    unsigned count;
    uint64_t fence; /* the greatest */
};

static bool told_add(void *arg, const struct dlock_holder *holder)
{
    struct told *told = arg;

    told->count++;
    if (holder->fence > told->fence)
        told->fence = holder->fence;
    return false;
}

/* `seen` holds the name beside another one; it goes, and later the other one goes. */
static void want_told(struct dlock_client *client, const struct dlt_name *name,
                      struct dlock_handle *seen, struct dlock_handle *other)
{
    struct told told = {0};

    DLT_OK(
        dlock_client_observe(client, name->text, name->len, 0, 10000, told_add, &told, &dlt_err));
    DLT_CHECK(told.count == 2, "%u holders were told, want 2", told.count);
    told = (struct told){0};
    DLT_STATUS(dlock_client_observe(client, name->text, name->len, dlock_fence(seen), 200, told_add,
                                    &told, &dlt_err),
               DLOCK_TIMEOUT);
    DLT_CHECK(told.count == 0, "%u holders were told of no change", told.count);
    DLT_OK(dlock_unlock(seen, &dlt_err));
    DLT_OK(dlock_client_observe(client, name->text, name->len, dlock_fence(seen), 10000, told_add,
                                &told, &dlt_err));
    DLT_CHECK(told.count == 1 && told.fence == dlock_fence(other),
              "%u holders were told, the last one with fence %" PRIu64, told.count, told.fence);
    DLT_OK(dlock_unlock(other, &dlt_err));
    DLT_STATUS(dlock_client_observe(client, name->text, name->len, dlock_fence(other), 10000,
                                    told_add, &told, &dlt_err),
               DLOCK_NOT_HELD);
}

/* Permits have fences of their own everywhere, readers where the store gives them. */
void dlt_case_observe_several(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .limit = 3};
    struct dlock_handle *locks[2] = {NULL, NULL};
    struct dlt_name name = dlt_name(run, "x");

    if (!dlt_can_inspect(client))
        dlt_skip("this store has no inspect");
    for (int i = 0; i < 2; i++) {
        locks[i] = dlt_lock_with(run, client, "x", &options);
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
    }
    want_told(client, &name, locks[1], locks[0]);
    for (int i = 0; i < 2; i++) {
        dlock_free(locks[i]);
        locks[i] = dlt_lock(run, client, "x", 0);
        if ((dlock_client_caps(client) & DLOCK_CAP_RWLOCK) != 0)
            DLT_OK(dlock_tryrdlock(locks[i], &dlt_err));
    }
    if (dlock_fence(locks[0]) != 0 && dlock_fence(locks[1]) != dlock_fence(locks[0]))
        want_told(client, &name, locks[0], locks[1]);
    dlock_free(locks[0]);
    dlock_free(locks[1]);
    dlock_client_close(client);
}

static void *shutdown_main(void *arg)
{
    dlt_sleep_ms(100);
    dlock_client_shutdown(arg);
    return NULL;
}

void dlt_case_observe_ends(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, "poll_max=60s");
    struct dlt_name name = dlt_name(run, "x");
    int64_t start_ns = dlt_now_ns();
    uint64_t none = 0;
    pthread_t thread;

    if (!dlt_can_inspect(client))
        dlt_skip("this store has no inspect");
    DLT_STATUS(dlock_client_observe(client, "", 0, 0, 0, fence_take, &none, &dlt_err),
               DLOCK_INVALID);
    DLT_STATUS(dlock_client_observe(client, "x", 1, 0, 0, NULL, NULL, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(observe(client, &name, 0, -2, &none), DLOCK_INVALID);
    thread = dlt_thread(shutdown_main, client);
    DLT_STATUS(observe(client, &name, 0, 50000, &none), DLOCK_CLOSED);
    DLT_WITHIN(start_ns, 10000 + run->slack_ms, "the shutdown ended the wait");
    (void)dlt_join(thread);
    dlock_client_close(client);
}
