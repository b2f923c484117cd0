/* SPDX-License-Identifier: MIT */
#include "profile.h"
#include "store_command.h"

#include <string.h>

#define CLIENT_FAULTS (FAULT_BIT(CLIENT_STOP) | FAULT_BIT(CLIENT_KILL) | FAULT_BIT(CLIENT_LEAVE))
#define SLOW_FAULTS                                                             \
    (FAULT_BIT(SERVER_STOP) | FAULT_BIT(NET_BLACKHOLE) | FAULT_BIT(NET_DELAY) | \
     FAULT_BIT(NET_SLICE) | FAULT_BIT(NET_HOLD))
/* Of which the server notices that a connection is gone. */
#define ENDING_FAULTS                                                       \
    (FAULT_BIT(SERVER_KILL) | FAULT_BIT(SERVER_KICK) | FAULT_BIT(NET_CUT) | \
     FAULT_BIT(NET_CUT_INSIDE) | FAULT_BIT(NET_REFUSE))

/* Two at once; told "not yours"; the other one was shown. */
#define TWO_AT_ONCE (RULE_BIT(OVERLAP) | RULE_BIT(TAKEN) | RULE_BIT(DATA))

static const struct profile profiles[] = {
    {.name = "P", .text = "all assumptions hold"},
    {.name = "L",
     .text = "all assumptions hold, and names are semaphores of three",
     .keeps = true,
     .limit = 3},
    {.name = "K", .text = "all assumptions hold, and names are kept", .keeps = true},
    {.name = "D",
     .text = "all assumptions hold, and programs of clients outlive them",
     .programs = true},
    {.name = "F",
     .text = "a master is replaced, and the failover guard is on",
     .breaks = FAULT_BIT(FAILOVER),
     .guarded = true},
    {.name = "C-amnesia",
     .text = "a server forgets its locks when it crashes",
     .breaks = FAULT_BIT(SERVER_KILL),
     .forgets = true,
     .found = TWO_AT_ONCE},
    {.name = "C-stranger",
     .text = "somebody deletes locks in the store",
     .breaks = FAULT_BIT(FORGET),
     .found = TWO_AT_ONCE},
    {.name = "C-clock",
     .text = "the server's clock steps forward",
     .breaks = FAULT_BIT(CLOCK_STEP),
     .clocks = true,
     .found = TWO_AT_ONCE},
    {.name = "C-failover",
     .text = "a master is replaced, and nothing guards the locks that the next one lacks",
     .breaks = FAULT_BIT(FAILOVER),
     .found = TWO_AT_ONCE},
    {.name = "C-sessions",
     .text = "the server ends sessions that hold locks",
     .breaks = ENDING_FAULTS,
     .found = TWO_AT_ONCE},
};

#define PROFILES (sizeof profiles / sizeof profiles[0])

const struct profile *profile_find(const char *name)
{
    for (size_t i = 0; i < PROFILES; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    return NULL;
}

const struct profile *profile_without_rule(unsigned rule)
{
    static struct profile profile;
    const struct profile *failover = profile_find("F");

    if (failover == NULL || rule == 0 || rule > GUARD_RULES || rule == 10 || rule == 11)
        return NULL;
    profile = *failover;
    profile.text = "a master is replaced, and a rule of the failover guard is off";
    profile.found = rule == 8 ? RULE_BIT(FENCE) : TWO_AT_ONCE | RULE_BIT(FENCE);
    return &profile;
}

const char *profile_names(void)
{
    static char names[256];
    size_t used = 0;

    for (size_t i = 0; i < PROFILES && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                                 profiles[i].name);
    return names;
}

/* A server that forgets what it is killed with breaks an assumption: C-amnesia. */
static uint32_t command_faults(const struct backend *backend)
{
    uint32_t faults = 0;

    if (store_command_can_cut())
        faults |=
            (SLOW_FAULTS & ~FAULT_BIT(SERVER_STOP)) |
            (backend->session ? 0
                              : ENDING_FAULTS & ~(FAULT_BIT(SERVER_KILL) | FAULT_BIT(SERVER_KICK)));
    if (store_command_can_pause())
        faults |= FAULT_BIT(SERVER_STOP);
    if (store_command_can_kill() && !backend->forgets && !backend->session)
        faults |= FAULT_BIT(SERVER_KILL);
    return faults;
}

static uint32_t faults_of(const struct backend *backend)
{
    uint32_t faults = CLIENT_FAULTS | FAULT_BIT(CPU_BURST);

    switch (backend->kind) {
    case STORE_MEMORY:
        return FAULT_BIT(CLIENT_STOP) | FAULT_BIT(CPU_BURST);
    case STORE_SQLITE:
        return faults | FAULT_BIT(STORE_BUSY);
    case STORE_REDIS:
        return faults | SLOW_FAULTS | ENDING_FAULTS | FAULT_BIT(SCRIPT_FLUSH);
    case STORE_SENTINEL:
    case STORE_CLUSTER:
        return faults;
    case STORE_MYSQL:
    case STORE_POSTGRESQL:
        return faults | SLOW_FAULTS | (backend->session ? 0 : ENDING_FAULTS);
    case STORE_ETCD: /* no way to end connections of others; a clock of its own */
        return faults | SLOW_FAULTS | (ENDING_FAULTS & ~FAULT_BIT(SERVER_KICK)) |
               (backend->nodes > 1 ? FAULT_BIT(MEMBER_CUT) : 0);
    case STORE_ZOOKEEPER: /* the same; who is cut off may be a follower, or the leader */
        return faults | SLOW_FAULTS | (ENDING_FAULTS & ~FAULT_BIT(SERVER_KICK)) |
               (backend->nodes > 1 ? FAULT_BIT(MEMBER_CUT) | FAULT_BIT(MEMBER_PART) : 0);
    case STORE_COMMAND:
        return faults | command_faults(backend);
    }
    return 0;
}

static bool applies(const struct profile *profile, const struct backend *backend)
{
    if (profile->limit > 1)
        return !backend->session && !backend->majority && backend->kind != STORE_COMMAND;
    if (profile->programs)
        return backend->kind == STORE_SQLITE;
    if (profile->keeps)
        return !backend->session && !backend->majority && backend->kind != STORE_COMMAND &&
               backend->kind != STORE_ZOOKEEPER;
    if (profile->breaks == 0)
        return true;
    if (backend->nodes == 0)
        return false;
    if (backend->kind == STORE_COMMAND)
        return profile->forgets && backend->forgets && store_command_can_kill();
    if (store_fails_over(backend) || profile->breaks == FAULT_BIT(FAILOVER))
        return store_fails_over(backend) && profile->breaks == FAULT_BIT(FAILOVER);
    if (backend->session)
        return profile->breaks == ENDING_FAULTS;
    if (backend->kind == STORE_ETCD || backend->kind == STORE_ZOOKEEPER)
        return profile->breaks == FAULT_BIT(FORGET);
    return profile->breaks != ENDING_FAULTS && (!profile->forgets || backend->kind == STORE_REDIS);
}

uint32_t profile_faults(const struct profile *profile, const struct backend *backend)
{
    return applies(profile, backend) ? faults_of(backend) | profile->breaks : 0;
}

uint32_t profile_often(const struct profile *profile, const struct backend *backend)
{
    if (store_fails_over(backend)) /* a client that begins anew finds the next master */
        return profile->breaks | CLIENT_FAULTS;
    if (profile->programs)
        return FAULT_BIT(CLIENT_KILL);
    if (profile->breaks != 0)
        return profile->breaks;
    return faults_of(backend) &
           (FAULT_BIT(CLIENT_STOP) | FAULT_BIT(NET_BLACKHOLE) | FAULT_BIT(SERVER_STOP) |
            FAULT_BIT(STORE_BUSY) | FAULT_BIT(MEMBER_CUT) | FAULT_BIT(MEMBER_PART));
}
