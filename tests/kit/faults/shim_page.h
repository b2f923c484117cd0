/* SPDX-License-Identifier: MIT */
/* shim_page.h - a small file shared between a test and a preloaded shim. */
#ifndef DLT_SHIM_PAGE_H
#define DLT_SHIM_PAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Maps `size` bytes of the file for reading and writing. create: makes it, zeroed, where there is
 * none. NULL: errno. By system calls alone, so that a shim may use it while it stands in for them.
 */
void *dlt_page_map(const char *path, size_t size, bool create);
void dlt_page_unmap(void *page, size_t size);

/* name=path, and shim in front of what LD_PRELOAD holds. False: errno. */
bool dlt_page_preload(const char *name, const char *path, const char *shim);

#endif
