/* SPDX-License-Identifier: MIT */
#include "acquire/lengthen.h"
#include "hold/lease.h"
#include "hold/renew_schedule.h"
#include "hold/renewer.h"

/* Whether the renewer will renew the lease when two thirds of it are left, or soon after. */
static bool is_renewed_in_time(const struct dlock_handle *lock,
                               const struct dl_acquire_fsm *attempt, int64_t lease_ms)
{
    struct dlock_client *client = lock->client;
    int64_t third_ns = lease_ms * (DL_NS_PER_MS / 3);
    int64_t busy_until_ns;

    (void)pthread_mutex_lock(&client->mutex);
    busy_until_ns = client->renewer->busy_until_ns;
    (void)pthread_mutex_unlock(&client->mutex);
    return lock->renewal.automatic && busy_until_ns < attempt->valid_until_ns - third_ns;
}

/* C3 */
static bool is_enough(const struct dlock_handle *lock, int64_t valid_until_ns, int64_t lease_ms,
                      int64_t now_ns)
{
    return valid_until_ns - now_ns > dl_handle_least_ns(lock, lease_ms);
}

bool dl_lengthen_is_due(const struct dlock_handle *lock, const struct dl_acquire_fsm *attempt,
                        int64_t lease_ms, int64_t now_ns)
{
    return attempt->result == DLOCK_OK && !attempt->rules.session &&
           lease_ms < lock->claim->req.ttl_ms &&
           (!attempt->rules.wait || now_ns < attempt->deadline_ns) &&
           (!is_renewed_in_time(lock, attempt, lease_ms) ||
            !is_enough(lock, attempt->valid_until_ns, lease_ms, now_ns));
}

/* Returns the end of the validity; 0: the lock is lost. */
static int64_t renew(struct dlock_handle *lock, const struct dl_acquire_fsm *attempt,
                     int64_t *lease_ms, int64_t now_ns, struct dlock_error *err)
{
    int64_t valid_until_ns = attempt->valid_until_ns;
    int64_t spare_ns = valid_until_ns - dl_lease_least_ns(*lease_ms) - now_ns;
    int64_t deadline_ns = dl_acquire_fsm_exchange_until(attempt, now_ns);

    deadline_ns = dl_earlier(deadline_ns, now_ns + spare_ns / 2);
    if (dl_renew_first(lock, deadline_ns, lease_ms, &valid_until_ns, err) == DLOCK_LOST)
        return 0;
    return valid_until_ns;
}

bool dl_lengthen(struct dlock_handle *lock, struct dl_acquire_fsm *attempt, int64_t *lease_ms,
                 int64_t *now_ns, struct dlock_error *err)
{
    int64_t valid_until_ns;

    if (attempt->result != DLOCK_OK)
        return false;
    valid_until_ns = attempt->valid_until_ns;
    if (dl_lengthen_is_due(lock, attempt, *lease_ms, *now_ns)) {
        valid_until_ns = renew(lock, attempt, lease_ms, *now_ns, err);
        *now_ns = dl_client_now(lock->client);
    } else if (is_enough(lock, valid_until_ns, *lease_ms, *now_ns)) {
        return false;
    }
    if (!is_enough(lock, valid_until_ns, *lease_ms, *now_ns))
        valid_until_ns = 0;
    dl_acquire_fsm_holds(attempt, *now_ns, valid_until_ns, *lease_ms);
    return attempt->step != DL_STEP_DONE;
}
