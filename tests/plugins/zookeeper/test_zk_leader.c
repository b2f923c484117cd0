/* SPDX-License-Identifier: MIT */
/*
 * test_zk_leader SECONDS ROUNDS - the leader of three servers is stopped for so long, while holders
 * renew through a follower, which goes on to answer what it can answer alone. Is one whose lease is
 * over before there is another leader told in time, and is nobody else inside before? Does one with
 * a longer lease keep it? (C1, C2, C5, C6, C13, REN-1)
 */
#include "rivals.h"
#include "ruler.h"
#include "tap.h"
#include "zk_server.h"

#include <inttypes.h>
#include <stdlib.h>

#define TOLD_MS  500   /* after the end of the lease: a busy machine */
#define GRANT_MS 20000 /* until a leader is there, and the name free */
#define CALM_MS  700   /* renewals before the leader stops */

static struct dlt_zk server;

/* Clients of one server alone. */
static const char *uri_of(char uri[128], unsigned member, const char *ttl)
{
    (void)snprintf(uri, 128, "zk://%s/leader?ttl=%s&connect_timeout=20s",
                   server.members[member].address, ttl);
    return uri;
}

static void check_told(const struct holder *holder)
{
    int64_t told_ns = atomic_load(&holder->told_ns), until_ns = atomic_load(&holder->until_ns);

    (void)dlt_ok(told_ns != 0 && dlt_ended_within(until_ns, told_ns, TOLD_MS),
                 "C5 the holder is told in time, %" PRId64 " ms after the end of its lease",
                 (told_ns - until_ns) / NS_PER_MS);
}

static void check_rival(const struct rival *rival, const struct holder *holder)
{
    int64_t after_ns = atomic_load(&rival->granted_ns) - atomic_load(&holder->claimed_ns);

    if (dlt_ok(rival_granted(rival, GRANT_MS), "C13 the rival gets the name: %s", rival->message))
        after_ns = atomic_load(&rival->granted_ns) - atomic_load(&holder->claimed_ns);
    (void)dlt_ok(after_ns > 0, "C1 %" PRId64 " ms after the holder's last claim",
                 after_ns / NS_PER_MS);
}

static void round_run(int64_t stop_ms)
{
    static struct holder brief, patient;
    static struct rival rival, other;
    char uri[128];
    unsigned leader = (unsigned)dlt_zk_leader_wait(&server), near = (leader + 1) % server.count,
             far = (leader + 2) % server.count;

    if (leader >= server.count)
        abort();
    holder_begin(&brief, uri_of(uri, near, "2s"), "brief");
    holder_begin(&patient, uri_of(uri, near, "12s"), "patient");
    rival_begin(&rival, uri_of(uri, far, "2s"), "brief");
    rival_begin(&other, uri_of(uri, far, "12s"), "patient");
    rivals_sleep_ms(CALM_MS);
    (void)dlt_ok(holder_claims(&brief) && holder_claims(&patient), "two leases are renewed");

    dlt_zk_pause(&server, leader, true);
    rivals_sleep_ms(stop_ms);
    check_told(&brief);
    check_rival(&rival, &brief);
    (void)dlt_ok(atomic_load(&patient.told_ns) == 0 && holder_claims(&patient) &&
                     atomic_load(&other.granted_ns) == 0,
                 "C13 a lease of 12 s lasts until there is a leader");
    dlt_zk_pause(&server, leader, false);
    (void)dlt_ok(dlt_zk_settled(&server), "the old leader follows");
    (void)dlt_ok(dlock_renew(patient.lock, 0, NULL) == DLOCK_OK, "REN-1 it is renewed then");
    (void)dlt_ok(rival_end(&rival) > brief.fence, "C6 the fence of the rival is above");
    holder_end(&brief);
    holder_end(&patient);
    (void)dlt_ok(rival_granted(&other, GRANT_MS) && rival_end(&other) > patient.fence,
                 "the next one gets the name when it is given back");
}

int main(int argc, char **argv)
{
    int64_t stop_ms = argc > 1 ? strtoll(argv[1], NULL, 10) * 1000 : 5000;
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1;

    if (!dlt_zk_start_cluster(&server, 3, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    for (int i = 0; i < rounds; i++)
        round_run(stop_ms);
    dlt_zk_stop(&server);
    return dlt_done();
}
