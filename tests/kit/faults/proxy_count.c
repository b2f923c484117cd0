/* SPDX-License-Identifier: MIT */
#include "proxy.h"

#include <stdio.h>
#include <string.h>

static const char *const link_counters[] = {"accepted", "open", "unreachable", "cuts", "killed"};
static const char *const pipe_counters[] = {"seen",   "frames",    "bytes",   "held",   "dropped",
                                            "broken", "swallowed", "delayed", "sliced", "withheld"};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static uint64_t pipe_value(const struct proxy_counts *counts, size_t which)
{
    const uint64_t values[COUNT(pipe_counters)] = {
        counts->seen,   counts->frames,    counts->bytes,   counts->held,   counts->dropped,
        counts->broken, counts->swallowed, counts->delayed, counts->sliced, counts->withheld};

    return values[which];
}

static uint64_t pipe_sum(const struct proxy *proxy, uint64_t number, int dir, size_t which)
{
    uint64_t sum = number == 0 ? pipe_value(&proxy->gone[dir], which) : 0;

    for (const struct proxy_link *link = proxy->links; link != NULL; link = link->next)
        if (number == 0 || number == link->number)
            sum += pipe_value(&link->pipe[dir].counts, which);
    return sum;
}

static uint64_t link_value(const struct proxy *proxy, uint64_t number, size_t which)
{
    uint64_t open = 0;

    for (const struct proxy_link *link = proxy->links; link != NULL; link = link->next)
        open += !link->closed && (number == 0 || number == link->number);
    if (which == 0)
        return number == 0 ? proxy->accepted : number <= proxy->accepted;
    if (which == 1)
        return open;
    if (which == 2)
        return proxy->unreachable;
    return which == 3 ? proxy->cuts : proxy->killed;
}

bool proxy_count(const struct proxy *proxy, uint64_t link, const char *name, uint64_t *out)
{
    int dir = strncmp(name, "s2c.", 4) == 0;

    for (size_t i = 0; i < COUNT(link_counters); i++) {
        if (strcmp(name, link_counters[i]) == 0) {
            *out = link_value(proxy, link, i);
            return true;
        }
    }
    if (!dir && strncmp(name, "c2s.", 4) != 0)
        return false;
    for (size_t i = 0; i < COUNT(pipe_counters); i++) {
        if (strcmp(name + 4, pipe_counters[i]) == 0) {
            *out = pipe_sum(proxy, link, dir, i);
            return true;
        }
    }
    return false;
}

void proxy_count_print(const struct proxy *proxy, uint64_t link, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < COUNT(link_counters) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s=%llu", i == 0 ? "" : " ",
                                 link_counters[i], (unsigned long long)link_value(proxy, link, i));
    for (int dir = 0; dir < 2; dir++)
        for (size_t i = 0; i < COUNT(pipe_counters) && used < size; i++)
            used += (size_t)snprintf(out + used, size - used, " %s.%s=%llu",
                                     dir == PROXY_C2S ? "c2s" : "s2c", pipe_counters[i],
                                     (unsigned long long)pipe_sum(proxy, link, dir, i));
}
