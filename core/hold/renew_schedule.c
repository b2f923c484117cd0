/* SPDX-License-Identifier: MIT */
#include "hold/renew_schedule.h"
#include "hold/deadman.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct dl_renewer *dl_renew_schedule_new(void)
{
    struct dl_renewer *renewer = calloc(1, sizeof *renewer);

    if (renewer == NULL)
        return NULL;
    renewer->wake_fd = renewer->timer_fd = -1;
    renewer->io_limit_ns = DL_NEVER;
    renewer->armed_ns = INT64_MIN;
    return renewer;
}

void dl_renew_schedule_close(struct dl_renewer *renewer)
{
    if (renewer != NULL && renewer->wake_fd >= 0)
        (void)close(renewer->wake_fd);
    if (renewer != NULL && renewer->timer_fd >= 0)
        (void)close(renewer->timer_fd);
}

void dl_renew_schedule_free(struct dl_renewer *renewer)
{
    if (renewer == NULL)
        return;
    dl_schedule_fini(&renewer->schedule);
    dl_schedule_fini(&renewer->ends);
    free(renewer);
}

bool dl_renew_schedule_reserve_locked(struct dlock_client *client)
{
    struct dl_renewer *renewer = client->renewer;

    if (!dl_schedule_reserve(&renewer->schedule))
        return false;
    if (dl_schedule_reserve(&renewer->ends))
        return true;
    dl_schedule_unreserve(&renewer->schedule);
    return false;
}

void dl_renew_schedule_unreserve_locked(struct dlock_client *client)
{
    dl_schedule_unreserve(&client->renewer->schedule);
    dl_schedule_unreserve(&client->renewer->ends);
}

void dl_renew_schedule_wake_locked(struct dlock_client *client)
{
    struct dl_renewer *renewer = client->renewer;

    if (!renewer->running || renewer->armed_ns == INT64_MIN)
        return;
    renewer->armed_ns = INT64_MIN;
    (void)eventfd_write(renewer->wake_fd, 1); /* cannot block: it is read after every wake */
}

void dl_renew_schedule_set_locked(struct dlock_handle *lock, int64_t at_ns)
{
    struct dl_renewer *renewer = lock->client->renewer;

    dl_schedule_set(&renewer->schedule, &lock->due, at_ns);
    if (at_ns < renewer->armed_ns)
        dl_renew_schedule_wake_locked(lock->client);
}

void dl_renew_schedule_remove_locked(struct dlock_handle *lock)
{
    dl_schedule_remove(&lock->client->renewer->schedule, &lock->due);
    dl_schedule_remove(&lock->client->renewer->ends, &lock->end);
}

void dl_renew_schedule_limit_locked(const struct dlock_handle *lock)
{
    struct dl_renewer *renewer = lock->client->renewer;
    int64_t most_ns = dl_later(dl_handle_ttl_ms(lock) * DL_NS_PER_MS / 6, DL_IO_LIMIT_LEAST_NS);

    if (lock->end.heap_index != 0)
        most_ns = dl_earlier(most_ns, dl_renewal_io_limit_ns(&lock->renewal));
    renewer->io_limit_ns = dl_earlier(renewer->io_limit_ns, most_ns);
}

int64_t dl_renew_schedule_exchange_ns_locked(const struct dlock_handle *lock)
{
    return dl_renewal_exchange_ns(&lock->renewal, dl_handle_op_timeout_ms(lock) * DL_NS_PER_MS);
}

void dl_renew_schedule_hold_locked(struct dlock_handle *lock)
{
    dl_schedule_set(&lock->client->renewer->ends, &lock->end, dl_lease_until_ns(&lock->lease));
    dl_renew_schedule_limit_locked(lock);
    dl_renew_schedule_set_locked(lock, dl_renewal_recheck_ns(&lock->renewal, &lock->lease));
    dl_deadman_hold_locked(lock, dl_lease_until_ns(&lock->lease));
}

void dl_renew_schedule_resume_locked(struct dlock_handle *lock)
{
    if (lock->due.heap_index != 0)
        dl_renew_schedule_hold_locked(lock);
}

void dl_renew_schedule_must_give_back_locked(struct dlock_handle *lock)
{
    lock->client->renewer->give_backs += !lock->must_give_back;
    lock->must_give_back = true;
}

bool dl_renew_schedule_take_give_back_locked(struct dlock_handle *lock)
{
    bool must = lock->must_give_back;

    lock->client->renewer->give_backs -= must;
    lock->must_give_back = false;
    return must;
}
