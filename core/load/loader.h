/* SPDX-License-Identifier: MIT */
/*
 * loader.h - a plugin file on disk becomes a descriptor in memory.
 *
 * Only this file uses libltdl, which is not thread-safe: the caller, registry.c, holds its mutex. A
 * loaded plugin stays for the life of the process. plugin_path.c has checked the file before, and
 * abi.c checks the descriptor afterwards.
 */
#ifndef DL_LOADER_H
#define DL_LOADER_H

#include <dlock/plugin.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * path: absolute, without symbolic links. *out is what the entry function returned, which may be
 * NULL. PLUGIN_LOAD: "..., but it will not load: <the dynamic linker's own words>". PLUGIN_ABI: it
 * has no entry function.
 */
enum dlock_status dl_loader_open(const char *path, const struct dlock_plugin **out,
                                 struct dlock_error *err);

/*
 * Whether the file of a shared object is complete. False: a segment lies beyond the end of the
 * file, or the file cannot be read; `why` says so. True also for a file that is no ELF file of this
 * machine: the dynamic linker reports that.
 *
 * The dynamic linker maps the segments of the program headers and ignores the length of the file.
 * With a truncated file the process dies of SIGBUS at the first missing page. For tests.
 */
bool dl_loader_file_complete(const char *path, char *why, size_t why_size);

#endif
