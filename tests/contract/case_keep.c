/* SPDX-License-Identifier: MIT */
/* A released name that stays taken, by nobody, until its time is over. */
#include "conformance.h"

#include <string.h>

#define KEEP_MS 1500

static struct dlock_handle *keeper(const struct dlt_run *run, struct dlock_client *client,
                                   int64_t keep_ms, int64_t limit)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .label = "keeper",
                                    .keep_ms = keep_ms,
                                    .limit = limit};

    return dlt_lock_with(run, client, "x", &options);
}

/* inspect shows the name as kept, of its last holder, and for some time. */
static void want_kept(const struct dlt_run *run, struct dlock_client *client)
{
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_holder holder;

    if (!dlt_can_inspect(client))
        return;
    holder = dlt_inspect(client, &name);
    DLT_CHECK(holder.count == 1 && holder.info.kept == 1, "inspect shows %u holders, kept is %u",
              holder.count, holder.info.kept);
    DLT_CHECK(holder.owner[0] == '\0', "a name that nobody holds has the owner %s", holder.owner);
    DLT_CHECK(strstr(holder.label, ":keeper") != NULL, "the label is %s", holder.label);
    DLT_CHECK(holder.info.remaining_ms > 0, "it is kept for %lld ms",
              (long long)holder.info.remaining_ms);
}

void dlt_case_keep_takes_the_name(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = keeper(run, client, 30000, 0),
                        *brief = keeper(run, client, KEEP_MS, 0);
    struct dlock_handle *far = dlt_lock(run, other, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    int64_t start_ns = 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    want_kept(run, other);
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    DLT_STATUS(dlock_trylock(far, &dlt_err), DLOCK_BUSY);
    if ((dlock_client_caps(client) & DLOCK_CAP_RWLOCK) != 0)
        DLT_STATUS(dlock_tryrdlock(far, &dlt_err), DLOCK_BUSY);
    dlt_times_out(far, 100);
    want_kept(run, client);
    dlt_break(run, other, &name);
    start_ns = dlt_now_ns();
    DLT_OK(dlock_timedlock(brief, 30000, &dlt_err)); /* the break may serve the waiter that left */
    DLT_OK(dlock_unlock(brief, &dlt_err));
    DLT_OK(dlock_timedlock(far, 30000, &dlt_err));
    DLT_CHECK(dlt_ms_since(start_ns) >= KEEP_MS, "free after %.0f ms, kept for %d",
              dlt_ms_since(start_ns), KEEP_MS);
    DLT_OK(dlock_unlock(far, &dlt_err));
    DLT_OK(dlock_trylock(far, &dlt_err));
    dlock_free(lock);
    dlock_free(brief);
    dlock_free(far);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* One waits in the client of the holder, one elsewhere; the release is made by dlock_free. */
void dlt_case_keep_lets_nobody_in(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = keeper(run, client, KEEP_MS, 0);
    struct dlt_waiter near, far;
    int64_t start_ns = dlt_now_ns();

    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_waiter_go(&near, dlt_lock(run, client, "x", 0), DLOCK_EXCLUSIVE, 30000, 0);
    dlt_waiter_go(&far, dlt_lock(run, other, "x", 0), DLOCK_EXCLUSIVE, 30000, 0);
    dlt_sleep_ms(100);
    dlock_free(lock);
    DLT_OK(dlt_waiter_join(&near));
    DLT_OK(dlt_waiter_join(&far));
    DLT_CHECK(near.done_ns - start_ns >= KEEP_MS * DLT_NS_PER_MS &&
                  far.done_ns - start_ns >= KEEP_MS * DLT_NS_PER_MS,
              "waiters got a kept name after %.0f and %.0f ms",
              (double)(near.done_ns - start_ns) / 1e6, (double)(far.done_ns - start_ns) / 1e6);
    dlock_free(near.lock);
    dlock_free(far.lock);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_keep_is_taken_back(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = keeper(run, client, 30000, 0),
                        *plain = dlt_lock(run, other, "x", 0);
    struct dlt_name name = dlt_name(run, "x");

    DLT_STATUS(dlock_keep_name(lock, 1, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_STATUS(dlock_keep_name(lock, -1, &dlt_err), DLOCK_INVALID);
    DLT_STATUS(dlock_keep_name(lock, INT64_C(7) * 86400000 + 1, &dlt_err), DLOCK_INVALID);
    DLT_OK(dlock_keep_name(lock, 0, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlock_trylock(plain, &dlt_err));
    DLT_OK(dlock_keep_name(plain, 30000, &dlt_err));
    DLT_OK(dlock_unlock(plain, &dlt_err));
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
    dlt_break(run, client, &name);
    DLT_OK(dlock_trylock(plain, &dlt_err)); /* as its options say: it keeps nothing */
    DLT_OK(dlock_unlock(plain, &dlt_err));
    DLT_OK(dlock_trylock(lock, &dlt_err));
    dlt_break(run, other, &name);
    DLT_STATUS(dlock_renew(lock, 0, &dlt_err), DLOCK_LOST);
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    DLT_OK(dlock_trylock(plain, &dlt_err));
    dlock_free(lock);
    dlock_free(plain);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_keep_and_limit(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = keeper(run, client, KEEP_MS, 2),
                        *next = keeper(run, other, KEEP_MS, 2);
    int64_t start_ns = dlt_now_ns();

    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_OK(dlock_timedlock(next, 10000, &dlt_err));
    DLT_CHECK(dlock_permit(next) == 1 || dlt_ms_since(start_ns) >= KEEP_MS,
              "permit %u is kept, and was given out", dlock_permit(next));
    DLT_OK(dlock_unlock(next, &dlt_err));
    DLT_OK(dlock_timedlock(lock, 30000, &dlt_err));
    DLT_CHECK(dlt_ms_since(start_ns) >= KEEP_MS, "the third of two began after %.0f ms",
              dlt_ms_since(start_ns));
    dlock_free(lock);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_keep_or_a_refusal(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS};
    struct dlock_handle *lock = NULL;

    options.keep_ms = INT64_C(7) * 86400000 + 1;
    DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err), DLOCK_INVALID);
    options.keep_ms = -1;
    DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err), DLOCK_INVALID);
    options.keep_ms = 50;
    if ((dlock_client_caps(client) & DLOCK_CAP_KEEP) == 0) {
        DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err),
                   DLOCK_UNSUPPORTED);
        lock = dlt_lock(run, client, "x", 0);
        DLT_OK(dlock_trylock(lock, &dlt_err));
        DLT_STATUS(dlock_keep_name(lock, 50, &dlt_err), DLOCK_UNSUPPORTED);
    } else {
        DLT_OK(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err));
        DLT_STATUS(dlock_tryrdlock(lock, &dlt_err), DLOCK_INVALID);
    }
    dlock_free(lock);
    dlock_client_close(client);
}
