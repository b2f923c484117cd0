/* SPDX-License-Identifier: MIT */
#include "caps.h"

#include <dlock/dlock.h>
#include <stdio.h>

static const struct {
    uint64_t bit;
    const char *name;
} words[] = {
    {DLOCK_CAP_RWLOCK, "rwlock"},
    {DLOCK_CAP_DOWNGRADE, "downgrade"},
    {DLOCK_CAP_FENCE, "fence"},
    {DLOCK_CAP_FENCE_DURABLE, "fence-durable"},
    {DLOCK_CAP_CRASH_SAFE, "crash-safe"},
    {DLOCK_CAP_NATIVE_WAIT, "native-wait"},
    {DLOCK_CAP_WATCH, "watch"},
    {DLOCK_CAP_QUEUE, "queue"},
    {DLOCK_CAP_SESSION, "session"},
    {DLOCK_CAP_CONCURRENT, "concurrent"},
    {DLOCK_CAP_PRIVATE, "private"},
    {DLOCK_CAP_TETHERED, "tethered"},
    {DLOCK_CAP_LIMIT, "limit"},
    {DLOCK_CAP_KEEP, "keep"},
    {DLOCK_CAP_DATA, "data"},
    {DLOCK_CAP_FAILOVER_SAFE, "failover-safe"},
};

#define WORDS_COUNT (sizeof words / sizeof words[0])

#define CAP_COUNT(name) +1
_Static_assert(WORDS_COUNT == 0 DLOCK_CAP_MAP(CAP_COUNT), "a capability has no word");
#undef CAP_COUNT

json_t *caps_json(uint64_t caps)
{
    json_t *names = json_array();

    for (size_t i = 0; i < WORDS_COUNT; i++)
        if ((caps & words[i].bit) != 0)
            (void)json_array_append_new(names, json_string(words[i].name));
    return names;
}

void caps_print(uint64_t caps)
{
    for (size_t i = 0; i < WORDS_COUNT; i++)
        if ((caps & words[i].bit) != 0)
            (void)printf(" %s", words[i].name);
}
