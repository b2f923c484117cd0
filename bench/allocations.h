/* SPDX-License-Identifier: MIT */
/*
 * allocations.h - how often this process allocated memory, all its libraries included. The program
 * has malloc and its kin of its own for that, which count and call the C library's.
 */
#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

#include <stdint.h>

/* Before SQLite is used: what it allocates is not counted from here on. How often it does is its
 * own affair, and depends on how it was built. */
void bench_allocations_without_sqlite(void);

/* Negative: not known, in a build with a sanitizer, which has its own malloc. */
int64_t bench_allocations(void);

#endif
