/* SPDX-License-Identifier: MIT */
/*
 * plugin_path.h - the directories of plugin files, and whether a file can be trusted.
 *
 * If the caller gave directories, only these count. Otherwise the directories of DLOCK_PLUGIN_PATH
 * come first, then the compiled-in one, which is "dlock" beside libdlock.so. All are absolute. In a
 * library with plugins that are linked (registry.h), these take the place of the compiled-in one.
 * docs/adr/0002-plugin-directory.md has the reasons.
 */
#ifndef DL_PLUGIN_PATH_H
#define DL_PLUGIN_PATH_H

#include <dlock/types.h>
#include <stdbool.h>

struct dl_plugin_path {
    char *text;   /* "a:b", for messages */
    char **dirs;  /* NULL-terminated */
    bool builtin; /* plugins that are linked come after the directories */
};

/* dirs: NULL, or absolute and ':'-separated. INVALID names the entry at fault. *out is for
 * dl_plugin_path_fini in either case. */
enum dlock_status dl_plugin_path_init(const char *dirs, struct dl_plugin_path *out,
                                      struct dlock_error *err);
void dl_plugin_path_fini(struct dl_plugin_path *path);

/*
 * The file of a module: *file is "<dir>/dlock_<module>.so" of the first directory that has one,
 * without symbolic links. Caller frees it. NO_PLUGIN: no directory has one. PLUGIN_LOAD: it is
 * there, but cannot be looked at or is not to be trusted.
 */
enum dlock_status dl_plugin_path_find(const struct dl_plugin_path *path, const char *module,
                                      char **file, struct dlock_error *err);

/* The same for one candidate. */
enum dlock_status dl_plugin_file_check(const char *candidate, char **file, struct dlock_error *err);

/* True for "dlock_<module>.so". */
bool dl_plugin_file_named(const char *base);

#endif
