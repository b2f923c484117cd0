/* SPDX-License-Identifier: MIT */
/*
 * Does the server of the tests of zookeeper stand still when it is told to, keep its data when it
 * is killed, lose them when it is told to, end sessions, let in whom it should, and leave nothing
 * behind? Do three go on without their leader, and is a follower cut off that is told to be?
 * Without that, no test with faults shows anything.
 */
#include "tap.h"
#include "zk_client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct dlt_zk server;

static void says(const char *answer, const char *expected, const char *name)
{
    (void)dlt_ok(strcmp(answer, expected) == 0, "%s (%s)", name, answer);
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* A node ends with its session, and with nothing else. */
static void sessions(void)
{
    struct dlt_zk_client client, other;

    (void)dlt_ok(dlt_zk_client_open(&client, &server.members[0], 1), "a client");
    (void)dlt_ok(client.timeout_ms == 400, "the shortest session lasts 2 ticks (%d ms)",
                 client.timeout_ms);
    says(dlt_zk_client_ask(&client, "create -e /mine a word"), "/mine", "a client makes a node");
    says(dlt_zk_client_ask(&client, "create -e /mine"), "node exists", "only once");
    dlt_zk_client_drop(&client);
    says(dlt_zk_ask(&server, "get /mine"), "a word", "it stays when the connection ends");
    sleep_ms(1000);
    says(dlt_zk_ask(&server, "get /mine"), "no node", "it ends with the session");
    (void)dlt_ok(dlt_zk_client_open(&client, &server.members[0], 60000), "another session");
    says(dlt_zk_client_ask(&client, "create -e -s /queue-"), "/queue-0000000001", "has a number");
    (void)dlt_ok(dlt_zk_client_join(&other, &server.members[0], client.session_id),
                 "another client takes over its session");
    dlt_zk_client_drop(&other);
    (void)dlt_ok(dlt_zk_expire(&server, client.session_id), "which is ended");
    says(dlt_zk_ask(&server, "ls /"), "zookeeper", "with its node");
    (void)dlt_ok(!dlt_zk_expire(&server, client.session_id), "once");
    dlt_zk_client_drop(&client);
}

static void users(void)
{
    struct dlt_zk_client client;

    (void)dlt_ok(dlt_zk_client_open(&client, &server.members[0], 60000), "a client");
    says(dlt_zk_client_ask(&client, "create /secret word"), "/secret", "makes a node");
    says(dlt_zk_client_ask(&client, "getAcl /secret"), "world:anyone:cdrwa", "for everybody");
    says(dlt_zk_client_ask(&client, "addauth digest u:secret"), "", "it logs in");
    says(dlt_zk_client_ask(&client, "setAcl /secret auth::cdrwa"), "", "and shuts the others out");
    dlt_zk_client_close(&client);
    (void)dlt_ok(dlt_zk_client_open(&client, &server.members[0], 60000), "another client");
    says(dlt_zk_client_ask(&client, "get /secret"), "no auth", "may not look");
    says(dlt_zk_ask(&server, "get /secret"), "word", "the super user may");
    says(dlt_zk_ask(&server, "deleteall /"), "1", "and deletes it");
    dlt_zk_client_close(&client);
}

static void one_server(void)
{
    char directory[DLT_DIRECTORY_SIZE];

    (void)dlt_ok(dlt_zk_start(&server, (const char *[]){"minSessionTimeout=400", NULL}),
                 "one server starts%s", server.why);
    (void)memcpy(directory, server.directory, sizeof directory);
    (void)dlt_ok(dlt_zk_leader(&server) == 0, "it leads");
    (void)dlt_ok(dlt_zk_number(&server.members[0], "zk_znode_count") >= 4, "it counts its nodes");
    sessions();
    users();

    says(dlt_zk_ask(&server, "create /kept the value"), "/kept", "a node");
    dlt_zk_pause(&server, 0, true);
    (void)dlt_ok(!dlt_zk_serves(&server.members[0]), "a paused one does not answer");
    dlt_zk_pause(&server, 0, false);
    (void)dlt_ok(dlt_zk_serves(&server.members[0]), "it answers again afterwards");
    dlt_zk_kill(&server, 0);
    (void)dlt_ok(!dlt_zk_serves(&server.members[0]), "a killed one does not answer");
    (void)dlt_ok(dlt_zk_again(&server, 0), "it starts again at once%s", server.why);
    says(dlt_zk_ask(&server, "get /kept"), "the value", "with its data");
    dlt_zk_kill(&server, 0);
    dlt_zk_forget(&server, 0);
    (void)dlt_ok(dlt_zk_again(&server, 0), "it starts again without its data%s", server.why);
    says(dlt_zk_ask(&server, "get /kept"), "no node", "which are gone");

    dlt_zk_pause(&server, 0, true);
    dlt_zk_stop(&server);
    (void)dlt_ok(access(directory, F_OK) != 0, "one that is paused ends, and its directory, too");
}

/* It answers clients until it gives its leader up, and again soon after the end. */
static void follower_cut_off(unsigned follower)
{
    const struct dlt_zk_member *member = &server.members[follower];
    int64_t before = dlt_zk_swallowed(&server);
    bool served = true;

    (void)dlt_ok(dlt_zk_cut(&server, follower, true), "a follower is cut off");
    (void)dlt_ok(dlt_zk_serves(member), "which it has not noticed yet");
    for (int ms = 0; ms < 10000 && served; ms += 50) {
        sleep_ms(50);
        served = dlt_zk_serves(member);
    }
    (void)dlt_ok(!served && dlt_zk_leader(&server) >= 0,
                 "then it serves nobody, and a leader is left");
    (void)dlt_ok(dlt_zk_swallowed(&server) > before, "bytes of the servers have vanished");
    (void)dlt_ok(dlt_zk_cut(&server, follower, false) && dlt_zk_settled(&server),
                 "it follows when it is not cut off any more");
}

static void three_servers(void)
{
    int leader = -1, next = -1;

    (void)dlt_ok(dlt_zk_start_linked(&server, 3, NULL), "three servers start%s", server.why);
    leader = dlt_zk_leader_wait(&server);
    (void)dlt_ok(leader >= 0, "one of them leads");
    says(dlt_zk_ask(&server, "create /kept 1"), "/kept", "a node");
    dlt_zk_kill(&server, (unsigned)leader);
    next = dlt_zk_leader_wait(&server);
    (void)dlt_ok(next >= 0 && next != leader, "when the leader is killed, another one leads");
    says(dlt_zk_ask(&server, "set /kept 2"), "", "and they go on");
    (void)dlt_ok(dlt_zk_again(&server, (unsigned)leader), "it comes back%s", server.why);
    follower_cut_off((unsigned)leader);
    next = dlt_zk_leader_wait(&server);
    dlt_zk_pause(&server, (unsigned)next, true);
    leader = dlt_zk_leader_wait(&server);
    (void)dlt_ok(leader >= 0 && leader != next, "when the leader is paused, another one leads");
    says(dlt_zk_ask(&server, "get /kept"), "2", "with the data");
    (void)dlt_ok(dlt_zk_settled(&server) && dlt_zk_has_quorum(&server),
                 "two of three are a quorum");
    dlt_zk_kill(&server, (unsigned)leader);
    (void)dlt_ok(!dlt_zk_has_quorum(&server), "one is not");
    dlt_zk_stop(&server);
}

int main(void)
{
    one_server();
    three_servers();
    return dlt_done();
}
