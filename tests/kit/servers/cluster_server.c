/* SPDX-License-Identifier: MIT */
#include "cluster_server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_MS    20
#define WAIT_POLLS 3000 /* a minute */
#define BUS_TRIES  20

static bool fail(struct dlt_cluster *cluster, const char *what)
{
    (void)snprintf(cluster->why, sizeof cluster->why, "%s", what);
    return false;
}

/* ---- starting ---- */

static bool node_start(struct dlt_cluster *cluster, unsigned node, const char *const *args)
{
    const char *all[DLT_REDIS_ARGS_MAX] = {"--cluster-enabled",
                                           "yes",
                                           "--cluster-node-timeout",
                                           "1000", /**/
                                           "--cluster-replica-validity-factor",
                                           "0",
                                           "--repl-diskless-sync-delay",
                                           "0",
                                           "--cluster-port",
                                           cluster->args_text[node],
                                           NULL};

    dlt_args_add(all, DLT_REDIS_ARGS_MAX, args);
    for (int i = 0; i < BUS_TRIES; i++) {
        (void)snprintf(cluster->args_text[node], sizeof cluster->args_text[node], "%u",
                       dlt_port_free());
        if (dlt_redis_start(&cluster->redis[node], all))
            return true;
    }
    return fail(cluster, cluster->redis[node].why);
}

static bool slots_add(struct dlt_cluster *cluster, unsigned node)
{
    unsigned first = node * DLT_CLUSTER_SLOTS / DLT_CLUSTER_MASTERS;
    unsigned after = (node + 1) * DLT_CLUSTER_SLOTS / DLT_CLUSTER_MASTERS;

    return strcmp(dlt_redis_ask(&cluster->redis[node], "CLUSTER ADDSLOTSRANGE %u %u", first,
                                after - 1),
                  "OK") == 0;
}

static bool meet(struct dlt_cluster *cluster, unsigned node)
{
    return strcmp(dlt_redis_ask(&cluster->redis[node], "CLUSTER MEET 127.0.0.1 %u %s",
                                cluster->redis[0].port, cluster->args_text[0]),
                  "OK") == 0;
}

/* The replica has to know its master first. */
static bool replicate(struct dlt_cluster *cluster, unsigned node)
{
    for (int polls = 0; polls < WAIT_POLLS; polls++) {
        if (strcmp(dlt_redis_ask(&cluster->redis[node], "CLUSTER REPLICATE %s",
                                 cluster->ids[node - DLT_CLUSTER_MASTERS]),
                   "OK") == 0)
            return true;
        (void)poll(NULL, 0, POLL_MS);
    }
    return false;
}

static bool is_whole(struct dlt_redis *server)
{
    const char *info = dlt_redis_ask(server, "CLUSTER INFO");
    bool whole = strstr(info, "cluster_state:ok") != NULL &&
                 strstr(info, "cluster_known_nodes:6") != NULL &&
                 strstr(info, "cluster_slots_fail:0") != NULL &&
                 strstr(info, "cluster_slots_pfail:0") != NULL;

    info = whole ? dlt_redis_ask(server, "INFO replication") : "";
    return whole &&
           (strstr(info, "role:master") != NULL || strstr(info, "master_link_status:up") != NULL);
}

bool dlt_cluster_whole_wait(struct dlt_cluster *cluster)
{
    for (int polls = 0; polls < WAIT_POLLS; polls++) {
        unsigned count = 0;

        for (unsigned i = 0; i < DLT_CLUSTER_COUNT; i++)
            count += is_whole(&cluster->redis[i]);
        if (count == DLT_CLUSTER_COUNT)
            return true;
        (void)poll(NULL, 0, POLL_MS);
    }
    return false;
}

bool dlt_cluster_start(struct dlt_cluster *cluster, const char *const *args)
{
    bool good = true;

    *cluster = (struct dlt_cluster){.why = ""};
    for (unsigned i = 0; good && i < DLT_CLUSTER_COUNT; i++) {
        good = node_start(cluster, i, args);
        if (good)
            (void)snprintf(cluster->ids[i], sizeof cluster->ids[i], "%s",
                           dlt_redis_ask(&cluster->redis[i], "CLUSTER MYID"));
        (void)snprintf(cluster->hosts + strlen(cluster->hosts),
                       sizeof cluster->hosts - strlen(cluster->hosts), "%s%s", i > 0 ? "," : "",
                       cluster->redis[i].address);
    }
    for (unsigned i = 0; good && i < DLT_CLUSTER_MASTERS; i++)
        good = slots_add(cluster, i) || fail(cluster, "CLUSTER ADDSLOTSRANGE");
    for (unsigned i = 1; good && i < DLT_CLUSTER_COUNT; i++)
        good = meet(cluster, i) || fail(cluster, "CLUSTER MEET");
    for (unsigned i = DLT_CLUSTER_MASTERS; good && i < DLT_CLUSTER_COUNT; i++)
        good = replicate(cluster, i) || fail(cluster, "CLUSTER REPLICATE");
    return good &&
           (dlt_cluster_whole_wait(cluster) || fail(cluster, "a cluster that is not whole"));
}

void dlt_cluster_stop(struct dlt_cluster *cluster)
{
    for (unsigned i = 0; i < DLT_CLUSTER_COUNT; i++)
        if (cluster->redis[i].directory[0] != '\0')
            dlt_redis_stop(&cluster->redis[i]);
}

/* ---- who is who ---- */

/* The id of the slot's master, as this server says; "": it does not say. */
static void master_id(struct dlt_redis *server, unsigned slot, char id[48])
{
    char *rest = NULL, *words[5] = {NULL};
    bool answers = server->pid > 0 && !server->paused;
    const char *answer = answers ? dlt_redis_ask(server, "CLUSTER SLOTS") : "";
    char *text = strdup(answer);
    unsigned first = 1, last = 0;

    id[0] = '\0';
    /* begin, end, then ip, port, id and (empty) metadata of each server */
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        memmove(words, words + 1, 4 * sizeof words[0]);
        words[4] = line;
        if (words[0] == NULL || strlen(line) != 40)
            continue;
        first = (unsigned)strtoul(words[0], NULL, 10);
        last = (unsigned)strtoul(words[1], NULL, 10);
        if (strchr(words[0], '.') == NULL && strchr(words[2], '.') != NULL &&
            strlen(words[0]) <= 5 && strlen(words[1]) <= 5 && slot >= first && slot <= last) {
            (void)snprintf(id, 48, "%s", line);
            break;
        }
    }
    free(text);
}

int dlt_cluster_master(struct dlt_cluster *cluster, unsigned slot)
{
    unsigned counts[DLT_CLUSTER_COUNT] = {0};

    for (unsigned i = 0; i < DLT_CLUSTER_COUNT; i++) {
        char id[48];

        master_id(&cluster->redis[i], slot, id);
        for (unsigned node = 0; node < DLT_CLUSTER_COUNT; node++)
            counts[node] += strcmp(id, cluster->ids[node]) == 0;
    }
    for (int node = 0; node < DLT_CLUSTER_COUNT; node++)
        if (counts[node] > DLT_CLUSTER_COUNT / 2)
            return node;
    return -1;
}

int dlt_cluster_master_wait(struct dlt_cluster *cluster, unsigned slot, int before)
{
    for (int polls = 0; polls < WAIT_POLLS; polls++) {
        int node = dlt_cluster_master(cluster, slot);

        if (node >= 0 && node != before)
            return node;
        (void)poll(NULL, 0, POLL_MS);
    }
    return -1;
}

/* ---- by hand ---- */

bool dlt_cluster_failover(struct dlt_cluster *cluster, unsigned node, const char *how)
{
    struct dlt_redis *server = &cluster->redis[node];
    const char *answer = *how == '\0' ? dlt_redis_ask(server, "CLUSTER FAILOVER")
                                      : dlt_redis_ask(server, "CLUSTER FAILOVER %s", how);

    return strcmp(answer, "OK") == 0;
}

unsigned dlt_cluster_slot(struct dlt_cluster *cluster, const char *key)
{
    return (unsigned)strtoul(dlt_redis_ask(&cluster->redis[0], "CLUSTER KEYSLOT %s", key), NULL,
                             10);
}

bool dlt_cluster_slot_open(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to)
{
    return strcmp(dlt_redis_ask(&cluster->redis[to], "CLUSTER SETSLOT %u IMPORTING %s", slot,
                                cluster->ids[from]),
                  "OK") == 0 &&
           strcmp(dlt_redis_ask(&cluster->redis[from], "CLUSTER SETSLOT %u MIGRATING %s", slot,
                                cluster->ids[to]),
                  "OK") == 0;
}

bool dlt_cluster_slot_keys(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to)
{
    for (int moved = 0; moved < WAIT_POLLS; moved++) {
        char key[512];
        const char *answer = NULL;

        (void)snprintf(key, sizeof key, "%s",
                       dlt_redis_ask(&cluster->redis[from], "CLUSTER GETKEYSINSLOT %u 1", slot));
        if (key[0] == '\0')
            return true;
        answer = dlt_redis_ask(&cluster->redis[from], "MIGRATE 127.0.0.1 %u %s 0 5000",
                               cluster->redis[to].port, key);
        if (strcmp(answer, "OK") != 0 && strcmp(answer, "NOKEY") != 0)
            return fail(cluster, answer);
    }
    return false;
}

bool dlt_cluster_slot_give(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to)
{
    bool good = true;

    good = strcmp(dlt_redis_ask(&cluster->redis[to], "CLUSTER SETSLOT %u NODE %s", slot,
                                cluster->ids[to]),
                  "OK") == 0;
    return strcmp(dlt_redis_ask(&cluster->redis[from], "CLUSTER SETSLOT %u NODE %s", slot,
                                cluster->ids[to]),
                  "OK") == 0 &&
           good;
}

bool dlt_cluster_slot_stay(struct dlt_cluster *cluster, unsigned slot, unsigned from, unsigned to)
{
    const unsigned nodes[] = {to, from};
    bool good = true;

    for (size_t i = 0; i < 2; i++)
        good = strcmp(dlt_redis_ask(&cluster->redis[nodes[i]], "CLUSTER SETSLOT %u STABLE", slot),
                      "OK") == 0 &&
               good;
    return good;
}
