/* SPDX-License-Identifier: MIT */
#include "load/builtin.h"

#include <string.h>

/* DLOCK_BUILTINS: DL_BUILTIN(memory) DL_BUILTIN(sqlite) ..., as cmake/DlockStatic.cmake says. */
#ifdef DLOCK_BUILTINS
#define DL_BUILTIN(name) const struct dlock_plugin *dlock_plugin_##name(void);
DLOCK_BUILTINS
#undef DL_BUILTIN
#define DL_BUILTIN(name) {#name, dlock_plugin_##name},
#else
#define DLOCK_BUILTINS
#endif

const struct dl_builtin dl_builtin_table[] = {DLOCK_BUILTINS{NULL, NULL}};

const struct dl_builtin *dl_builtin_find(const char *module)
{
    const struct dl_builtin *builtin = dl_builtin_table;

    while (builtin->module != NULL && strcmp(builtin->module, module) != 0)
        builtin++;
    return builtin->module != NULL ? builtin : NULL;
}
