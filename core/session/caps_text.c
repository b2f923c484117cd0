/* SPDX-License-Identifier: MIT */
#include "session/caps_text.h"

#include <dlock/types.h>
#include <stdio.h>

void dl_caps_text(char *out, size_t size, uint64_t caps)
{
#define CAP_NAME(name) {DLOCK_CAP_##name, #name},
    static const struct {
        uint64_t cap;
        const char *name;
    } names[] = {DLOCK_CAP_MAP(CAP_NAME){0, NULL}};
#undef CAP_NAME
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; names[i].name != NULL && used < size; i++)
        if ((caps & names[i].cap) != 0)
            used += (size_t)snprintf(out + used, size - used, " %s", names[i].name);
}
