/* SPDX-License-Identifier: MIT */
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* pthread_once and not a mutex: glibc begins it again in a child that was forked in the middle of
 * it. */
static pthread_once_t page_once = PTHREAD_ONCE_INIT;
static _Atomic(_Atomic uint64_t *) page; /* the generation, or 0 after a fork */
static _Atomic uint64_t last_generation; /* copied into children: theirs go on from here */

static void forget_in_child(void)
{
    _Atomic uint64_t *p = atomic_load(&page);

    if (p != NULL)
        atomic_store(p, 0);
}

static void page_make(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return;
    (void)madvise(map, size, MADV_WIPEONFORK);
    /* For kernels that refuse the advice. */
    if (pthread_atfork(NULL, NULL, forget_in_child) != 0)
        (void)munmap(map, size);
    else
        atomic_store(&page, map);
}

uint64_t dl_fork_generation(void)
{
    _Atomic uint64_t *p;
    uint64_t generation = 0;
    uint64_t fresh;

    (void)pthread_once(&page_once, page_make);
    p = atomic_load(&page);
    if (p == NULL)
        return 0;
    fresh = atomic_load(p) == 0 ? atomic_fetch_add(&last_generation, 1) + 1 : 0;
    if (atomic_compare_exchange_strong(p, &generation, fresh))
        generation = fresh;
    return generation;
}

int dl_fork_differs(uint64_t generation)
{
    _Atomic uint64_t *p = atomic_load(&page);

    return p == NULL || atomic_load(p) != generation;
}
