/* SPDX-License-Identifier: MIT */
/*
 * elf_check.h - whether the file of a shared object is complete.
 *
 * The dynamic linker maps the segments of the program headers and ignores the length of the file.
 * With a truncated file the process dies of SIGBUS at the first missing page. This check gives an
 * error message instead.
 */
#ifndef DL_ELF_CHECK_H
#define DL_ELF_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* False: a segment lies beyond the end of the file, or the file cannot be read; `why` says so. True
 * also for a file that is no ELF file of this machine: the dynamic linker reports that. */
bool dl_elf_complete(const char *path, char *why, size_t why_size);

#endif
