/* SPDX-License-Identifier: MIT */
#include "nemesis.h"

#include <stdarg.h>
#include <stdio.h>

typedef void on_way(struct nemesis *nemesis, struct dlt_proxy *way, struct active *active);

/* The client's way to one server, or to each; or of each client to one. */
static void for_each_way(struct nemesis *nemesis, struct active *active, on_way *fn)
{
    const struct fault *fault = active->fault;
    struct store *store = nemesis->store;

    for (unsigned client = 0; fault->kind == FAULT_MEMBER_CUT && client < store->clients; client++)
        fn(nemesis, &store->ways[client][active->node], active);
    if (fault->kind == FAULT_MEMBER_CUT)
        return;
    for (unsigned node = 0; node < store->backend->nodes; node++)
        if (active->node == node || active->node == store->backend->nodes)
            fn(nemesis, &store->ways[fault->client][node], active);
}

/* A fault that a proxy did not take up would be counted as one that was survived. */
static void complain(struct nemesis *nemesis, const struct dlt_proxy *way, const char *line)
{
    nemesis->disobeyed = true;
    printf("# a proxy, told '%s': %s\n", line, way->answer);
}

__attribute__((format(printf, 3, 4))) static void
tell(struct nemesis *nemesis, struct dlt_proxy *way, const char *format, ...)
{
    char line[128];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (!dlt_proxy_tell(way, "%s", line))
        complain(nemesis, way, line);
}

static int64_t counted(struct nemesis *nemesis, struct dlt_proxy *way, const char *counter)
{
    int64_t count = dlt_proxy_count(way, 0, counter);

    if (count < 0)
        complain(nemesis, way, counter);
    return count;
}

static void count(struct nemesis *nemesis, struct dlt_proxy *way, struct active *active,
                  int64_t sign)
{
    static const char *const of_pipes[] = {[SWALLOWED] = "swallowed",
                                           [DELAYED] = "delayed",
                                           [SLICED] = "sliced",
                                           [WITHHELD] = "withheld"};
    char name[32];

    for (size_t i = 0; i < sizeof of_pipes / sizeof of_pipes[0]; i++) {
        (void)snprintf(name, sizeof name, "c2s.%s", of_pipes[i]);
        active->counts[i] += sign * counted(nemesis, way, name);
        (void)snprintf(name, sizeof name, "s2c.%s", of_pipes[i]);
        active->counts[i] += sign * counted(nemesis, way, name);
    }
    active->counts[CUTS] += sign * counted(nemesis, way, "cuts");
    active->counts[KILLED] += sign * counted(nemesis, way, "killed");
}

static const char *direction(uint32_t variant)
{
    static const char *const names[] = {"c2s", "s2c", "both"};

    return names[variant % 3];
}

static void way_begin(struct nemesis *nemesis, struct dlt_proxy *way, struct active *active)
{
    uint32_t variant = active->fault->variant;
    const char *how = (variant >> 8 & 1) != 0 ? "rst" : "fin";
    static const char *const doors[] = {"refuse", "hang", "pause"};

    count(nemesis, way, active, -1);
    switch (active->fault->kind) {
    case FAULT_NET_CUT:
        tell(nemesis, way, "kill %s", how);
        break;
    case FAULT_NET_CUT_INSIDE:
        tell(nemesis, way, "cut %s %u %s", variant % 2 != 0 ? "c2s" : "s2c",
             1 + (variant >> 9) % 60, how);
        break;
    case FAULT_NET_BLACKHOLE:
        tell(nemesis, way, "blackhole %s", direction(variant));
        break;
    case FAULT_MEMBER_CUT:
        tell(nemesis, way, "blackhole both");
        break;
    case FAULT_NET_DELAY:
        tell(nemesis, way, "delay %s %u", direction(variant),
             1 + (unsigned)((variant >> 2) % (uint32_t)(nemesis->lease_ms / 3)));
        break;
    case FAULT_NET_SLICE:
        tell(nemesis, way, "slice both %u 1", 1 + variant % 7);
        break;
    case FAULT_NET_HOLD:
        for (unsigned i = 0; i < 1 + variant % 3; i++)
            tell(nemesis, way, "hold %s +%u", (variant >> 4 & 1) != 0 ? "c2s" : "s2c", 1 + i * 2);
        break;
    default: /* FAULT_NET_REFUSE */
        tell(nemesis, way, "accept %s", doors[variant % 3]);
        active->counts[ACCEPTED] -= counted(nemesis, way, "accepted");
        tell(nemesis, way, "kill %s", how);
    }
}

/* No connection of TCP goes on when bytes of it were lost. Most protocols have a way to notice it;
 * an event of ZooKeeper has no answer and no number. */
static bool hides_losses(const struct store *store)
{
    return store->backend->kind == STORE_ZOOKEEPER;
}

static void way_end(struct nemesis *nemesis, struct dlt_proxy *way, struct active *active)
{
    count(nemesis, way, active, 1);
    if (active->fault->kind == FAULT_NET_REFUSE) {
        active->counts[ACCEPTED] += counted(nemesis, way, "accepted");
        tell(nemesis, way, "accept on");
    }
    if (active->fault->kind == FAULT_NET_HOLD)
        tell(nemesis, way, "deliver");
    if (hides_losses(nemesis->store) &&
        (active->fault->kind == FAULT_NET_BLACKHOLE || active->fault->kind == FAULT_MEMBER_CUT))
        tell(nemesis, way, "kill rst");
    tell(nemesis, way, "pass");
}

void net_begin(struct nemesis *nemesis, struct active *active)
{
    const struct fault *fault = active->fault;

    if (fault->kind == FAULT_MEMBER_CUT)
        active->node = store_choose_used(nemesis->store, active->node);
    else
        active->node = store_choose_way(nemesis->store, fault->client, fault->node);
    for_each_way(nemesis, active, way_begin);
}

void net_end(struct nemesis *nemesis, struct active *active)
{
    const int64_t *counts = active->counts;

    for_each_way(nemesis, active, way_end);
    switch (active->fault->kind) {
    case FAULT_NET_CUT:
        active->effective = counts[KILLED] > 0;
        break;
    case FAULT_NET_CUT_INSIDE:
        active->effective = counts[CUTS] > 0;
        break;
    case FAULT_NET_BLACKHOLE:
    case FAULT_MEMBER_CUT:
        active->effective = counts[SWALLOWED] > 0;
        break;
    case FAULT_NET_DELAY:
        active->effective = counts[DELAYED] > 0;
        break;
    case FAULT_NET_SLICE:
        active->effective = counts[SLICED] > 0;
        break;
    case FAULT_NET_HOLD:
        active->effective = counts[WITHHELD] > 0;
        break;
    default: /* FAULT_NET_REFUSE: those that were there are gone, and nobody got in */
        active->effective = counts[KILLED] > 0 && counts[ACCEPTED] == 0;
    }
}
