/* SPDX-License-Identifier: MIT */
/*
 * SQLite keeps the file locks of a process in tables that a forked child inherits while the kernel
 * does not give it the locks: a connection made by the child would believe in locks that are not
 * there. So the child of a process that opened a store may not open one, until it calls exec.
 */
#include "sqlite.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

struct origin {
    int emptied; /* non-zero: the kernel empties the page in a child, and the pid is not needed */
    pid_t pid;
};

static _Atomic(struct origin *) origin; /* a page of its own */

/* No mutex: a child might inherit it locked. */
enum dlock_status sqlite_origin_init(struct dlock_error *err)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct origin *page = atomic_load(&origin);
    struct origin *none = NULL;

    if (page != NULL)
        return DLOCK_OK;
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a page");
    /* Without this the pid alone tells, which a new pid namespace may repeat. */
    page->emptied = madvise(page, size, MADV_WIPEONFORK) == 0;
    page->pid = getpid();
    if (!atomic_compare_exchange_strong(&origin, &none, page))
        (void)munmap(page, size);
    return DLOCK_OK;
}

int sqlite_origin_left(void)
{
    const struct origin *page = atomic_load(&origin);

    return page != NULL && !page->emptied && page->pid != getpid();
}
