/* SPDX-License-Identifier: MIT */
#include "fork_guard.h"

#include "os_error.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

struct origin {
    bool emptied; /* in a child, by the kernel, which needs no pid */
    pid_t pid;
};

static _Atomic(struct origin *) origin; /* a page of its own */

/* No mutex: a child might inherit it locked. */
enum dlock_status sqlite_fork_guard_init(struct dlock_error *err)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct origin *page = atomic_load(&origin);
    struct origin *none = NULL;

    if (page != NULL)
        return DLOCK_OK;
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a page");
    /* Without this only the pid tells, and a new pid namespace may repeat a pid. */
    page->emptied = madvise(page, size, MADV_WIPEONFORK) == 0;
    page->pid = getpid();
    if (!atomic_compare_exchange_strong(&origin, &none, page))
        (void)munmap(page, size);
    return DLOCK_OK;
}

bool sqlite_fork_guard_is_child(void)
{
    const struct origin *page = atomic_load(&origin);

    return page != NULL && !page->emptied && page->pid != getpid();
}
