/* SPDX-License-Identifier: MIT */
/*
 * elf_check.h - is a shared object all there?
 *
 * The dynamic linker maps the segments that the program headers name without looking at the length
 * of the file, and the process dies of SIGBUS at the first page that is missing. A copy that was
 * cut short must be an error message instead.
 */
#ifndef DL_ELF_CHECK_H
#define DL_ELF_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* False: a segment lies beyond the end of the file, or it cannot be read; `why` says so. True also
 * for what is no ELF file of this machine: the dynamic linker has words for that. */
bool dl_elf_complete(const char *path, char *why, size_t why_size);

#endif
