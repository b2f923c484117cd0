/* SPDX-License-Identifier: MIT */
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(_Atomic uint64_t *) page; /* the generation, or 0 after a fork */
static uint64_t last_generation;         /* copied into children: theirs go on from here */

static void forget_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    _Atomic uint64_t *p = atomic_load(&page);

    fork_mutex = fresh;
    if (p != NULL)
        atomic_store(p, 0);
}

static _Atomic uint64_t *page_make(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return NULL;
    (void)madvise(map, size, MADV_WIPEONFORK);
    /* For kernels that refuse the advice, and so that a child never waits for fork_mutex. */
    if (pthread_atfork(NULL, NULL, forget_in_child) != 0) {
        (void)munmap(map, size);
        return NULL;
    }
    return map;
}

uint64_t dl_fork_generation(void)
{
    _Atomic uint64_t *p;
    uint64_t generation = 0;

    (void)pthread_mutex_lock(&fork_mutex);
    p = atomic_load(&page);
    if (p == NULL) {
        p = page_make();
        atomic_store(&page, p);
    }
    if (p != NULL) {
        generation = atomic_load(p);
        if (generation == 0) {
            generation = ++last_generation;
            atomic_store(p, generation);
        }
    }
    (void)pthread_mutex_unlock(&fork_mutex);
    return generation;
}

int dl_fork_differs(uint64_t generation)
{
    _Atomic uint64_t *p = atomic_load(&page);

    return p == NULL || atomic_load(p) != generation;
}
