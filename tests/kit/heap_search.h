/* SPDX-License-Identifier: MIT */
/* heap_search.h - is a text anywhere in the heap, in freed memory, too? */
#ifndef DLT_HEAP_SEARCH_H
#define DLT_HEAP_SEARCH_H

#if !defined(__SANITIZE_ADDRESS__) /* whose heap is elsewhere, and keeps what was freed */
#define DLT_HEAP_SEARCH

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The start of a freed block is overwritten by malloc in any case: search for the end of a text. */
static inline bool dlt_heap_has(const char *text, size_t len)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[256];
    bool found = false;

    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        char *end = NULL;
        uintptr_t from = (uintptr_t)strtoull(line, &end, 16);
        uintptr_t to = (uintptr_t)strtoull(end + 1, NULL, 16);

        if (strstr(line, "[heap]") != NULL)
            found = found || memmem((const void *)from, to - from, text, len) != NULL;
    }
    (void)fclose(maps);
    return found;
}

#endif
#endif
