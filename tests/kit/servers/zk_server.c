/* SPDX-License-Identifier: MIT */
#include "zk_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define START_TRIES 3
#define JAVA_MAX    32

/* The first jar names the others. With more of them java would choose one of several logs. */
#define JARS "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
#define MAIN "org.apache.zookeeper.server.quorum.QuorumPeerMain"

/* What "super:secret" is to the servers: SHA-1 in base64. */
#define SUPER_DIGEST "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

static bool fail(struct dlt_zk *server, const char *directory, const char *what)
{
    dlt_process_why(server->why, sizeof server->why, directory, what);
    return false;
}

/* ---- configuration ---- */

/* The address of member `to` as member `from` has it. */
static void peer_print(FILE *file, const struct dlt_zk *server, unsigned from, unsigned to)
{
    const struct dlt_zk_member *member = &server->members[to];
    bool far = server->linked && from != to;

    (void)fprintf(file, "server.%u=127.0.0.1:%u:%u\n", to + 1,
                  far ? server->links[from][to].port : member->peer_port, member->election_port);
}

static void config_print(FILE *file, const struct dlt_zk *server, unsigned i)
{
    const struct dlt_zk_member *member = &server->members[i];

    (void)fprintf(file,
                  "tickTime=%d\ninitLimit=50\nsyncLimit=%d\ndataDir=%s/data\n"
                  "clientPortAddress=127.0.0.1\nclientPort=%u\nmaxClientCnxns=0\n"
                  "maxSessionTimeout=60000\nadmin.enableServer=false\n"
                  "4lw.commands.whitelist=*\nforceSync=no\n"
                  "DigestAuthenticationProvider.superDigest=" SUPER_DIGEST "\n",
                  DLT_ZK_TICK_MS, DLT_ZK_SYNC_TICKS, member->directory, member->port);
    for (unsigned to = 0; server->count > 1 && to < server->count; to++)
        peer_print(file, server, i, to);
    for (size_t n = 0; server->lines[n] != NULL; n++)
        if (server->lines[n][0] != '-')
            (void)fprintf(file, "%s\n", server->lines[n]);
}

/* The file of this name in its directory, to be written. */
static FILE *file_open(const struct dlt_zk_member *member, const char *name)
{
    char path[DLT_DIRECTORY_SIZE + 16];

    (void)snprintf(path, sizeof path, "%s/%s", member->directory, name);
    return fopen(path, "we");
}

static bool config_write(const struct dlt_zk *server, unsigned i)
{
    const struct dlt_zk_member *member = &server->members[i];
    char data[DLT_DIRECTORY_SIZE + 8];
    FILE *config = file_open(member, "zoo.cfg"), *id = NULL;
    bool good = false;

    if (config == NULL)
        return false;
    config_print(config, server, i);
    (void)snprintf(data, sizeof data, "%s/data", member->directory);
    (void)mkdir(data, 0700); /* it may be there */
    id = file_open(member, "data/myid");
    if (id != NULL)
        (void)fprintf(id, "%u\n", i + 1);
    good = fclose(config) == 0;
    return id != NULL && fclose(id) == 0 && good;
}

/* ---- processes ---- */

static bool run(struct dlt_zk *server, unsigned i)
{
    struct dlt_zk_member *member = &server->members[i];
    char config[DLT_DIRECTORY_SIZE + 16];
    const char *argv[JAVA_MAX + DLT_ZK_LINES_MAX] = {
        "java",
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        "-Djava.awt.headless=true",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true"};
    size_t count = 0;

    while (argv[count] != NULL)
        count++;
    for (size_t n = 0; server->lines[n] != NULL; n++)
        if (server->lines[n][0] == '-')
            argv[count++] = server->lines[n];
    (void)snprintf(config, sizeof config, "%s/zoo.cfg", member->directory);
    argv[count++] = "-cp";
    argv[count++] = JARS;
    argv[count++] = MAIN;
    argv[count] = config;
    member->paused = false;
    if (!config_write(server, i))
        return fail(server, member->directory, "zoo.cfg");
    member->pid = dlt_process_spawn(member->directory, argv, NULL);
    return member->pid > 0 || fail(server, member->directory, "fork");
}

static bool answers(void *arg)
{
    return dlt_zk_serves(arg);
}

static bool wait(struct dlt_zk *server, unsigned i)
{
    struct dlt_zk_member *member = &server->members[i];

    return dlt_process_wait(&member->pid, answers, member) ||
           fail(server, member->directory, "zookeeper");
}

static bool run_all(struct dlt_zk *server)
{
    bool good = true;

    for (unsigned i = 0; good && i < server->count; i++)
        good = run(server, i);
    for (unsigned i = 0; good && i < server->count; i++)
        good = wait(server, i);
    for (unsigned i = 0; !good && i < server->count; i++)
        dlt_zk_kill(server, i);
    return good;
}

void dlt_zk_kill(struct dlt_zk *server, unsigned member)
{
    dlt_process_kill(&server->members[member].pid);
    server->members[member].paused = false;
}

void dlt_zk_pause(struct dlt_zk *server, unsigned member, bool pause)
{
    dlt_process_pause(server->members[member].pid, pause);
    server->members[member].paused = pause;
}

void dlt_zk_forget(struct dlt_zk *server, unsigned member)
{
    char data[DLT_DIRECTORY_SIZE];

    (void)snprintf(data, sizeof data, "%.58s/data", server->members[member].directory);
    dlt_directory_remove(data);
}

bool dlt_zk_again(struct dlt_zk *server, unsigned member)
{
    return run(server, member) && wait(server, member);
}

bool dlt_zk_again_all(struct dlt_zk *server)
{
    return run_all(server);
}

/* ---- links ---- */

static bool link_start(struct dlt_zk *server, unsigned from, unsigned to)
{
    struct dlt_proxy *link = &server->links[from][to];
    char leader[32];

    (void)snprintf(leader, sizeof leader, "127.0.0.1:%u", server->members[to].peer_port);
    /* A follower may come before its leader listens. It would elect again if it were cut off for
     * that, and its leader would wait for it till the end of initLimit. */
    if (dlt_proxy_start(link, leader, "raw", &(struct dlt_proxy_options){.patience_ms = 500}))
        return true;
    (void)snprintf(server->why, sizeof server->why, "a link: %.200s", link->answer);
    return false;
}

typedef bool on_link(struct dlt_zk *server, unsigned from, unsigned to);

/* For each link of a member in either direction; member == count: for all. */
static bool for_each_link(struct dlt_zk *server, unsigned member, on_link *fn)
{
    bool good = true;

    for (unsigned from = 0; server->linked && from < server->count; from++)
        for (unsigned to = 0; to < server->count; to++)
            if (from != to && (member == from || member == to || member == server->count))
                good &= fn(server, from, to);
    return good;
}

static bool link_stop(struct dlt_zk *server, unsigned from, unsigned to)
{
    return server->links[from][to].pid <= 0 || dlt_proxy_stop(&server->links[from][to]);
}

static bool link_cut(struct dlt_zk *server, unsigned from, unsigned to)
{
    return dlt_proxy_tell(&server->links[from][to], "blackhole both");
}

/* A connection that has lost bytes must not go on. */
static bool link_heal(struct dlt_zk *server, unsigned from, unsigned to)
{
    return dlt_proxy_tell(&server->links[from][to], "kill rst") &&
           dlt_proxy_tell(&server->links[from][to], "pass");
}

bool dlt_zk_cut(struct dlt_zk *server, unsigned member, bool cut)
{
    return server->linked && for_each_link(server, member, cut ? link_cut : link_heal);
}

int64_t dlt_zk_swallowed(struct dlt_zk *server)
{
    int64_t swallowed = 0;

    for (unsigned from = 0; server->linked && from < server->count; from++)
        for (unsigned to = 0; to < server->count; to++)
            if (from != to)
                swallowed += dlt_proxy_count(&server->links[from][to], 0, "c2s.swallowed") +
                             dlt_proxy_count(&server->links[from][to], 0, "s2c.swallowed");
    return swallowed;
}

/* ---- beginning and end ---- */

static bool directories_make(struct dlt_zk *server)
{
    if (!dlt_directory_make(server->directory, "zk"))
        return fail(server, "", "a directory");
    for (unsigned i = 0; i < server->count; i++) {
        struct dlt_zk_member *member = &server->members[i];

        (void)snprintf(member->directory, sizeof member->directory, "%.50s/m%u", server->directory,
                       i + 1);
        if (mkdir(member->directory, 0700) != 0)
            return fail(server, server->directory, member->directory);
    }
    return true;
}

static void ports_choose(struct dlt_zk *server)
{
    size_t used = 0;

    for (unsigned i = 0; i < server->count; i++) {
        struct dlt_zk_member *member = &server->members[i];

        member->port = dlt_port_free();
        member->peer_port = dlt_port_free();
        member->election_port = dlt_port_free();
        (void)snprintf(member->address, sizeof member->address, "127.0.0.1:%u", member->port);
        used += (size_t)snprintf(server->hosts + used, sizeof server->hosts - used, "%s%s",
                                 i > 0 ? "," : "", member->address);
    }
}

static bool start(struct dlt_zk *server, const char *const *lines)
{
    size_t count = 0;

    for (; lines != NULL && lines[count] != NULL; count++) {
        if (count + 1 >= DLT_ZK_LINES_MAX)
            abort();
        server->lines[count] = lines[count];
    }
    if (server->count > DLT_ZK_MEMBERS_MAX)
        abort();
    if (!directories_make(server))
        return false;
    for (int i = 0; i < START_TRIES; i++) {
        ports_choose(server);
        if (for_each_link(server, server->count, link_start) && run_all(server))
            return true;
        (void)for_each_link(server, server->count, link_stop);
        for (unsigned m = 0; m < server->count; m++)
            dlt_zk_forget(server, m);
    }
    return false;
}

bool dlt_zk_start(struct dlt_zk *server, const char *const *lines)
{
    return dlt_zk_start_cluster(server, 1, lines);
}

bool dlt_zk_start_cluster(struct dlt_zk *server, unsigned count, const char *const *lines)
{
    *server = (struct dlt_zk){.count = count};
    return start(server, lines);
}

bool dlt_zk_start_linked(struct dlt_zk *server, unsigned count, const char *const *lines)
{
    *server = (struct dlt_zk){.count = count, .linked = true};
    return start(server, lines);
}

/* DLT_ZK_PORTS: "2181" or "2181,2182,2183". */
bool dlt_zk_borrow(struct dlt_zk *server)
{
    const char *ports = getenv("DLT_ZK_PORTS");
    size_t used = 0;

    if (ports == NULL)
        return dlt_zk_start(server, NULL);
    *server = (struct dlt_zk){.borrowed = true};
    while (*ports != '\0' && server->count < DLT_ZK_MEMBERS_MAX) {
        struct dlt_zk_member *member = &server->members[server->count++];
        char *end = NULL;

        member->port = (unsigned)strtoul(ports, &end, 10);
        (void)snprintf(member->address, sizeof member->address, "127.0.0.1:%u", member->port);
        used += (size_t)snprintf(server->hosts + used, sizeof server->hosts - used, "%s%s",
                                 used > 0 ? "," : "", member->address);
        ports = *end == ',' ? end + 1 : end;
    }
    return true;
}

void dlt_zk_stop(struct dlt_zk *server)
{
    if (server->borrowed)
        return;
    for (unsigned i = 0; i < server->count; i++)
        dlt_zk_kill(server, i);
    (void)for_each_link(server, server->count, link_stop);
    server->linked = false;
    dlt_directory_remove(server->directory);
}
