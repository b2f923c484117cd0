/* SPDX-License-Identifier: MIT */
/*
 * registry.h - from a scheme to a checked plugin.
 *
 * Which module serves a scheme: a table of aliases, else the part before '+', else the scheme
 * itself. Loaded plugins stay for the life of the process. Thread-safe.
 *
 * Plugins can be linked with core: all of DLOCK_PLUGINS in libdlock_static.a, none in libdlock.so.
 * A plugin that is linked needs no file, and is used if no directory of the search path has its
 * file.
 */
#ifndef DL_REGISTRY_H
#define DL_REGISTRY_H

#include "load/abi.h"

#include <dlock/dlock.h>

/*
 * Three different answers when it fails: INVALID "unknown scheme" is for a scheme that no module
 * claims and that we do not know; NO_PLUGIN "known, not installed (looked in ...)"; PLUGIN_LOAD and
 * PLUGIN_ABI "found, but ..." with the true cause.
 */
enum dlock_status dl_registry_find(const char *scheme, const char *plugin_dirs,
                                   const struct dlock_host *host, const struct dl_plugin **out,
                                   struct dlock_error *err);

/* dlock_plugin_list() of dlock.h. */
enum dlock_status dl_registry_each(const char *plugin_dirs, dlock_plugin_fn *fn, void *arg,
                                   struct dlock_error *err);

#endif
