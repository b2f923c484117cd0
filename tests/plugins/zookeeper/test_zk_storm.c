/* SPDX-License-Identifier: MIT */
/*
 * test_zk_storm SERVERS [brief] - many threads on few names, while servers are killed, stopped, cut
 * off from each other and from the clients (C1, C4, C6, C8, C13). brief: some of that.
 */
#include "storm_days.h"
#include "tap.h"
#include "zk_client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct dlt_zk server;
static struct dlt_proxy ways[DLT_ZK_MEMBERS_MAX]; /* of the clients to the servers */
static struct dlt_store_server store;
static char uri[256];

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Leases of so many seconds. */
static void uri_make(int ttl_s)
{
    size_t used = (size_t)snprintf(uri, sizeof uri, "zk://");

    for (unsigned i = 0; i < server.count; i++)
        used += (size_t)snprintf(uri + used, sizeof uri - used, "%s%s", i > 0 ? "," : "",
                                 ways[i].address);
    (void)snprintf(uri + used, sizeof uri - used, "/storm?ttl=%ds", ttl_s);
}

static void many_in_one_session(void)
{
    static struct dlt_storm storm = {.uri = uri, .clients = 1, .threads = 200, .names = 5};

    dlt_storm_calm(&storm, "C13 200 threads in one session take turns");
}

/* ---- what happens to servers ---- */

static unsigned leader(void)
{
    int found = dlt_zk_leader_wait(&server);

    if (found < 0)
        abort();
    return (unsigned)found;
}

static void connections_cut(const struct dlt_store_server *self)
{
    (void)self;
    for (int i = 0; i < 15; i++) {
        sleep_ms(60);
        for (unsigned m = 0; m < server.count; m++)
            if (!dlt_proxy_tell(&ways[m], "kill rst"))
                abort();
    }
}

static void leader_killed(const struct dlt_store_server *self)
{
    unsigned member = leader();

    (void)self;
    dlt_zk_kill(&server, member);
    sleep_ms(100);
    if (!dlt_zk_again(&server, member))
        abort();
}

static void leader_stopped(const struct dlt_store_server *self)
{
    unsigned member = leader();

    (void)self;
    dlt_zk_pause(&server, member, true);
    sleep_ms(1500);
    dlt_zk_pause(&server, member, false);
}

static void all_killed(const struct dlt_store_server *self)
{
    (void)self;
    for (unsigned i = 0; i < server.count; i++)
        dlt_zk_kill(&server, i);
    if (!dlt_zk_again_all(&server))
        abort();
}

static void follower_cut_off(const struct dlt_store_server *self)
{
    unsigned member = (leader() + 1) % server.count;

    (void)self;
    if (!dlt_zk_cut(&server, member, true))
        abort();
    sleep_ms(3000);
    if (!dlt_zk_cut(&server, member, false))
        abort();
}

static void sessions_ended(const struct dlt_store_server *self)
{
    const char *line = dlt_zk_word(&server.members[leader()], "dump");
    unsigned ended = 0;
    long long ids[16];

    (void)self;
    for (line = strstr(line, "Sessions with Ephemerals"); line != NULL && ended < 16;
         line = strchr(line + 1, '\n'))
        ended += sscanf(line, "\n0x%llx:", (unsigned long long *)&ids[ended]) == 1;
    (void)dlt_ok(ended > 0, "%u sessions are ended", ended);
    for (unsigned i = 0; i < ended; i++)
        (void)dlt_zk_expire(&server, ids[i]);
}

/* ---- the days ---- */

/* What is in force for locks that end with their sessions holds no more when somebody ends those.
 */
static void days_of_one(bool brief)
{
    static const struct dlt_storm_day days[] = {{"C8 the server stopped", dlt_storm_pause},
                                                {"C6 the server killed twice", dlt_storm_restarts},
                                                {"C13 connections cut", connections_cut}};
    static const struct dlt_storm_day stranger[] = {{"C13 sessions ended", sessions_ended}};

    dlt_storm_days(uri, &store, days, brief ? 2 : sizeof days / sizeof days[0], true);
    if (!brief)
        dlt_storm_days(uri, &store, stranger, 1, false);
}

static void days_of_three(bool brief)
{
    static const struct dlt_storm_day days[] = {
        {"C6 the leader killed", leader_killed},   {"C13 a follower cut off", follower_cut_off},
        {"C8 the leader stopped", leader_stopped}, {"C6 all servers killed", all_killed},
        {"C13 connections cut", connections_cut},
    };

    dlt_storm_days(uri, &store, days, brief ? 2 : sizeof days / sizeof days[0], true);
}

int main(int argc, char **argv)
{
    unsigned members = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    bool brief = argc > 2 && strcmp(argv[2], "brief") == 0;

    if (!(members == 1 ? dlt_zk_start(&server, NULL)
                       : dlt_zk_start_linked(&server, members, NULL))) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    for (unsigned i = 0; i < server.count; i++)
        if (!dlt_proxy_start(&ways[i], server.members[i].address, "zookeeper", NULL))
            abort();
    store = dlt_store_zookeeper(&server);
    uri_make(20);
    dlt_storm_readers_and_writers(uri, 3, "C1 readers and writers on 2 names side by side");
    if (!brief && members == 1)
        many_in_one_session();
    uri_make(6);
    if (members == 1)
        days_of_one(brief);
    else
        days_of_three(brief);
    for (unsigned i = 0; i < server.count; i++)
        (void)dlt_proxy_stop(&ways[i]);
    dlt_zk_stop(&server);
    return dlt_done();
}
