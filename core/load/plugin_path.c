/* SPDX-License-Identifier: MIT */
#include "load/plugin_path.h"
#include "lib/text.h"

#include "load/uri.h"
#include "sys/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_PREFIX "dlock_"
#define FILE_SUFFIX ".so"

bool dl_plugin_file_named(const char *base)
{
    size_t len = strlen(base), fixed = strlen(FILE_PREFIX FILE_SUFFIX);

    return len > fixed && strncmp(base, FILE_PREFIX, strlen(FILE_PREFIX)) == 0 &&
           strcmp(base + len - strlen(FILE_SUFFIX), FILE_SUFFIX) == 0 &&
           dl_uri_scheme_valid(base + strlen(FILE_PREFIX), len - fixed);
}

/* ---- directories ---- */

/* The file that this code was loaded from. A program has no name among the loaded objects, and
 * argv[0] is what its caller says. */
static const char *own_file(void)
{
    static const char anchor; /* an address inside this library */
    struct link_map *own = NULL;
    Dl_info info;

    if (dladdr1(&anchor, &info, (void **)&own, RTLD_DL_LINKMAP) == 0 || own == NULL ||
        own->l_name == NULL || own->l_name[0] == '\0')
        return "/proc/self/exe";
    return own->l_name;
}

/* The compiled-in directory. Caller frees; NULL: there is none, or errno is ENOMEM. */
static char *own_directory(void)
{
    char *dir = NULL;
#ifdef DLOCK_PLUGIN_DIR
    dir = strdup(DLOCK_PLUGIN_DIR);
#elif !defined DLOCK_BUILTINS
    char *file = realpath(own_file(), NULL);

    if (file != NULL && asprintf(&dir, "%s/dlock", dirname(file)) < 0)
        dir = NULL;
    free(file);
#endif
    return dir;
}

static enum dlock_status out_of_memory(struct dlock_error *err)
{
    (void)dl_error(err, DLOCK_NOMEM, "no memory for the plugin directories");
    return DLOCK_NOMEM;
}

/* path->text from what applies. *what names its source, for messages. */
static enum dlock_status text_choose(const char *dirs, const char **what,
                                     struct dl_plugin_path *path, struct dlock_error *err)
{
    const char *from_environment = secure_getenv("DLOCK_PLUGIN_PATH");
    char *own = NULL;
    int rc = 0;

    *what = "plugin_dirs";
    if (dirs != NULL) {
        path->text = strdup(dirs);
        return path->text != NULL ? DLOCK_OK : out_of_memory(err);
    }
    *what = "DLOCK_PLUGIN_PATH";
    path->builtin = true;
    if (from_environment != NULL && from_environment[0] == '\0')
        from_environment = NULL;
    errno = 0;
    own = own_directory();
    if (own == NULL && errno == ENOMEM)
        return out_of_memory(err);
    rc = asprintf(&path->text, "%s%s%s", from_environment != NULL ? from_environment : "",
                  from_environment != NULL && own != NULL ? ":" : "", own != NULL ? own : "");
    free(own);
    if (rc >= 0)
        return DLOCK_OK;
    path->text = NULL;
    return out_of_memory(err);
}

static enum dlock_status dirs_split(const char *what, struct dl_plugin_path *path,
                                    struct dlock_error *err)
{
    char escaped[120];
    size_t slots = 2, count = 0;
    const char *at = path->text;
    bool none = path->builtin && at[0] == '\0';

    for (const char *c = at; *c != '\0'; c++)
        slots += *c == ':';
    path->dirs = calloc(slots, sizeof *path->dirs);
    if (path->dirs == NULL)
        return out_of_memory(err);
    while (!none) {
        size_t len = strcspn(at, ":");

        if (len == 0 || at[0] != '/')
            return dl_error(err, DLOCK_INVALID, "%s: '%s' is not an absolute directory", what,
                            dl_printable_escape(escaped, sizeof escaped, at, len));
        path->dirs[count] = strndup(at, len);
        if (path->dirs[count++] == NULL)
            return out_of_memory(err);
        if (at[len] == '\0')
            return DLOCK_OK;
        at += len + 1;
    }
    return DLOCK_OK;
}

enum dlock_status dl_plugin_path_init(const char *dirs, struct dl_plugin_path *out,
                                      struct dlock_error *err)
{
    const char *what = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    *out = (struct dl_plugin_path){0};
    status = text_choose(dirs, &what, out, err);
    return status == DLOCK_OK ? dirs_split(what, out, err) : status;
}

void dl_plugin_path_fini(struct dl_plugin_path *path)
{
    for (size_t i = 0; path->dirs != NULL && path->dirs[i] != NULL; i++)
        free(path->dirs[i]);
    free(path->dirs);
    free(path->text);
    *path = (struct dl_plugin_path){0};
}

/* ---- files ---- */

__attribute__((format(printf, 3, 4))) static enum dlock_status
unusable(struct dlock_error *err, const char *candidate, const char *format, ...)
{
    char why[160];
    const char *base = strrchr(candidate, '/');
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    /* The reason before the directory: the text has an end. */
    return dl_error(err, DLOCK_PLUGIN_LOAD, "found %.48s, but %s (in %.*s)",
                    base != NULL ? base + 1 : candidate, why,
                    base != NULL ? (int)(base - candidate) : 0, candidate);
}

/* The owner of libdlock.so, or of the program that it is linked into, decides what this process
 * runs, and so may own plugins. A relative path may name another file since the program changed its
 * directory: nobody is trusted for it. */
static bool owner_trusted(uid_t owner)
{
    const char *file = own_file();
    struct stat own;

    return owner == 0 || owner == geteuid() ||
           (file[0] == '/' && stat(file, &own) == 0 && own.st_uid == owner);
}

static enum dlock_status owner_check(const char *candidate, const char *noun, const struct stat *st,
                                     struct dlock_error *err)
{
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return unusable(err, candidate, "its %s may be written by %s (mode %04o)", noun,
                        (st->st_mode & S_IWOTH) != 0 ? "anybody" : "its group",
                        st->st_mode & 07777u);
    if (!owner_trusted(st->st_uid))
        return unusable(err, candidate, "its %s belongs to uid %u, not to root or to uid %u", noun,
                        st->st_uid, geteuid());
    return DLOCK_OK;
}

/* real: without symbolic links. */
static enum dlock_status file_trusted(const char *candidate, const char *real,
                                      struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    struct stat st;
    char *copy = NULL;
    int rc = 0;

    if (stat(real, &st) != 0)
        return unusable(err, candidate, "%s", strerrordesc_np(errno));
    if (!S_ISREG(st.st_mode))
        return unusable(err, candidate, "it is not a regular file");
    status = owner_check(candidate, "file", &st, err);
    if (status != DLOCK_OK)
        return status;
    copy = strdup(real);
    if (copy == NULL)
        return out_of_memory(err);
    rc = stat(dirname(copy), &st);
    free(copy);
    if (rc != 0)
        return unusable(err, candidate, "%s", strerrordesc_np(errno));
    return owner_check(candidate, "directory", &st, err);
}

enum dlock_status dl_plugin_file_check(const char *candidate, char **file, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    char *real = NULL;
    struct stat st;

    if (lstat(candidate, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return dl_error(err, DLOCK_NO_PLUGIN, "not installed: %s", candidate);
        return unusable(err, candidate, "cannot look at it: %s", strerrordesc_np(errno));
    }
    real = realpath(candidate, NULL);
    if (real == NULL)
        return unusable(err, candidate, "it leads nowhere: %s", strerrordesc_np(errno));
    status = file_trusted(candidate, real, err);
    if (status == DLOCK_OK)
        *file = real;
    else
        free(real);
    return status;
}

enum dlock_status dl_plugin_path_find(const struct dl_plugin_path *path, const char *module,
                                      char **file, struct dlock_error *err)
{
    for (size_t i = 0; path->dirs[i] != NULL; i++) {
        enum dlock_status status = DLOCK_INTERNAL;
        char *candidate = NULL;

        if (asprintf(&candidate, "%s/" FILE_PREFIX "%s" FILE_SUFFIX, path->dirs[i], module) < 0)
            return out_of_memory(err);
        status = dl_plugin_file_check(candidate, file, err);
        free(candidate);
        if (status != DLOCK_NO_PLUGIN)
            return status;
    }
    return dl_error(err, DLOCK_NO_PLUGIN, "no " FILE_PREFIX "%s" FILE_SUFFIX " in %s", module,
                    path->text);
}
