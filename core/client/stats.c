/* SPDX-License-Identifier: MIT */
#include "client/stats.h"

#include <stdlib.h>
#include <string.h>

#define CLASSES_OWN (DLOCK_STATS_CLASSES - 1)

static const char other_name[] = "other";

/* Up to the first separator; without one the class is empty. */
static size_t class_len(const unsigned char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (name[i] == ':' || name[i] == '/')
            return i;
    return 0;
}

static struct dl_stats_class *class_new(const unsigned char *name, size_t len)
{
    struct dl_stats_class *class = calloc(1, sizeof *class);

    if (class == NULL)
        return NULL;
    class->len = (uint32_t)len;
    memcpy(class->bytes, name, len);
    return class;
}

static struct dl_stats_class *other_use(struct dl_stats *stats)
{
    if (atomic_load(&stats->other_used))
        return &stats->other;
    stats->other.len = sizeof other_name - 1;
    memcpy(stats->other.bytes, other_name, sizeof other_name - 1);
    atomic_store(&stats->other_used, true);
    return &stats->other;
}

struct dl_stats_class *dl_stats_class_locked(struct dl_stats *stats, const unsigned char *name,
                                             size_t len)
{
    size_t n = class_len(name, len);

    if (n > DL_STATS_CLASS_MOST || (n == sizeof other_name - 1 && memcmp(name, other_name, n) == 0))
        return other_use(stats);
    for (unsigned i = 0; i < CLASSES_OWN; i++) {
        struct dl_stats_class *class = atomic_load(&stats->classes[i]);

        if (class == NULL) {
            class = class_new(name, n);
            if (class == NULL)
                break;
            atomic_store(&stats->classes[i], class);
        }
        if (class->len == n && memcmp(class->bytes, name, n) == 0)
            return class;
    }
    return other_use(stats);
}

const struct dl_stats_class *dl_stats_class_at(const struct dl_stats *stats, unsigned i)
{
    const struct dl_stats_class *class = i < CLASSES_OWN ? atomic_load(&stats->classes[i]) : NULL;
    unsigned used = 0;

    if (class != NULL || !atomic_load(&stats->other_used))
        return class;
    while (used < CLASSES_OWN && atomic_load(&stats->classes[used]) != NULL)
        used++;
    return i == used ? &stats->other : NULL;
}

void dl_stats_fini(struct dl_stats *stats)
{
    for (unsigned i = 0; i < CLASSES_OWN; i++)
        free(atomic_load(&stats->classes[i]));
}
