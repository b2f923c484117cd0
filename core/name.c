/* SPDX-License-Identifier: MIT */
#include "name.h"
#include "clock.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int name_compare(const void *left, const void *right)
{
    const struct dl_name *a = left, *b = right;

    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->len);
}

static struct dl_name *name_alloc(const struct dl_name *key)
{
    struct dl_name *name = malloc(sizeof *name + key->len);

    if (name == NULL)
        return NULL;
    *name = *key;
    name->bytes = memcpy(name + 1, key->bytes, key->len);
    return name;
}

struct dl_name *dl_name_get(struct dl_names *names, const void *bytes, size_t len)
{
    struct dl_name key = {.refs = 1, .crowded_ns = DL_NEVER, .bytes = bytes, .len = (uint32_t)len};
    struct dl_name *name;
    void *found = tfind(&key, &names->root, name_compare);

    if (found != NULL) {
        name = *(struct dl_name **)found;
        name->refs++;
        return name;
    }
    name = name_alloc(&key);
    if (name != NULL && tsearch(name, &names->root, name_compare) == NULL) {
        free(name);
        return NULL;
    }
    return name;
}

void dl_name_drop(struct dl_names *names, struct dl_name *name)
{
    if (--name->refs > 0)
        return;
    (void)tdelete(name, &names->root, name_compare);
    free(name);
}

void dl_name_drop_forked(struct dl_name *name)
{
    if (--name->refs == 0)
        free(name);
}

void dl_name_note_waiters(struct dl_name *name, uint32_t waiters, unsigned own, int64_t now_ns)
{
    if (waiters == UINT32_MAX)
        return;
    if (waiters <= own)
        name->crowded_ns = DL_NEVER;
    else if (name->crowded_ns == DL_NEVER)
        name->crowded_ns = now_ns;
}

bool dl_name_held_against(const struct dl_name *name, enum dlock_mode mode)
{
    return name->writers > 0 || (mode == DLOCK_EXCLUSIVE && name->readers > 0);
}
