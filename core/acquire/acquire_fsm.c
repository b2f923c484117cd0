/* SPDX-License-Identifier: MIT */
#include "acquire/acquire_fsm.h"
#include "hold/lease.h"
#include "sys/backoff.h"
#include "sys/clock.h"

/* Pauses after a failure, and between two polls of a store that cannot notify. */
#define FAILURE_FIRST_NS (20 * DL_NS_PER_MS)
#define FAILURE_MOST_NS  DL_NS_PER_S
#define POLL_FIRST_NS    (2 * DL_NS_PER_MS)

/* A server that blocks for the caller is asked again at least this often. */
#define NATIVE_MOST_NS (3600 * DL_NS_PER_S)

int64_t dl_acquire_fsm_exchange_until(const struct dl_acquire_fsm *attempt, int64_t now_ns)
{
    return dl_earlier(now_ns + attempt->rules.op_timeout_ns,
                      dl_later(attempt->deadline_ns, now_ns + DL_GRACE_NS));
}

int64_t dl_acquire_fsm_answer_until(const struct dl_acquire_fsm *attempt, int64_t sent_ns)
{
    return dl_earlier(sent_ns + attempt->rules.op_timeout_ns,
                      dl_later(attempt->deadline_ns, attempt->until_ns));
}

static void go_try(struct dl_acquire_fsm *attempt, int64_t now_ns)
{
    if (!attempt->rules.connected) {
        attempt->step = DL_STEP_CONNECT;
        attempt->until_ns = dl_acquire_fsm_exchange_until(attempt, now_ns);
    } else if (attempt->rules.native && attempt->rules.wait) {
        attempt->step = DL_STEP_LOCK;
        attempt->until_ns = dl_earlier(attempt->deadline_ns, now_ns + NATIVE_MOST_NS);
    } else {
        attempt->step = attempt->has_entry ? DL_STEP_REFRESH : DL_STEP_TRY;
        attempt->until_ns = dl_acquire_fsm_exchange_until(attempt, now_ns);
    }
}

static void go_sleep(struct dl_acquire_fsm *attempt, int64_t until_ns)
{
    attempt->step = DL_STEP_SLEEP;
    attempt->until_ns = until_ns;
}

static void go_done(struct dl_acquire_fsm *attempt, enum dlock_status status)
{
    attempt->step = DL_STEP_DONE;
    attempt->result = status;
}

static void go_return(struct dl_acquire_fsm *attempt, int64_t now_ns, enum dl_step after,
                      enum dlock_status status)
{
    attempt->step = DL_STEP_RETURN;
    attempt->until_ns = dl_acquire_fsm_exchange_until(attempt, now_ns);
    attempt->after_return = after;
    attempt->result = status;
}

/* Ends the attempt without the lock, if it is certain that the store did not grant it. */
static void finish(struct dl_acquire_fsm *attempt, int64_t now_ns, enum dlock_status status)
{
    if (attempt->uncertain)
        go_return(attempt, now_ns, DL_STEP_DONE, DLOCK_UNKNOWN);
    else if (attempt->enqueued)
        go_return(attempt, now_ns, DL_STEP_DONE, status);
    else
        go_done(attempt, status);
}

void dl_acquire_fsm_start(struct dl_acquire_fsm *attempt, const struct dl_acquire_fsm_rules *rules,
                          int64_t now_ns, int64_t deadline_ns)
{
    *attempt = (struct dl_acquire_fsm){.rules = *rules};
    attempt->deadline_ns = rules->wait ? deadline_ns : now_ns + rules->op_timeout_ns;
    go_try(attempt, now_ns);
}

/* The status of a wait that ends at its deadline. */
static enum dlock_status waited_for(const struct dl_acquire_fsm *attempt)
{
    return attempt->failures > 0 ? attempt->failure : DLOCK_TIMEOUT;
}

/* Tries again after a pause; the last try is so early that an answer is possible by the deadline.
 */
static void again_or_finish(struct dl_acquire_fsm *attempt, int64_t now_ns,
                            enum dlock_status status, uint64_t random)
{
    int64_t last_ns = attempt->deadline_ns - DL_GRACE_NS;
    int64_t next =
        now_ns + dl_backoff_delay(attempt->failures++, FAILURE_FIRST_NS, FAILURE_MOST_NS, random);

    attempt->failure = status;
    if (now_ns >= last_ns)
        finish(attempt, now_ns, status);
    else
        go_sleep(attempt, dl_earlier(next, last_ns));
}

void dl_acquire_fsm_connected(struct dl_acquire_fsm *attempt, int64_t now_ns,
                              const struct dl_acquire_fsm_rules *rules)
{
    if (!rules->wait) /* op_timeout may be longer than it was */
        attempt->deadline_ns += rules->op_timeout_ns - attempt->rules.op_timeout_ns;
    attempt->rules = *rules;
    attempt->failures = 0;
    go_try(attempt, now_ns);
}

void dl_acquire_fsm_no_session(struct dl_acquire_fsm *attempt, int64_t now_ns,
                               enum dlock_status status, uint64_t random)
{
    bool passing =
        status == DLOCK_UNAVAILABLE || status == DLOCK_NO_QUORUM || status == DLOCK_UNKNOWN;

    if (attempt->step == DL_STEP_RETURN)
        dl_acquire_fsm_returned(attempt, now_ns);
    else if (status == DLOCK_BUSY && attempt->rules.wait && now_ns < attempt->deadline_ns)
        go_try(attempt, now_ns);
    else if (status == DLOCK_BUSY)
        finish(attempt, now_ns, attempt->rules.wait ? waited_for(attempt) : DLOCK_UNAVAILABLE);
    else if (passing && (attempt->rules.wait || attempt->uncertain))
        again_or_finish(attempt, now_ns, status, random);
    else
        finish(attempt, now_ns, status);
}

static void granted(struct dl_acquire_fsm *attempt, int64_t now_ns, int64_t valid_until_ns,
                    int64_t lease_ms)
{
    attempt->failures = 0;
    if (dl_lease_is_enough(now_ns, valid_until_ns, lease_ms)) {
        attempt->valid_until_ns = valid_until_ns;
        go_done(attempt, DLOCK_OK);
    } else if (attempt->rules.wait && now_ns < attempt->deadline_ns) {
        go_return(attempt, now_ns, DL_STEP_TRY, DLOCK_TIMEOUT);
    } else {
        go_return(attempt, now_ns, DL_STEP_DONE, DLOCK_TIMEOUT);
    }
}

/* Notes what a BUSY says of our entry in the store's queue. false: the request was to refresh the
 * entry, and the entry is gone, and the token with it. */
static bool entry_noted(struct dl_acquire_fsm *attempt, int64_t sent_ns,
                        const struct dlock_grant *grant)
{
    bool asked = attempt->step == DL_STEP_REFRESH;

    attempt->has_entry = (grant->flags & DLOCK_GRANT_QUEUED) != 0;
    if (attempt->has_entry) {
        attempt->entry_fence = grant->fence;
        attempt->entry_base_ns = sent_ns;
        attempt->uncertain = attempt->arrival_uncertain;
    }
    return attempt->has_entry || !asked;
}

static void busy(struct dl_acquire_fsm *attempt, int64_t sent_ns, int64_t now_ns,
                 const struct dlock_grant *grant, uint64_t random)
{
    const struct dl_acquire_fsm_rules *rules = &attempt->rules;
    int64_t most_ns = rules->poll_max_ns;
    bool known = entry_noted(attempt, sent_ns, grant);
    int64_t wake;

    if (!rules->wait || now_ns >= attempt->deadline_ns) {
        finish(attempt, now_ns, rules->wait ? DLOCK_TIMEOUT : DLOCK_BUSY);
        return;
    }
    if (!known) {
        go_return(attempt, now_ns, DL_STEP_TRY, DLOCK_TIMEOUT);
        return;
    }
    if (attempt->has_entry)
        most_ns = dl_earlier(most_ns, grant->lease_ms * (DL_NS_PER_MS / 3));
    wake = dl_earlier(now_ns + dl_backoff_spread(most_ns, random), attempt->deadline_ns);
    if (grant->holder_ms >= 0 && grant->holder_ms < rules->poll_max_ns / DL_NS_PER_MS &&
        !(attempt->has_entry && grant->queue_position > 0))
        wake = dl_earlier(wake, now_ns + (grant->holder_ms + 1) * DL_NS_PER_MS);
    if (rules->watch && (grant->flags & DLOCK_GRANT_UNREPORTED) == 0) {
        attempt->step = DL_STEP_WATCH;
        attempt->until_ns = wake;
    } else {
        go_sleep(attempt,
                 dl_earlier(wake, now_ns + dl_backoff_delay(attempt->polls++, POLL_FIRST_NS,
                                                            rules->poll_max_ns, random)));
    }
}

void dl_acquire_fsm_tried(struct dl_acquire_fsm *attempt, int64_t sent_ns, int64_t now_ns,
                          enum dlock_status status, const struct dlock_grant *grant,
                          uint64_t random)
{
    int64_t base_ns = grant->since_ns != 0 ? grant->since_ns : sent_ns;

    if (attempt->rules.queue && status != DLOCK_UNAVAILABLE)
        attempt->enqueued = true;
    switch (status) {
    case DLOCK_OK:
        granted(attempt, now_ns,
                dl_lease_valid_until_ns(base_ns, grant->lease_ms, attempt->rules.margin),
                grant->lease_ms);
        break;
    case DLOCK_BUSY:
        attempt->failures = 0;
        busy(attempt, sent_ns, now_ns, grant, random);
        break;
    case DLOCK_TIMEOUT: /* of LOCK; definite */
        attempt->failures = 0;
        if (now_ns < attempt->deadline_ns)
            go_try(attempt, now_ns);
        else
            finish(attempt, now_ns, status);
        break;
    case DLOCK_UNKNOWN:
        attempt->uncertain = !attempt->rules.session;
        if (attempt->step != DL_STEP_REFRESH)
            attempt->arrival_uncertain = attempt->uncertain;
        again_or_finish(attempt, now_ns, status, random);
        break;
    case DLOCK_UNAVAILABLE:
    case DLOCK_NO_QUORUM:
        again_or_finish(attempt, now_ns, status, random);
        break;
    case DLOCK_PROTOCOL: /* an answer that cannot be read may have been a yes */
    case DLOCK_INTERNAL:
        go_return(attempt, now_ns, DL_STEP_DONE, attempt->uncertain ? DLOCK_UNKNOWN : status);
        break;
    default:
        finish(attempt, now_ns, status);
    }
}

/* A grant that is older than the answer that gave us our queue entry has ended. A grant with too
 * little time left is confirmed by REFRESH, whose answer has the rest of the lease. */
static bool grant_counts(struct dl_acquire_fsm *attempt, int64_t now_ns,
                         const struct dlock_grant *grant)
{
    int64_t until_ns =
        dl_lease_valid_until_ns(attempt->entry_base_ns, grant->lease_ms, attempt->rules.margin);

    if (!attempt->has_entry || grant->fence <= attempt->entry_fence ||
        !dl_lease_is_enough(now_ns, until_ns, grant->lease_ms))
        return false;
    attempt->valid_until_ns = until_ns;
    return true;
}

void dl_acquire_fsm_watched(struct dl_acquire_fsm *attempt, int64_t now_ns,
                            enum dlock_status status, const struct dlock_grant *grant,
                            uint64_t random)
{
    bool polled = status == DLOCK_OK || status == DLOCK_BUSY || status == DLOCK_TIMEOUT ||
                  status == DLOCK_CANCELED;

    if (status == DLOCK_OK && grant_counts(attempt, now_ns, grant))
        go_done(attempt, DLOCK_OK);
    else if (now_ns >= attempt->deadline_ns)
        finish(attempt, now_ns, DLOCK_TIMEOUT);
    else if (polled)
        go_try(attempt, now_ns);
    else /* cannot watch now: poll */
        go_sleep(attempt,
                 dl_earlier(attempt->until_ns,
                            now_ns + dl_backoff_delay(attempt->polls++, POLL_FIRST_NS,
                                                      attempt->rules.poll_max_ns, random)));
}

void dl_acquire_fsm_slept(struct dl_acquire_fsm *attempt, int64_t now_ns)
{
    if (now_ns < attempt->deadline_ns)
        go_try(attempt, now_ns);
    else
        finish(attempt, now_ns, waited_for(attempt));
}

/* The next request has another token. */
static void token_used_up(struct dl_acquire_fsm *attempt)
{
    attempt->uncertain = false;
    attempt->arrival_uncertain = false;
    attempt->enqueued = false;
    attempt->has_entry = false;
}

void dl_acquire_fsm_returned(struct dl_acquire_fsm *attempt, int64_t now_ns)
{
    enum dlock_status result = attempt->uncertain ? DLOCK_UNKNOWN : attempt->result;

    token_used_up(attempt);
    if (attempt->after_return == DL_STEP_TRY && now_ns < attempt->deadline_ns)
        go_try(attempt, now_ns);
    else
        go_done(attempt, result);
}

void dl_acquire_fsm_holds(struct dl_acquire_fsm *attempt, int64_t now_ns, int64_t valid_until_ns,
                          int64_t lease_ms)
{
    token_used_up(attempt);
    granted(attempt, now_ns, valid_until_ns, lease_ms);
}

void dl_acquire_fsm_cancel(struct dl_acquire_fsm *attempt, int64_t now_ns, enum dlock_status status)
{
    if (attempt->step != DL_STEP_RETURN && attempt->step != DL_STEP_DONE)
        finish(attempt, now_ns, status);
}
