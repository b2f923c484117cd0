/* SPDX-License-Identifier: MIT */
#include "fault_shim.h"
#include "shim_page.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local unsigned fault_exempt;

static struct dlt_fault_page *page; /* set before main, by one thread */

__attribute__((constructor(101))) static void page_open(void)
{
    const char *path = getenv("DLOCK_FAULT_FILE");

    if (path != NULL)
        page = dlt_page_map(path, sizeof *page, false);
}

bool fault_spares(const void *caller)
{
    Dl_info info;

    return page != NULL && page->armed && page->spare[0] != '\0' && dladdr(caller, &info) != 0 &&
           info.dli_fname != NULL && strstr(info.dli_fname, page->spare) != NULL;
}

int fault_meets(enum dlt_fault_kind kind, size_t *len)
{
    uint64_t call, first, most;

    if (page == NULL || !page->armed || !(page->kinds >> kind & 1))
        return 0;
    if (fault_exempt != 0)
        return 0;
    if (page->pid != 0 && page->pid != getpid())
        return 0;
    page->of_kind[kind]++;
    call = ++page->calls;
    first = page->nth;
    most = page->most;
    if (first == 0 || call < first || call - first >= page->times)
        return 0;
    page->hits++;
    if (most == 0)
        return page->error;
    if (len != NULL && *len > most)
        *len = (size_t)most;
    return 0;
}
