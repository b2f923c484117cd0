/* SPDX-License-Identifier: MIT */
/*
 * test_zk_follower ROUNDS - a follower is cut off from the other servers right after a client took
 * or renewed a name through it. It goes on to answer for a while, and the leader, which has not
 * heard of this client since its last word to it, gives the name to another when the session is
 * over: has the client's claim ended by then? (C1, C2, C5, TRY-2, REN-1)
 */
#include "rivals.h"
#include "ruler.h"
#include "tap.h"
#include "zk_server.h"

#include <inttypes.h>
#include <stdlib.h>

/* A session is over before the follower gives its leader up, which takes two seconds. */
#define TTL      "1s"
#define TOLD_MS  500
#define GRANT_MS 20000
#define STEP_MS  37 /* of one round after the one before, in a tick */

static struct dlt_zk server;

static const char *uri_of(char uri[128], unsigned member)
{
    (void)snprintf(uri, 128, "zk://%s/follower?ttl=" TTL "&connect_timeout=20s",
                   server.members[member].address);
    return uri;
}

static void check(const struct holder *holder, struct rival *rival, int64_t cut_ns)
{
    bool granted = rival_granted(rival, GRANT_MS);
    int64_t claimed_ns = atomic_load(&holder->claimed_ns), told_ns = atomic_load(&holder->told_ns);

    (void)dlt_ok(granted, "C13 the rival gets the name: %s", rival->message);
    (void)dlt_ok(claimed_ns < atomic_load(&rival->granted_ns),
                 "C1 the claim ended %" PRId64 " ms before, %" PRId64 " ms after the cut",
                 (atomic_load(&rival->granted_ns) - claimed_ns) / NS_PER_MS,
                 (claimed_ns - cut_ns) / NS_PER_MS);
    (void)dlt_ok(told_ns != 0 && dlt_ended_within(atomic_load(&holder->until_ns), told_ns, TOLD_MS),
                 "C5 the holder was told in time");
}

/* renewed: the last word before the cut is a renewal, otherwise the take itself. */
static void round_run(int number)
{
    static struct holder holder;
    static struct rival rival;
    char uri[128], name[16];
    bool renewed = number % 2 == 0, served = false;
    unsigned leader = (unsigned)dlt_zk_leader_wait(&server), follower = 0;
    int64_t cut_ns = 0;

    if (leader >= server.count)
        abort();
    follower = (leader + 1) % server.count;
    (void)snprintf(name, sizeof name, "round%d", number);
    holder_begin(&holder, uri_of(uri, follower), name);
    if (renewed) {
        rivals_sleep_ms(1000 + number * STEP_MS % DLT_ZK_TICK_MS);
        (void)dlt_ok(dlock_renew(holder.lock, 0, NULL) == DLOCK_OK, "the holder renews");
    }
    (void)dlt_ok(dlt_zk_cut(&server, follower, true), "its server is cut off from the others");
    cut_ns = rivals_now_ns();
    served = dlt_zk_serves(&server.members[follower]);
    (void)dlt_ok(served && holder_claims(&holder), "both do not know it yet");
    rival_begin(&rival, uri_of(uri, leader), name);
    check(&holder, &rival, cut_ns);
    (void)dlt_ok(dlt_zk_cut(&server, follower, false) && dlt_zk_settled(&server),
                 "the follower is back");
    (void)dlt_ok(rival_end(&rival) > holder.fence, "C6 the fence of the rival is above");
    holder_end(&holder);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;

    if (!dlt_zk_start_linked(&server, 3, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    for (int i = 0; i < rounds; i++)
        round_run(i);
    dlt_zk_stop(&server);
    return dlt_done();
}
