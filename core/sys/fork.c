/* SPDX-License-Identifier: MIT */
#include "sys/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* No mutex: a child forked while another thread held it would wait for ever. */
static _Atomic(_Atomic uint64_t *) page; /* the generation, or 0 after a fork */
static _Atomic uint64_t last_generation; /* a child copies it and counts on from there */

static void forget_in_child(void)
{
    _Atomic uint64_t *p = atomic_load(&page);

    if (p != NULL)
        atomic_store(p, 0);
}

/* The page of this process, made by the first thread that asks; NULL: no memory. */
static _Atomic uint64_t *page_get(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    _Atomic uint64_t *p = atomic_load(&page);
    void *map;

    if (p != NULL)
        return p;
    /* Always both: an emulator may accept the advice and do nothing, and a bare clone runs no
     * handler. */
    if (pthread_atfork(NULL, NULL, forget_in_child) != 0)
        return NULL;
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    (void)madvise(map, size, MADV_WIPEONFORK);
    if (!atomic_compare_exchange_strong(&page, &p, map)) {
        (void)munmap(map, size);
        return p;
    }
    return map;
}

uint64_t dl_fork_generation(void)
{
    _Atomic uint64_t *p = page_get();
    uint64_t generation = 0;
    uint64_t next;

    if (p == NULL)
        return 0;
    generation = atomic_load(p);
    if (generation != 0)
        return generation;
    next = atomic_fetch_add(&last_generation, 1) + 1;
    return atomic_compare_exchange_strong(p, &generation, next) ? next : generation;
}

int dl_fork_differs(uint64_t generation)
{
    _Atomic uint64_t *p = atomic_load(&page);

    return p == NULL || atomic_load(p) != generation;
}
