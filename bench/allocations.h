/* SPDX-License-Identifier: MIT */
/*
 * allocations.h - the number of allocations of this process, with all its libraries. The program
 * has its own malloc, calloc and realloc, which count and call the C library's.
 */
#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

#include <stdint.h>

/* Call it before SQLite is used: from then on SQLite's allocations are not counted. Their number
 * depends on how SQLite was built. */
void bench_allocations_without_sqlite(void);

/* Negative: unknown, in a build with a sanitizer, which has its own malloc. */
int64_t bench_allocations(void);

#endif
