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

static _Atomic(pid_t *) origin; /* the pid; the kernel zeroes it in a child, where it can */

/* No mutex: a child might inherit it locked. */
enum dlock_status sqlite_origin_init(struct dlock_error *err)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    pid_t *page = atomic_load(&origin);
    pid_t *none = NULL;

    if (page != NULL)
        return DLOCK_OK;
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a page");
    /* Without this the pid alone tells, which a new pid namespace may repeat. */
    (void)madvise(page, size, MADV_WIPEONFORK);
    *page = getpid();
    if (!atomic_compare_exchange_strong(&origin, &none, page))
        (void)munmap(page, size);
    return DLOCK_OK;
}

int sqlite_origin_left(void)
{
    const pid_t *page = atomic_load(&origin);

    return page != NULL && *page != getpid();
}
