/* SPDX-License-Identifier: MIT */
#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>

void *shim_real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (found == NULL)
        abort();
    return found;
}
