/* SPDX-License-Identifier: MIT */
#include "allocations.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void bench_allocations_without_sqlite(void)
{
}

int64_t bench_allocations(void)
{
    return -1;
}

#else

#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

/* The names of these functions inside glibc. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

EXPORTED void *malloc(size_t size);
EXPORTED void *calloc(size_t count, size_t size);
EXPORTED void *realloc(void *old, size_t size);
EXPORTED void *aligned_alloc(size_t alignment, size_t size);
EXPORTED void *memalign(size_t alignment, size_t size);

static _Atomic int64_t allocations;
static sqlite3_mem_methods of_sqlite;

static void count_one(void)
{
    (void)atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

int64_t bench_allocations(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

/* The allocation was counted before. */
static void *uncounted(void *memory)
{
    if (memory != NULL)
        (void)atomic_fetch_sub_explicit(&allocations, 1, memory_order_relaxed);
    return memory;
}

static void *sqlite_malloc(int size)
{
    return uncounted(of_sqlite.xMalloc(size));
}

static void *sqlite_realloc(void *old, int size)
{
    return uncounted(of_sqlite.xRealloc(old, size));
}

void bench_allocations_without_sqlite(void)
{
    sqlite3_mem_methods methods;

    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &of_sqlite) != SQLITE_OK)
        return;
    methods = of_sqlite;
    methods.xMalloc = sqlite_malloc;
    methods.xRealloc = sqlite_realloc;
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

void *malloc(size_t size)
{
    count_one();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_one();
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    count_one();
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count_one();
    return __libc_memalign(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
    count_one();
    return __libc_memalign(alignment, size);
}

#endif
