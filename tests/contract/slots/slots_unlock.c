/* SPDX-License-Identifier: MIT */
/* What an unlock, a forget and the end of a session take, and what they leave. */
#include "calls.h"
#include "session/slot.h"
#include "slots.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void only_the_holder(struct dlt_party *parties, enum dlock_mode mode)
{
    struct dlt_party *a = &parties[0], *b = &parties[1], *c = &parties[2];

    dlt_party_anew(a, "job", mode, dlt_party_ttl_ms());
    dlt_party_anew(b, "job", mode, dlt_party_ttl_ms());
    dlt_party_anew(c, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_unlocks(b, DLOCK_LOST, "of a free name that it never held");
    dlt_tries(a, DLOCK_OK, "of a free name");
    dlt_unlocks(b, DLOCK_LOST, "of a name that another one holds");
    dlt_tries(c, DLOCK_BUSY, "after the unlock of one that held nothing [UNL-1]");
    dlt_renews(a, DLOCK_OK, "after the unlock of one that held nothing [UNL-1]");
    dlt_unlocks(a, DLOCK_OK, "the holder");
    for (int i = 0; i < 2; i++)
        dlt_unlocks(a, DLOCK_LOST, "again [UNL-2]");
    dlt_tries(c, DLOCK_OK, "after the unlock");
    dlt_unlocks(a, DLOCK_LOST, "again, of a name that another one holds now [UNL-1]");
    dlt_tries(b, DLOCK_BUSY, "after that unlock");
    dlt_unlocks(c, DLOCK_OK, "the holder");
}

void dlt_slots_only_the_holder(struct dlt_run *run)
{
    struct dlt_party parties[3];

    dlt_parties_begin(parties, 3, run);
    only_the_holder(parties, DLOCK_EXCLUSIVE);
    if (dlt_side_has(&parties[0].side, DLOCK_CAP_RWLOCK))
        only_the_holder(parties, DLOCK_SHARED);
    dlt_parties_end(parties, 3);
}

void dlt_slots_any_session(struct dlt_run *run)
{
    struct dlt_party a, second, third, other;

    dlt_party_begin(&a, run, "a", NULL);
    if (!dlt_party_is_leased(&a))
        dlt_skip("not applicable: leases live in sessions");
    dlt_party_begin(&other, run, "another client", NULL);
    dlt_party_join(&second, &a, "a second session of a");
    dlt_party_join(&third, &a, "a third session of a");
    for (int i = 0; i < 2; i++) {
        dlt_party_anew(&a, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_tries(&a, DLOCK_OK, "of a free name");
        DLT_SAYS(&second, dlt_side_renew(&second.side, &a.attempt), DLOCK_OK,
                 "a lease that was taken in another session [SES-1]");
        dlt_side_close(&a.side); /* not the last one of the client */
        dlt_tries(&other, DLOCK_BUSY, "of a lease whose first session is closed");
        DLT_SAYS(&third, dlt_side_unlock(&third.side, &a.attempt), DLOCK_OK,
                 "a lease that was taken in another session [SES-1]");
        a.released = true;
        DLT_SAYS(&second, dlt_side_unlock(&second.side, &a.attempt), DLOCK_LOST, "unlocked before");
        DLT_SAYS(&a, dlt_side_open(&a.side), DLOCK_OK, "a new session of a");
        dlt_tries(&other, DLOCK_OK, "after the unlock in another session");
        dlt_unlocks(&other, DLOCK_OK, "the holder");
    }
    dlt_party_end(&third);
    dlt_party_end(&second);
    dlt_party_end(&other);
    dlt_party_end(&a);
}

#define CLOSES     3
#define NOTICED_MS 20000 /* until a server has noticed the end of a session */

/* The last session of a client is closed, and its leases stay. */
static void closed_and_left(struct dlt_party *a, struct dlt_party *b)
{
    dlt_tries(a, DLOCK_OK, "of a free name");
    dlt_side_close(&a->side);
    dlt_tries(b, DLOCK_BUSY, "of a lease whose client has no session [TRY-2]");
    DLT_SAYS(a, dlt_side_open(&a->side), DLOCK_OK, "a new session");
    dlt_renews(a, DLOCK_OK, "in a new session");
    dlt_unlocks(a, DLOCK_OK, "in a new session");
}

/* ... and its leases end. False: not before half of their time. Close waits for no server, so that
 * what it says may be lost once, but not each time. */
static bool closed_and_ended(struct dlt_party *a, struct dlt_party *b, bool last)
{
    enum dlock_status status;
    int64_t start_ns, most_ms;

    dlt_tries(a, DLOCK_OK, "of a free name");
    most_ms = a->side.grant.lease_ms / 2 < NOTICED_MS ? a->side.grant.lease_ms / 2 : NOTICED_MS;
    dlt_party_over(a);
    start_ns = dlt_now_ns();
    dlt_side_close(&a->side);
    while ((status = dlt_party_try(b)) == DLOCK_BUSY &&
           (last || dlt_ms_since(start_ns) < (double)most_ms)) {
        if (last)
            DLT_WITHIN(start_ns, most_ms, "the last of %d sessions is closed [SES-2] [TET-1]",
                       CLOSES);
        dlt_sleep_ms(5);
    }
    DLT_SAYS(a, dlt_side_open(&a->side), DLOCK_OK, "a new session");
    if (status == DLOCK_BUSY)
        return false;
    DLT_SAYS(b, status, DLOCK_OK, "the session of the holder is closed");
    dlt_unlocks(b, DLOCK_OK, "the holder");
    return true;
}

static void closed(struct dlt_party *a, struct dlt_party *b, enum dlock_mode mode)
{
    bool ended = false;

    for (int i = 0; i < CLOSES && !ended; i++) {
        char name[16]; /* not that of a lease which may not have ended */

        (void)snprintf(name, sizeof name, "job-%d-%d", (int)mode, i);
        dlt_party_anew(a, name, mode, dlt_party_ttl_ms());
        dlt_party_anew(b, name, DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        if (dlt_party_is_leased(a)) {
            closed_and_left(a, b);
            return;
        }
        ended = closed_and_ended(a, b, i == CLOSES - 1);
    }
}

void dlt_slots_closed_session(struct dlt_run *run)
{
    struct dlt_party parties[3], *c = &parties[2];

    dlt_parties_begin(parties, 3, run);
    dlt_party_anew(c, "another", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_tries(c, DLOCK_OK, "of a free name");
    closed(&parties[0], &parties[1], DLOCK_EXCLUSIVE);
    if (dlt_side_has(&c->side, DLOCK_CAP_RWLOCK))
        closed(&parties[0], &parties[1], DLOCK_SHARED);
    dlt_renews(c, DLOCK_OK, "after another client closed all its sessions [HST-1]");
    dlt_unlocks(c, DLOCK_OK, "after another client closed all its sessions [HST-1]");
    dlt_parties_end(parties, 3);
}

/* A child of the process closes what it has inherited. */
void dlt_slots_closed_in_a_child(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    int status = 0;
    pid_t pid;

    dlt_parties_begin(parties, 2, run);
    dlt_tries(a, DLOCK_OK, "of a free name");
    pid = fork();
    DLT_CHECK(pid >= 0, "fork");
    if (pid == 0) {
        dl_slot_close(a->side.plugin, a->side.self, true);
        dl_slot_close(b->side.plugin, b->side.self, true);
        _exit(0);
    }
    DLT_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "close in a child ended with wait status %d [CLS-1]", status);
    dlt_tries(b, DLOCK_BUSY, "after a child closed the session of the holder [CLS-1]");
    dlt_renews(a, DLOCK_OK, "after a child closed the session [CLS-1]");
    dlt_unlocks(a, DLOCK_OK, "after a child closed the session [CLS-1]");
    dlt_tries(b, DLOCK_OK, "after the unlock");
    dlt_unlocks(b, DLOCK_OK, "the holder");
    dlt_parties_end(parties, 2);
}

/* ---- forget ---- */

static void forgets(struct dlt_party *party, void *self)
{
    int64_t start_ns = dlt_now_ns();

    dl_slot_forget(party->side.plugin, self, &party->attempt.req);
    DLT_WITHIN(start_ns, 100 + party->run->slack_ms, "forget waits for nothing [FGT-1]");
    party->released = true;
}

void dlt_slots_forgotten(struct dlt_run *run)
{
    struct dlt_party parties[3], other, *a = &parties[0], *b = &parties[1], *c = &parties[2];
    bool session;

    dlt_parties_begin(parties, 3, run);
    if (a->side.plugin->ops.forget == NULL)
        dlt_skip("not applicable: no forget");
    session = dlt_side_has(&a->side, DLOCK_CAP_SESSION);
    forgets(b, b->side.self); /* nothing was set up */
    dlt_tries(a, DLOCK_OK, "of a free name");
    for (int i = 0; i < 2; i++) {
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_tries(b, DLOCK_BUSY, "of a name that another one holds");
        forgets(b, b->side.self);
    }
    dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    dlt_renews(a, DLOCK_OK, "after others gave up [FGT-1]");
    if (!session) {
        dlt_party_join(&other, b, "another session of b");
        dlt_renews(b, DLOCK_LOST, "of a name that another one holds");
        forgets(b, other.side.self); /* any session [FGT-2] */
        dlt_party_end(&other);
    }
    if (!session && !dlt_side_has(&a->side, DLOCK_CAP_CONCURRENT)) {
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
        dlt_tries(b, DLOCK_BUSY, "of a name that another one holds");
        dlt_side_close(&b->side);
        forgets(b, NULL);
        DLT_SAYS(b, dlt_side_open(&b->side), DLOCK_OK, "a new session");
    }
    dlt_renews(a, DLOCK_OK, "after others gave up [FGT-1]");
    dlt_unlocks(a, DLOCK_OK, "after others gave up [FGT-1]");
    dlt_tries(c, DLOCK_OK, "after the unlock: those that gave up hold nothing");
    dlt_unlocks(c, DLOCK_OK, "the holder");
    dlt_parties_end(parties, 3);
}

/* ---- sessions that keep a lease, and sessions that wait ---- */

void dlt_slots_tethered_lasts(struct dlt_run *run)
{
    struct dlt_party parties[2], *a = &parties[0], *b = &parties[1];
    int64_t start_ns = dlt_now_ns(), lease_ms;

    dlt_parties_begin(parties, 2, run);
    dlt_party_anew(a, "job", DLOCK_EXCLUSIVE, 1000);
    dlt_tries(a, DLOCK_OK, "of a free name");
    lease_ms = a->side.grant.lease_ms;
    while (dlt_ms_since(start_ns) < (double)(2 * lease_ms)) {
        dlt_sleep_ms(lease_ms / 10);
        dlt_tries(b, DLOCK_BUSY, "of a lease that its session keeps alive [TET-1]");
    }
    dlt_renews(a, DLOCK_OK, "after twice its lease, without a call [TET-1]");
    dlt_unlocks(a, DLOCK_OK, "the holder");
    dlt_parties_end(parties, 2);
}

/* What a wait that ended left behind would take the name, or be in the way. */
void dlt_slots_lock_gives_up(struct dlt_run *run)
{
    enum { WAIT_MS = 300 };
    struct dlt_party parties[3], *a = &parties[0], *b = &parties[1], *c = &parties[2];

    dlt_parties_begin(parties, 3, run);
    DLT_SAYS(a, dlt_party_watch(a, 5000), DLOCK_OK, "lock of a free name");
    for (int i = 0; i < 2; i++) {
        int64_t start_ns = dlt_now_ns(), end_ns;
        enum dlock_status status = dlt_party_watch(b, WAIT_MS);

        end_ns = dlt_now_ns();
        DLT_SAYS(b, status, DLOCK_TIMEOUT, "lock of a name that is held [LCK-1]");
        DLT_CHECK(end_ns - start_ns >= (WAIT_MS - 1) * DLT_NS_PER_MS,
                  "lock ended before its deadline with TIMEOUT");
        DLT_BETWEEN(start_ns, end_ns, WAIT_MS + 100 + run->slack_ms, "lock, due in %d ms [LCK-2]",
                    WAIT_MS);
        dlt_party_over(b);
        dlt_side_close(&b->side); /* [FAI-1] */
        DLT_SAYS(b, dlt_side_open(&b->side), DLOCK_OK, "a new session");
        dlt_party_anew(b, "job", DLOCK_EXCLUSIVE, dlt_party_ttl_ms());
    }
    dlt_unlocks(a, DLOCK_OK, "the holder");
    dlt_tries(c, DLOCK_OK, "after waits that gave up [LCK-1]");
    dlt_unlocks(c, DLOCK_OK, "the holder");
    dlt_parties_end(parties, 3);
}
