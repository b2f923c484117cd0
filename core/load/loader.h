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

/*
 * path: absolute, without symbolic links. *out is what the entry function returned, which may be
 * NULL. PLUGIN_LOAD: "..., but it will not load: <the dynamic linker's own words>". PLUGIN_ABI: it
 * has no entry function.
 */
enum dlock_status dl_loader_open(const char *path, const struct dlock_plugin **out,
                                 struct dlock_error *err);

#endif
