/* SPDX-License-Identifier: MIT */
/*
 * The first call looks up what is behind, before there is a second thread. What dlsym() allocates
 * for itself meanwhile comes from glibc by the names of its own. No earlier memory may: behind may
 * be a sanitizer, which would not know it again.
 */
#include "fault_shim.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static void *(*real_malloc)(size_t size);
static void *(*real_calloc)(size_t count, size_t size);
static void *(*real_realloc)(void *old, size_t size);

/* False: not yet, this call is dlsym()'s own. */
static bool memory_found(void)
{
    static bool looking;

    if (real_realloc != NULL)
        return true;
    if (looking)
        return false;
    looking = true;
    *(void **)(void *)&real_malloc = shim_real("malloc");
    *(void **)(void *)&real_calloc = shim_real("calloc");
    *(void **)(void *)&real_realloc = shim_real("realloc");
    return true;
}

SHIM_EXPORT void *malloc(size_t size)
{
    if (!memory_found())
        return __libc_malloc(size);
    if (!fault_spares(__builtin_return_address(0)))
        FAULT_RETURN(DLT_FAULT_MALLOC, NULL, NULL);
    return real_malloc(size);
}

SHIM_EXPORT void *calloc(size_t count, size_t size)
{
    if (!memory_found())
        return __libc_calloc(count, size);
    if (!fault_spares(__builtin_return_address(0)))
        FAULT_RETURN(DLT_FAULT_CALLOC, NULL, NULL);
    return real_calloc(count, size);
}

SHIM_EXPORT void *realloc(void *old, size_t size)
{
    if (!memory_found())
        return __libc_realloc(old, size);
    if (!fault_spares(__builtin_return_address(0)))
        FAULT_RETURN(DLT_FAULT_REALLOC, NULL, NULL);
    return real_realloc(old, size);
}

SHIM_EXPORT void *reallocarray(void *old, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, count * size);
}

/* That of the C library would allocate in the name of the C library. */
SHIM_EXPORT char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    bool spared = fault_spares(__builtin_return_address(0));
    char *copy = NULL;

    fault_exempt += spared;
    copy = malloc(size);
    fault_exempt -= spared;
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}
