/* SPDX-License-Identifier: MIT */
#include "shim_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *dlt_page_map(const char *path, size_t size, bool create)
{
    int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    void *page = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (!create || syscall(SYS_ftruncate, fd, size) == 0)
        page = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    (void)syscall(SYS_close, fd);
    return page == MAP_FAILED ? NULL : page;
}

void dlt_page_unmap(void *page, size_t size)
{
    if (page != NULL)
        (void)munmap(page, size);
}

/* A shim comes before AddressSanitizer's runtime, which complains unless it is told to be content.
 */
static bool sanitizer_calm(void)
{
#ifdef __SANITIZE_ADDRESS__
    const char *options = getenv("ASAN_OPTIONS");
    char list[1024];

    (void)snprintf(list, sizeof list, "%s:verify_asan_link_order=0",
                   options == NULL ? "" : options);
    return setenv("ASAN_OPTIONS", list, 1) == 0;
#else
    return true;
#endif
}

bool dlt_page_preload(const char *name, const char *path, const char *shim)
{
    const char *others = getenv("LD_PRELOAD");
    char list[4096];
    int len;

    if (setenv(name, path, 1) != 0 || !sanitizer_calm())
        return false;
    if (others != NULL && strstr(others, shim) != NULL)
        return true;
    len = snprintf(list, sizeof list, "%s%s%s", shim, others == NULL ? "" : ":",
                   others == NULL ? "" : others);
    errno = ENAMETOOLONG;
    return len > 0 && len < (int)sizeof list && setenv("LD_PRELOAD", list, 1) == 0;
}
