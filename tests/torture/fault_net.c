/* SPDX-License-Identifier: MIT */
#include "nemesis.h"

typedef void on_way(struct dlt_proxy *way, struct active *active, int64_t lease_ms);

/* The client's way to one server, or to each. */
static void for_each_way(struct store *store, struct active *active, int64_t lease_ms, on_way *fn)
{
    const struct fault *fault = active->fault;

    for (unsigned node = 0; node < store->backend->nodes; node++)
        if (fault->node == node || fault->node == store->backend->nodes)
            fn(&store->ways[fault->client][node], active, lease_ms);
}

static int64_t both(struct dlt_proxy *way, const char *counter)
{
    char name[2][32];

    (void)snprintf(name[0], sizeof name[0], "c2s.%s", counter);
    (void)snprintf(name[1], sizeof name[1], "s2c.%s", counter);
    return dlt_proxy_count(way, 0, name[0]) + dlt_proxy_count(way, 0, name[1]);
}

static void count(struct dlt_proxy *way, struct active *active, int64_t sign)
{
    active->seen += sign * both(way, "seen");
    active->written += sign * both(way, "frames");
    active->cuts += sign * dlt_proxy_count(way, 0, "cuts");
    active->accepted += sign * dlt_proxy_count(way, 0, "accepted");
}

static const char *direction(uint32_t variant)
{
    static const char *const names[] = {"c2s", "s2c", "both"};

    return names[variant % 3];
}

static void way_begin(struct dlt_proxy *way, struct active *active, int64_t lease_ms)
{
    uint32_t variant = active->fault->variant;
    const char *how = (variant >> 8 & 1) != 0 ? "rst" : "fin";
    static const char *const doors[] = {"refuse", "hang", "pause"};

    count(way, active, -1);
    switch (active->fault->kind) {
    case FAULT_NET_CUT:
        active->effective |= dlt_proxy_count(way, 0, "open") > 0;
        (void)dlt_proxy_tell(way, "kill %s", how);
        break;
    case FAULT_NET_CUT_INSIDE:
        (void)dlt_proxy_tell(way, "cut %s %u %s", variant % 2 != 0 ? "c2s" : "s2c",
                             1 + (variant >> 9) % 60, how);
        break;
    case FAULT_NET_BLACKHOLE:
        (void)dlt_proxy_tell(way, "blackhole %s", direction(variant));
        break;
    case FAULT_NET_DELAY:
        (void)dlt_proxy_tell(way, "delay %s %u", direction(variant),
                             1 + (unsigned)((variant >> 2) % (uint32_t)(lease_ms / 3)));
        break;
    case FAULT_NET_SLICE:
        (void)dlt_proxy_tell(way, "slice both %u 1", 1 + variant % 7);
        break;
    case FAULT_NET_HOLD:
        for (unsigned i = 0; i < 1 + variant % 3; i++)
            (void)dlt_proxy_tell(way, "hold %s +%u", (variant >> 4 & 1) != 0 ? "c2s" : "s2c",
                                 1 + i * 2);
        break;
    default: /* FAULT_NET_REFUSE */
        (void)dlt_proxy_tell(way, "accept %s", doors[variant % 3]);
        (void)dlt_proxy_tell(way, "kill %s", how);
    }
}

static void way_end(struct dlt_proxy *way, struct active *active, int64_t lease_ms)
{
    (void)lease_ms;
    active->held += both(way, "held");
    count(way, active, 1);
    if (active->fault->kind == FAULT_NET_REFUSE)
        (void)dlt_proxy_tell(way, "accept on");
    if (active->fault->kind == FAULT_NET_HOLD)
        (void)dlt_proxy_tell(way, "deliver");
    (void)dlt_proxy_tell(way, "pass");
}

void net_begin(struct store *store, struct active *active, int64_t lease_ms)
{
    for_each_way(store, active, lease_ms, way_begin);
}

void net_end(struct store *store, struct active *active)
{
    for_each_way(store, active, 0, way_end);
    switch (active->fault->kind) {
    case FAULT_NET_CUT_INSIDE:
        active->effective = active->cuts > 0;
        break;
    case FAULT_NET_BLACKHOLE:
        active->effective = active->seen > active->written;
        break;
    case FAULT_NET_DELAY:
    case FAULT_NET_SLICE:
        active->effective = active->written > 0;
        break;
    case FAULT_NET_HOLD:
        active->effective = active->held > 0;
        break;
    case FAULT_NET_REFUSE:
        active->effective = active->accepted == 0;
        break;
    default: /* FAULT_NET_CUT was seen at once */
        break;
    }
}
