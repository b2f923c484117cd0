/* SPDX-License-Identifier: MIT */
/*
 * test_etcd_storm MEMBERS [brief] - many threads on few names, while members are killed, stopped
 * and cut off from the others by that (C1, C4, C6, C8, C13). brief: some of that.
 */
#include "etcd_server.h"
#include "storm.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct dlt_etcd server;
static char uri[256];
static bool brief;

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void verdict(const struct dlt_storm *storm)
{
    (void)dlt_ok(storm->overlaps == 0, "C1 %d overlaps in %ld acquisitions", (int)storm->overlaps,
                 (long)storm->acquisitions);
    (void)dlt_ok(storm->fences_fallen == 0, "C6 %d fences that were not above the one before",
                 (int)storm->fences_fallen);
    (void)dlt_ok(storm->late == 0, "C8 %d calls ended late", (int)storm->late);
    (void)dlt_ok(storm->oddities == 0, "C4 %d answers that nothing explains", (int)storm->oddities);
}

static void begin(struct dlt_storm *storm)
{
    storm->uri = uri;
    if (!dlt_storm_start(storm))
        abort();
}

/* Nothing happens to the members meanwhile. */
static void calm(struct dlt_storm *storm, const char *what)
{
    begin(storm);
    (void)dlt_ok(dlt_storm_goes_on(storm), "%s", what);
    sleep_ms(500);
    (void)dlt_ok(dlt_storm_goes_on(storm), "C13 they all go on");
    dlt_storm_end(storm);
    verdict(storm);
}

static void readers_and_writers(void)
{
    static struct dlt_storm storm = {.clients = 8,
                                     .threads = 24,
                                     .names = 2,
                                     .readers_every = 3,
                                     .wait_ms = 60000,
                                     .calm = true};

    calm(&storm, "C1 readers and writers on 2 names side by side");
}

static void many_on_one_connection(void)
{
    static struct dlt_storm storm = {
        .clients = 1, .threads = 200, .names = 5, .wait_ms = 60000, .calm = true};

    calm(&storm, "C13 200 threads on one connection take turns");
}

static unsigned leader(void)
{
    int found = dlt_etcd_leader_wait(&server);

    if (found < 0)
        abort();
    return (unsigned)found;
}

static void leader_killed_twice(void)
{
    for (int i = 0; i < 2; i++) {
        unsigned member = leader();

        sleep_ms(100);
        dlt_etcd_kill(&server, member);
        sleep_ms(i * 500);
        if (!dlt_etcd_again(&server, member))
            abort();
    }
}

static void leader_stopped_for_a_while(void)
{
    unsigned member = leader();

    dlt_etcd_pause(&server, member, true);
    sleep_ms(1500);
    dlt_etcd_pause(&server, member, false);
}

/* All but one: with three members nobody leads meanwhile. */
static void most_stopped_for_a_while(void)
{
    for (unsigned i = 1; i < server.count; i++)
        dlt_etcd_pause(&server, i, true);
    sleep_ms(1500);
    for (unsigned i = 1; i < server.count; i++)
        dlt_etcd_pause(&server, i, false);
}

static void all_killed(void)
{
    for (unsigned i = 0; i < server.count; i++)
        dlt_etcd_kill(&server, i);
    if (!dlt_etcd_again_all(&server))
        abort();
}

static void bad_days(void)
{
    static const struct {
        const char *what;
        void (*happens)(void);
        unsigned members; /* or more */
    } days[] = {
        {"C6 the leader killed twice", leader_killed_twice, 1},
        {"C8 the leader stopped", leader_stopped_for_a_while, 1},
        {"C13 most members stopped", most_stopped_for_a_while, 2},
        {"C6 all members killed at once", all_killed, 2},
    };
    static struct dlt_storm storm = {.clients = 4, .threads = 24, .names = 3, .ttl_ms = 6000};

    begin(&storm);
    (void)dlt_ok(dlt_storm_goes_on(&storm), "C13 24 threads of 4 clients take turns");
    for (size_t i = 0; i < (brief ? 2 : sizeof days / sizeof days[0]); i++) {
        if (days[i].members > server.count)
            continue;
        days[i].happens();
        (void)dlt_ok(dlt_storm_goes_on(&storm), "%s: they go on afterwards", days[i].what);
    }
    dlt_storm_end(&storm);
    verdict(&storm);
}

int main(int argc, char **argv)
{
    unsigned members = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;

    brief = argc > 2 && strcmp(argv[2], "brief") == 0;
    if (!dlt_etcd_start_cluster(&server, members, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    (void)snprintf(uri, sizeof uri, "etcd://%s/storm", server.hosts);
    readers_and_writers();
    if (!brief && members == 1)
        many_on_one_connection();
    bad_days();
    dlt_etcd_stop(&server);
    return dlt_done();
}
