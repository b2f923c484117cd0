/* SPDX-License-Identifier: MIT */
#include "party.h"
#include "session/slot.h"
#include "sys/error.h"

#include <string.h>

#define WAKES_MOST 50 /* for no reason, which is allowed now and then [WAT-3] */
#define TRIES_MOST 3
#define POLLS_MOST 3
#define QUIET_MS   50
#define SETTLE_MS  15000

/* ---- begin and end ---- */

static void opened(struct dlt_party *party)
{
    enum dlock_status status = dlt_side_open(&party->side);

    DLT_CHECK(status == DLOCK_OK, "open by %s is %s", party->who, dlt_said(&party->side, status));
    dlt_party_anew(party, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
}

void dlt_party_begin(struct dlt_party *party, const struct dlt_run *run, const char *who,
                     const char *options)
{
    char uri[8192];

    (void)snprintf(uri, sizeof uri, "%s%s%s", run->uri,
                   options == NULL                 ? ""
                   : strchr(run->uri, '?') == NULL ? "?"
                                                   : "&",
                   options != NULL ? options : "");
    *party = (struct dlt_party){.run = run, .who = who};
    dlt_side_init(&party->side, uri);
    opened(party);
}

void dlt_party_join(struct dlt_party *party, struct dlt_party *other, const char *who)
{
    *party = (struct dlt_party){.run = other->run, .who = who};
    dlt_side_join(&party->side, &other->side);
    opened(party);
}

void dlt_party_over(struct dlt_party *party)
{
    if (party->begun && !party->released && party->side.plugin->ops.forget != NULL)
        dl_slot_forget(party->side.plugin, party->side.self, &party->attempt.req);
    party->released = true;
}

void dlt_party_beside(struct dlt_party *party, struct dlt_party *other, const char *who)
{
    *party = (struct dlt_party){.run = other->run, .who = who};
    dlt_side_share(&party->side, &other->side);
    opened(party);
}

static void attempt_end(struct dlt_party *party)
{
    if (party->begun)
        dlt_attempt_end(&party->attempt, &party->side, party->released);
    party->begun = false;
}

void dlt_party_end(struct dlt_party *party)
{
    attempt_end(party);
    dlt_side_fini(&party->side);
}

bool dlt_party_may_set(const struct dlt_party *party, const char *option)
{
    return party->side.store->target.option(&party->side.store->target, option) != NULL;
}

void dlt_party_brief(struct dlt_party *party, const struct dlt_run *run)
{
    dlt_party_begin(party, run, "the brief one", NULL);
    if (dlt_side_has(&party->side, DLOCK_CAP_TETHERED))
        dlt_skip("not applicable: queue entries live in the client's session");
    if (!dlt_party_may_set(party, "waiter_lease"))
        dlt_skip("not applicable: no option waiter_lease, and the queue entries may be long");
    dlt_party_end(party);
    dlt_party_begin(party, run, "the brief one", "waiter_lease=500ms");
}

int dlt_party_ttl_ms(void)
{
    return (int)dlt_ttl_within(60000);
}

void dlt_party_anew(struct dlt_party *party, const char *suffix, enum dlock_mode mode,
                    int64_t ttl_ms)
{
    attempt_end(party);
    dlt_attempt_begin(&party->attempt, party->run, &party->side, suffix, ttl_ms);
    party->attempt.req.name = (const unsigned char *)party->attempt.name.text;
    party->attempt.req.mode = mode;
    party->begun = true;
    party->released = false;
}

bool dlt_party_queues(const struct dlt_party *party)
{
    return dlt_side_has(&party->side, DLOCK_CAP_QUEUE);
}

/* ---- calls ---- */

/* Servers that answered too late, on a machine that stood still, are asked again, as core does. */
enum dlock_status dlt_party_try_with(struct dlt_party *party, uint32_t flags)
{
    enum dlock_status status = DLOCK_NO_QUORUM;

    party->attempt.req.flags = flags;
    for (int i = 0; i < TRIES_MOST && status == DLOCK_NO_QUORUM; i++)
        status = dlt_side_try(&party->side, &party->attempt);
    party->attempt.req.flags = 0;
    party->released = false;
    return status;
}

enum dlock_status dlt_party_try(struct dlt_party *party)
{
    return dlt_party_try_with(party, 0);
}

/* A watch that got no answer by its deadline may have ended the connection. Core opens another
 * session then [FAI-1]. */
static bool replaced(struct dlt_party *party, enum dlock_status status)
{
    uint64_t kept = DLOCK_CAP_CONCURRENT | DLOCK_CAP_SESSION;

    if (status != DLOCK_UNAVAILABLE || (party->side.info.caps & kept) != 0)
        return false;
    dlt_side_close(&party->side);
    return dlt_side_open(&party->side) == DLOCK_OK;
}

enum dlock_status dlt_party_refresh(struct dlt_party *party)
{
    uint32_t flags = dlt_party_queues(party) ? DLOCK_REQ_REFRESH : 0;
    enum dlock_status status = dlt_party_try_with(party, flags);

    if (replaced(party, status))
        status = dlt_party_try_with(party, flags);
    if (status == DLOCK_BUSY && dlt_party_queues(party) &&
        (party->side.grant.flags & DLOCK_GRANT_QUEUED) == 0)
        return DLOCK_LOST;
    return status;
}

enum dlock_status dlt_party_renew(struct dlt_party *party)
{
    return dlt_side_renew(&party->side, &party->attempt);
}

enum dlock_status dlt_party_downgrade(struct dlt_party *party)
{
    enum dlock_status status;

    party->attempt.req.flags = DLOCK_REQ_DOWNGRADE;
    party->attempt.req.mode = DLOCK_SHARED;
    status = dlt_party_renew(party);
    party->attempt.req.flags = 0;
    return status;
}

enum dlock_status dlt_party_unlock(struct dlt_party *party)
{
    party->released = true;
    return dlt_side_unlock(&party->side, &party->attempt);
}

enum dlock_status dlt_party_dequeue(struct dlt_party *party)
{
    return dlt_side_dequeue(&party->side, &party->attempt);
}

enum dlock_status dlt_party_break(struct dlt_party *party, const char *owner)
{
    struct dlt_side *side = &party->side;

    if (side->plugin->ops.break_lock == NULL)
        return DLOCK_UNSUPPORTED;
    dl_error_reset(&side->err);
    return dl_slot_break(side->plugin, side->self, party->attempt.req.name,
                         party->attempt.req.name_len, owner,
                         dlt_now_ns() + side->call_ms * DLT_NS_PER_MS, &side->err);
}

enum dlock_status dlt_party_watch(struct dlt_party *party, int64_t ms)
{
    return dlt_side_wait(&party->side, &party->attempt, ms);
}

void dlt_party_interrupt(struct dlt_party *party)
{
    dl_slot_interrupt(party->side.plugin, party->side.self, &party->attempt.req);
}

void dlt_party_says(const char *file, int line, const struct dlt_party *party, const char *call,
                    enum dlock_status got, enum dlock_status want, const char *format, ...)
{
    char text[400];
    va_list args;

    if (got == want)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dlt_fail(file, line, "%s: %s by %s is %s, want %s", text, call, party->who,
             dlt_said(&party->side, got), dlock_status_name((int)want));
}

/* ---- waiting ---- */

void dlt_party_hold(struct dlt_party *party)
{
    int64_t start_ns = dlt_now_ns();
    enum dlock_status status = dlt_party_try(party);

    if (status == DLOCK_NO_QUORUM) /* the lease was over when the last servers answered? */
        DLT_WITHIN(start_ns, party->attempt.req.ttl_ms / 2, "trylock by %s is %s", party->who,
                   dlt_said(&party->side, status));
    DLT_SAYS(party, status, DLOCK_OK, "the name is free");
}

int64_t dlt_party_release(struct dlt_party *party)
{
    int64_t now_ns = dlt_now_ns();

    DLT_SAYS(party, dlt_party_unlock(party), DLOCK_OK, "it holds the name");
    return now_ns;
}

void dlt_party_line_up(struct dlt_party *party)
{
    bool queues = dlt_party_queues(party);

    DLT_SAYS(party, dlt_party_try_with(party, queues ? DLOCK_REQ_ENQUEUE : 0), DLOCK_BUSY,
             "others hold the name, or wait for it");
    DLT_CHECK(!queues || (party->side.grant.flags & DLOCK_GRANT_QUEUED) != 0,
              "trylock with ENQUEUE by %s is BUSY without QUEUED", party->who);
}

void dlt_party_settle(struct dlt_party *party)
{
    int64_t start_ns = dlt_now_ns();

    dlt_party_line_up(party);
    for (;;) {
        enum dlock_status status = dlt_party_watch(party, QUIET_MS);

        if (status == DLOCK_TIMEOUT)
            return;
        DLT_CHECK(status == DLOCK_BUSY || status == DLOCK_UNAVAILABLE,
                  "watch by %s of a name that is held is %s, want TIMEOUT [WAT-1]", party->who,
                  dlt_said(&party->side, status));
        DLT_WITHIN(start_ns, SETTLE_MS, "%s: watch of a name that is held does not sleep [WAT-3]",
                   party->who);
        if (status == DLOCK_UNAVAILABLE)
            dlt_sleep_ms(QUIET_MS);
        DLT_SAYS(party, dlt_party_refresh(party), DLOCK_BUSY, "others hold the name");
    }
}

enum dlock_status dlt_party_wait(struct dlt_party *party, int64_t ms)
{
    int64_t start_ns = dlt_now_ns(), left_ms = ms;
    enum dlock_status status = DLOCK_BUSY;
    int polls = 0;

    for (int i = 0; status == DLOCK_BUSY && left_ms > 0; i++) {
        DLT_CHECK(i < WAKES_MOST, "watch by %s returned BUSY %d times in %.0f ms [WAT-3]",
                  party->who, i, dlt_ms_since(start_ns));
        if (i > 0)
            status = dlt_party_refresh(party);
        left_ms = ms - (int64_t)dlt_ms_since(start_ns);
        if (status == DLOCK_BUSY && left_ms > 0)
            status = dlt_party_watch(party, left_ms);
        if (status == DLOCK_UNAVAILABLE && polls++ < POLLS_MOST) { /* core polls [WAT-1] */
            dlt_sleep_ms(QUIET_MS);
            status = dlt_party_refresh(party);
        }
        left_ms = ms - (int64_t)dlt_ms_since(start_ns);
    }
    return status == DLOCK_BUSY ? DLOCK_TIMEOUT : status;
}

static void *sleeper(void *arg)
{
    struct dlt_party *party = arg;

    party->awake = dlt_party_wait(party, party->sleep_ms);
    party->awake_ns = dlt_now_ns();
    return NULL;
}

void dlt_party_sleep(struct dlt_party *party, int64_t ms)
{
    party->sleep_ms = ms;
    party->awake = DLOCK_INTERNAL;
    party->thread = dlt_thread(sleeper, party);
}

enum dlock_status dlt_party_wake(struct dlt_party *party)
{
    (void)dlt_join(party->thread);
    return party->awake;
}

void dlt_party_told(const char *file, int line, struct dlt_party *party, int64_t since_ns,
                    const char *format, ...)
{
    enum dlock_status status = dlt_party_wait(party, DLT_TOLD_MS + QUIET_MS);
    char text[400];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (status != DLOCK_OK && status != DLOCK_TIMEOUT)
        dlt_fail(file, line, "%s: the wait of %s ended with %s, want OK", text, party->who,
                 dlt_said(&party->side, status));
    dlt_between(file, line, since_ns, dlt_now_ns(), DLT_TOLD_MS, "%s: nobody told %s", text,
                party->who);
    if (status != DLOCK_OK)
        dlt_fail(file, line, "%s: the wait of %s ended before its deadline with TIMEOUT", text,
                 party->who);
}

void dlt_party_not_told(struct dlt_party *party, const char *when)
{
    DLT_SAYS(party, dlt_party_wait(party, QUIET_MS), DLOCK_TIMEOUT, "%s", when);
}

static bool waiters_note(void *arg, const struct dlock_holder *holder)
{
    *(uint32_t *)arg = holder->waiters;
    return true;
}

uint32_t dlt_party_waiters(struct dlt_party *party)
{
    struct dlt_side *side = &party->side;
    uint32_t waiters = UINT32_MAX;

    if (side->plugin->ops.inspect == NULL)
        return waiters;
    DLT_SAYS(party,
             dl_slot_inspect(
                 side->plugin, side->self, party->attempt.req.name, party->attempt.req.name_len,
                 dlt_now_ns() + side->call_ms * DLT_NS_PER_MS, waiters_note, &waiters, &side->err),
             DLOCK_OK, "on a good network");
    return waiters;
}

int64_t dlt_party_ended_ms(const struct dlt_party *party, int64_t lease_ms)
{
    return lease_ms + (lease_ms > 20000 ? lease_ms / 20 : 1000) + party->run->grid_ms +
           party->run->slack_ms;
}

uint64_t dlt_party_fence(const struct dlt_party *party)
{
    const struct dlock_grant *grant = &party->side.grant;

    return grant->fence != 0 ? grant->fence + grant->fence_room : 0;
}
