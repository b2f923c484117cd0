/* SPDX-License-Identifier: MIT */
/*
 * Does the server of the tests of etcd stand still when it is told to, keep its data when it is
 * killed, lose them when it is told to, let in whom it should, and leave nothing behind? Does a
 * cluster go on without its leader? Without that, no test with faults shows anything.
 */
#include "etcd_server.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dlt_etcd server;

static void says(const char *answer, const char *expected, const char *name)
{
    (void)dlt_ok(strcmp(answer, expected) == 0, "%s (%s)", name, answer);
}

static void one_member(void)
{
    char directory[DLT_DIRECTORY_SIZE];

    (void)dlt_ok(dlt_etcd_start(&server, (const char *[]){"--max-txn-ops", "9", NULL}),
                 "one member starts%s", server.why);
    (void)memcpy(directory, server.directory, sizeof directory);
    says(dlt_etcd_ask(&server, "put kept 'the value'"), "OK", "etcdctl reaches it");
    (void)dlt_ok(strstr(dlt_etcd_ask(&server, "lease grant 1"), "granted with TTL(1s)") != NULL,
                 "it grants a lease of a second");
    (void)dlt_ok(dlt_etcd_leader(&server) == 0, "it leads");

    dlt_etcd_pause(&server, 0, true);
    (void)dlt_ok(!dlt_etcd_healthy(&server.members[0]), "a paused one does not answer");
    dlt_etcd_pause(&server, 0, false);
    (void)dlt_ok(dlt_etcd_healthy(&server.members[0]), "it answers again afterwards");

    dlt_etcd_kill(&server, 0);
    (void)dlt_ok(!dlt_etcd_healthy(&server.members[0]), "a killed one does not answer");
    (void)dlt_ok(dlt_etcd_again(&server, 0), "it starts again at once%s", server.why);
    says(dlt_etcd_ask(&server, "get --print-value-only kept"), "the value", "with its data");
    dlt_etcd_kill(&server, 0);
    dlt_etcd_forget(&server, 0);
    (void)dlt_ok(dlt_etcd_again(&server, 0), "it starts again without its data%s", server.why);
    says(dlt_etcd_ask(&server, "get --print-value-only kept"), "", "which are gone");

    dlt_etcd_pause(&server, 0, true);
    dlt_etcd_stop(&server);
    (void)dlt_ok(access(directory, F_OK) != 0, "one that is paused ends, and its directory, too");
}

static void users(void)
{
    (void)dlt_ok(dlt_etcd_start(&server, NULL) && dlt_etcd_auth(&server, "locks/"),
                 "a member has users%s", server.why);
    says(dlt_etcd_ask(&server, "put elsewhere 1"), "OK", "root may do everything");
    server.auth = false;
    says(dlt_etcd_ask(&server, "--user u:secret put locks/a 1"), "OK", "u may put its keys");
    (void)dlt_ok(strstr(dlt_etcd_ask(&server, "--user u:secret put elsewhere 1"),
                        "permission denied") != NULL,
                 "and no others");
    (void)dlt_ok(strstr(dlt_etcd_ask(&server, "put locks/a 1"), "user name is empty") != NULL,
                 "nobody may do anything without a login");
    dlt_etcd_stop(&server);
}

static void certificates(void)
{
    (void)dlt_ok(dlt_etcd_start_tls(&server, "server", true, NULL), "a member has TLS%s",
                 server.why);
    says(dlt_etcd_ask(&server, "put a 1"), "OK", "it knows its client");
    (void)dlt_ok(dlt_etcd_metric(&server, 0, "etcd_server_has_leader") == 1,
                 "its metrics need no certificate");
    dlt_etcd_stop(&server);
}

static void three_members(void)
{
    int leader = -1, next = -1;

    (void)dlt_ok(dlt_etcd_start_cluster(&server, 3, NULL), "three members start%s", server.why);
    leader = dlt_etcd_leader_wait(&server);
    (void)dlt_ok(leader >= 0, "one of them leads");
    (void)dlt_ok(strstr(dlt_etcd_ask(&server, "lease grant 1"), "granted with TTL(1s)") != NULL,
                 "they grant a lease of a second");
    dlt_etcd_kill(&server, (unsigned)leader);
    next = dlt_etcd_leader_wait(&server);
    (void)dlt_ok(next >= 0 && next != leader, "when it is killed, another one leads");
    says(dlt_etcd_ask(&server, "put kept 1"), "OK", "and they go on");
    (void)dlt_ok(dlt_etcd_again(&server, (unsigned)leader), "it comes back%s", server.why);
    dlt_etcd_pause(&server, (unsigned)next, true);
    leader = dlt_etcd_leader_wait(&server);
    (void)dlt_ok(leader >= 0 && leader != next, "when it is paused, another one leads");
    says(dlt_etcd_ask(&server, "get --print-value-only kept"), "1", "with the data");
    dlt_etcd_stop(&server);
}

int main(void)
{
    one_member();
    users();
    certificates();
    three_members();
    return dlt_done();
}
