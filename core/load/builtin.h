/* SPDX-License-Identifier: MIT */
/*
 * builtin.h - the plugins that are linked with core: all of DLOCK_PLUGINS in libdlock_static.a,
 * none in libdlock.so.
 *
 * A plugin that is linked needs no file, and none is looked for beside the library.
 */
#ifndef DL_BUILTIN_H
#define DL_BUILTIN_H

#include <dlock/plugin.h>
#include <stdbool.h>

struct dl_builtin {
    const char *module; /* NULL: the end of the table */
    const struct dlock_plugin *(*entry)(void);
};

extern const struct dl_builtin dl_builtin_table[];

/* NULL: no plugin of this name is linked. */
const struct dl_builtin *dl_builtin_find(const char *module);

#endif
