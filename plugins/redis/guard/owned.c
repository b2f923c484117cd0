/* SPDX-License-Identifier: MIT */
#include "redis/guard/owned.h"
#include "redis/link/slot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void redis_owned_free(struct redis_owned *owned)
{
    free(owned->ranges);
    *owned = (struct redis_owned){.ranges = NULL};
}

/* A number up to this one, and the character after it. */
static bool number_read(const char **at, char after, int64_t most, int64_t *out)
{
    char *end = NULL;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (errno != 0 || *out > most || (after != '\0' ? *end != after : *end != ' ' && *end != '\0'))
        return false;
    *at = after != '\0' ? end + 1 : end;
    return true;
}

static bool range_read(struct redis_owned_range *range, const char **at, int64_t least)
{
    int64_t first = 0, last = 0;

    if (*(*at)++ != ' ' || !number_read(at, '-', REDIS_SLOTS - 1, &first) ||
        !number_read(at, '@', REDIS_SLOTS - 1, &last) ||
        !number_read(at, '\0', INT64_MAX, &range->since_us) || first < least || last < first)
        return false;
    range->first = (uint16_t)first;
    range->last = (uint16_t)last;
    return true;
}

bool redis_owned_read(struct redis_owned *owned, const char *text)
{
    size_t most = 0;
    int64_t least = 0;

    redis_owned_free(owned);
    for (const char *at = text; (at = strchr(at, '@')) != NULL; at++)
        most++;
    if (most == 0)
        return *text == '\0';
    owned->ranges = calloc(most, sizeof owned->ranges[0]);
    while (owned->ranges != NULL && *text != '\0') {
        if (owned->count == most || !range_read(&owned->ranges[owned->count], &text, least)) {
            redis_owned_free(owned);
            return false;
        }
        least = (int64_t)owned->ranges[owned->count++].last + 1;
    }
    return owned->ranges != NULL;
}

int64_t redis_owned_since(const struct redis_owned *owned, unsigned slot)
{
    size_t low = 0, high = owned->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct redis_owned_range *range = &owned->ranges[middle];

        if (slot < range->first)
            high = middle;
        else if (slot > range->last)
            low = middle + 1;
        else
            return range->since_us;
    }
    return -1;
}
