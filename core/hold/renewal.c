/* SPDX-License-Identifier: MIT */
#include "hold/renewal.h"
#include "hold/lease.h"
#include "sys/backoff.h"
#include "sys/clock.h"

#define RETRY_FIRST_NS (5 * DL_NS_PER_MS)

/* A lease that is shorter than the ttl, as queues grant it, is extended after this time: soon,
 * because a pause of this process may outlast it; not at once, because many locks are unlocked
 * before. */
#define SHORT_LEASE_NS (50 * DL_NS_PER_MS)

/* A lease without a clock is renewed only to see whether it was broken. */
#define ENDLESS_NS (10 * DL_NS_PER_S)

static bool reads_held(enum dlock_state state)
{
    return state == DLOCK_STATE_HELD || state == DLOCK_STATE_DOUBTFUL;
}

/* A third of the lease after base_ns. DL_NEVER if the store keeps the lease to the end of max_hold.
 */
static int64_t next_after(const struct dl_renewal *renewal, int64_t base_ns, int64_t lease_ms)
{
    if (renewal->automatic && dl_lease_is_endless(lease_ms))
        return base_ns + ENDLESS_NS;
    if (!renewal->automatic ||
        dl_lease_valid_until_ns(base_ns, lease_ms, renewal->margin) >= renewal->hold_until_ns)
        return DL_NEVER;
    return base_ns + lease_ms * (DL_NS_PER_MS / 3);
}

void dl_renewal_granted(struct dl_renewal *renewal, struct dl_lease *lease, int64_t now_ns,
                        int64_t until_ns, int64_t lease_ms, bool soon)
{
    int64_t base_ns = until_ns - dl_lease_valid_until_ns(0, lease_ms, renewal->margin);

    renewal->at_ns = next_after(renewal, base_ns, lease_ms);
    if (soon && renewal->at_ns != DL_NEVER)
        renewal->at_ns = dl_earlier(renewal->at_ns, now_ns + SHORT_LEASE_NS);
    renewal->lease_ms = lease_ms;
    renewal->failures = 0;
    dl_lease_grant(lease, dl_earlier(until_ns, renewal->hold_until_ns));
}

int64_t dl_renewal_recheck_ns(const struct dl_renewal *renewal, const struct dl_lease *lease)
{
    return dl_earlier(renewal->at_ns, dl_lease_until_ns(lease));
}

/* A sixth of the lease. So the first renewal, after a third, and two more fit in before the
 * validity ends (C14), and other handles that come due meanwhile are renewed in time. */
int64_t dl_renewal_io_limit_ns(const struct dl_renewal *renewal)
{
    return renewal->lease_ms * DL_NS_PER_MS / 6;
}

int64_t dl_renewal_exchange_ns(const struct dl_renewal *renewal, int64_t op_timeout_ns)
{
    return dl_earlier(dl_renewal_io_limit_ns(renewal), op_timeout_ns);
}

int64_t dl_renewal_early_ns(const struct dl_renewal *renewal)
{
    if (dl_lease_is_endless(renewal->lease_ms))
        return ENDLESS_NS / 100;
    return renewal->lease_ms * (DL_NS_PER_MS / 300);
}

enum dl_due_step dl_renewal_due(const struct dl_renewal *renewal, struct dl_lease *lease,
                                int64_t now_ns, int64_t early_ns, bool busy)
{
    enum dlock_state state = dl_lease_state(lease, now_ns);

    if (state == DLOCK_STATE_LOST)
        return dl_lease_until_ns(lease) == renewal->hold_until_ns ? DL_DUE_MAX_HOLD
                                                                  : DL_DUE_EXPIRED;
    if (!reads_held(state))
        return DL_DUE_GONE;
    if (renewal->at_ns - early_ns > now_ns)
        return DL_DUE_LATER;
    return busy ? DL_DUE_BUSY : DL_DUE_RENEW;
}

static void failed(struct dl_renewal *renewal, int64_t now_ns, uint64_t random)
{
    int64_t most_ns = dl_earlier(renewal->lease_ms * (DL_NS_PER_MS / 10), DL_NS_PER_S);

    if (renewal->automatic)
        renewal->at_ns =
            now_ns + dl_backoff_delay(renewal->failures++, RETRY_FIRST_NS, most_ns, random);
}

enum dlock_status dl_renewal_answered(struct dl_renewal *renewal, struct dl_lease *lease,
                                      const struct dl_renewal_answer *answer, bool *gone,
                                      bool *stale)
{
    bool extended = answer->status == DLOCK_OK;
    int64_t until_ns =
        extended ? dl_lease_valid_until_ns(answer->sent_ns, answer->lease_ms, renewal->margin) : 0;

    *gone = answer->status == DLOCK_LOST;
    *stale = false;
    if (*gone)
        return DLOCK_LOST;
    if (extended && until_ns - answer->now_ns > answer->least_ns) {
        if (dl_lease_extend(lease, answer->now_ns, dl_earlier(until_ns, renewal->hold_until_ns))) {
            renewal->lease_ms = answer->lease_ms;
            renewal->failures = 0;
            renewal->at_ns = next_after(renewal, answer->sent_ns, answer->lease_ms);
            return DLOCK_OK;
        }
    } else if (dl_lease_doubt(lease, answer->now_ns)) {
        failed(renewal, answer->now_ns, answer->random);
        return extended ? DLOCK_UNKNOWN : answer->status;
    }
    *stale = extended;
    return DLOCK_LOST;
}
