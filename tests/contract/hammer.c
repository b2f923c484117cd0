/* SPDX-License-Identifier: MIT */
#include "hammer.h"

static void *hammer_run(void *arg)
{
    struct dlt_hammer *hammer = arg;

    while (!hammer->stop) {
        enum dlock_status status = dlock_trylock(hammer->lock, &dlt_err);

        if (status == DLOCK_OK) {
            DLT_CHECK(hammer->waiter->done, "one who tried passed one who waited");
            DLT_OK(dlock_unlock(hammer->lock, &dlt_err));
        } else {
            DLT_STATUS(status, DLOCK_BUSY);
        }
        if (hammer->spins)
            (void)sched_yield();
        else
            dlt_sleep_until(dlt_now_ns() + 20000);
    }
    return NULL;
}

void dlt_hammer_start(struct dlt_hammer *hammer, const struct dlt_run *run,
                      struct dlock_handle *lock, const struct dlt_waiter *waiter)
{
    hammer->spins = run->is_private;
    hammer->lock = lock;
    hammer->waiter = waiter;
    hammer->stop = 0;
    hammer->thread = dlt_thread(hammer_run, hammer);
}

void dlt_hammer_stop(struct dlt_hammer *hammer)
{
    hammer->stop = 1;
    (void)dlt_join(hammer->thread);
}
