/* SPDX-License-Identifier: MIT */
#include "load/registry.h"
#include "load/loader.h"
#include "load/option.h"
#include "load/plugin_path.h"
#include "load/uri.h"
#include "sys/error.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* DLOCK_BUILTINS: DL_BUILTIN(memory) DL_BUILTIN(sqlite) ..., as cmake/DlockStatic.cmake says. */
#ifdef DLOCK_BUILTINS
#define DL_BUILTIN(name) const struct dlock_plugin *dlock_plugin_##name(void);
DLOCK_BUILTINS
#undef DL_BUILTIN
#define DL_BUILTIN(name) {#name, dlock_plugin_##name},
#else
#define DLOCK_BUILTINS
#endif

struct builtin {
    const char *module; /* NULL: the end of the table */
    const struct dlock_plugin *(*entry)(void);
};

static const struct builtin builtin_table[] = {DLOCK_BUILTINS{NULL, NULL}};

/* NULL: no plugin of this name is linked. */
static const struct builtin *builtin_find(const char *module)
{
    const struct builtin *builtin = builtin_table;

    while (builtin->module != NULL && strcmp(builtin->module, module) != 0)
        builtin++;
    return builtin->module != NULL ? builtin : NULL;
}

/* Stands for the directory of the plugins that are linked; directories on disk are absolute. */
#define BUILTIN_DIR "built-in/"

/* A loaded plugin. Never freed. */
struct entry {
    char *file; /* without symbolic links */
    struct dl_plugin plugin;
    bool init_called;
    enum dlock_status init_status;
    struct dlock_error init_error;
    struct entry *next;
};

static struct entry *entries;          /* guarded by registry_mutex */
static pthread_mutex_t registry_mutex; /* recursive: a plugin's init may fork */
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

/* Which module serves a scheme, where that is not the scheme itself, and which we know at all. */
static const struct {
    const char *scheme, *module;
} aliases[] = {
    {"memory", "memory"},
    {"sqlite", "sqlite"},
    {"redis", "redis"},
    {"rediss", "redis"},
    {"valkey", "redis"},
    {"valkeys", "redis"},
    {"redlock", "redlock"},
    {"redlocks", "redlock"},
    {"mysql", "mysql"},
    {"mariadb", "mysql"},
    {"postgresql", "postgresql"},
    {"postgres", "postgresql"},
    {"etcd", "etcd"},
    {"etcds", "etcd"},
    {"zk", "zookeeper"},
    {"zookeeper", "zookeeper"},
};

static void mutex_make(void)
{
    pthread_mutexattr_t attr;

    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&registry_mutex, &attr);
    (void)pthread_mutexattr_destroy(&attr);
}

static void registry_lock(void)
{
    (void)pthread_mutex_lock(&registry_mutex);
}

static void registry_unlock(void)
{
    (void)pthread_mutex_unlock(&registry_mutex);
}

/* A child may open a client of its own, and must not inherit a mutex in another thread's hands. */
static void registry_start(void)
{
    mutex_make();
    (void)pthread_atfork(registry_lock, registry_unlock, mutex_make);
}

/* ---- schemes ---- */

/* Compares the first len bytes of scheme. NULL: not in the table. */
static const char *alias_find(const char *scheme, size_t len)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strlen(aliases[i].scheme) == len && memcmp(aliases[i].scheme, scheme, len) == 0)
            return aliases[i].module;
    return NULL;
}

/* The module for a scheme. True: it is one that we know. */
static bool scheme_module(const char *scheme, char module[DL_SCHEME_MAX + 1])
{
    size_t len = strcspn(scheme, "+");
    const char *known = alias_find(scheme, len);

    if (known != NULL)
        (void)snprintf(module, DL_SCHEME_MAX + 1, "%s", known);
    else
        (void)snprintf(module, DL_SCHEME_MAX + 1, "%.*s", (int)len, scheme);
    return known != NULL;
}

/* ---- loading; registry_mutex is held ---- */

static struct entry *entry_find(const char *file)
{
    struct entry *entry = entries;

    while (entry != NULL && strcmp(entry->file, file) != 0)
        entry = entry->next;
    return entry;
}

/* NULL: a file on disk. */
static const struct builtin *file_builtin(const char *file)
{
    size_t len = strlen(BUILTIN_DIR);

    return strncmp(file, BUILTIN_DIR, len) == 0 ? builtin_find(file + len) : NULL;
}

/* Fills the entry, which has its file. */
static enum dlock_status entry_fill(struct entry *entry, struct dlock_error *err)
{
    const struct builtin *builtin = file_builtin(entry->file);
    const struct dlock_plugin *descriptor = NULL;
    enum dlock_status status = DLOCK_OK;

    if (builtin != NULL)
        descriptor = builtin->entry();
    else
        status = dl_loader_open(entry->file, &descriptor, err);
    if (status == DLOCK_OK)
        status = dl_abi_check(descriptor, strrchr(entry->file, '/') + 1, &entry->plugin, err);
    return status;
}

static enum dlock_status entry_load(const char *file, struct entry **out, struct dlock_error *err)
{
    struct entry *entry = calloc(1, sizeof *entry);
    enum dlock_status status = DLOCK_INTERNAL;

    if (entry == NULL || (entry->file = strdup(file)) == NULL) {
        free(entry);
        (void)dl_error(err, DLOCK_NOMEM, "no memory for a plugin");
        return DLOCK_NOMEM;
    }
    status = entry_fill(entry, err);
    if (status == DLOCK_OK) {
        entry->next = entries;
        entries = entry;
        *out = entry;
    } else {
        free(entry->file);
        free(entry);
    }
    return status;
}

/* module: what the file was looked for as; links may have led to a file of another name. */
static enum dlock_status entry_get(const char *file, const char *module, struct entry **out,
                                   struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    *out = entry_find(file);
    if (*out == NULL)
        status = entry_load(file, out, err);
    if (status != DLOCK_OK || strcmp((*out)->plugin.name, module) == 0)
        return status;
    return dl_error(err, DLOCK_PLUGIN_ABI, "dlock_%s.so: name: expected '%s', got '%s'", module,
                    module, (*out)->plugin.name);
}

/* Once for each plugin, and its answer is remembered. */
static enum dlock_status entry_init(struct entry *entry, const struct dlock_host *host,
                                    struct dlock_error *err)
{
    if (!entry->init_called) {
        entry->init_called = true;
        entry->init_status = DLOCK_OK;
        dl_error_reset(&entry->init_error);
        if (entry->plugin.init != NULL)
            entry->init_status = entry->plugin.init(host, &entry->init_error);
        if (entry->init_status != DLOCK_OK && entry->init_error.message[0] == '\0')
            (void)dl_error(&entry->init_error, entry->init_status,
                           "plugin %s could not start, and gave no reason", entry->plugin.name);
    }
    if (entry->init_status != DLOCK_OK)
        *err = entry->init_error;
    return entry->init_status;
}

static enum dlock_status file_open(const char *file, const char *module,
                                   const struct dlock_host *host, const struct dl_plugin **out,
                                   struct dlock_error *err)
{
    struct entry *entry = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    registry_lock();
    status = entry_get(file, module, &entry, err);
    if (status == DLOCK_OK)
        status = entry_init(entry, host, err);
    registry_unlock();
    if (status == DLOCK_OK)
        *out = &entry->plugin;
    return status;
}

#define HINT_SIZE 120

/* A file that the build system of a plugin has given the name of a library. */
static bool library_hint(const struct dl_plugin_path *path, const char *module, char *hint)
{
    for (size_t i = 0; path->dirs[i] != NULL; i++) {
        char file[PATH_MAX];

        (void)snprintf(file, sizeof file, "%s/libdlock_%s.so", path->dirs[i], module);
        if (access(file, F_OK) != 0)
            continue;
        (void)snprintf(hint, HINT_SIZE, "; libdlock_%s.so is there: a plugin has no 'lib' in front",
                       module);
        return true;
    }
    return false;
}

/* The known scheme that was perhaps meant. */
static void nearest_hint(const char *scheme, char *hint)
{
    struct dlock_option_spec known[sizeof aliases / sizeof aliases[0] + 1] = {{0}};
    const char *nearest = NULL;

    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        known[i].name = aliases[i].scheme;
    dl_option_nearest(known, scheme, &nearest);
    if (nearest != NULL)
        (void)snprintf(hint, HINT_SIZE, "; did you mean '%s'? see `dlock backends`", nearest);
    else
        (void)snprintf(hint, HINT_SIZE, "; see `dlock backends`");
}

/* The Debian package of a plugin of ours. */
static void package_hint(const char *module, char *hint)
{
    if (strcmp(module, "memory") == 0 || strcmp(module, "sqlite") == 0)
        module = NULL; /* they are with the library */
    else if (strcmp(module, "redlock") == 0)
        module = "redis";
    (void)snprintf(hint, HINT_SIZE, "; the Debian package libdlock%s%s has it",
                   module != NULL ? "-" : "0", module != NULL ? module : "");
}

/* "Not installed" is a fault of the installation only for a plugin that we know to exist. */
static enum dlock_status missing(const char *scheme, bool known, const char *module,
                                 const struct dl_plugin_path *path, struct dlock_error *err)
{
    const char *where = path->text[0] != '\0' ? path->text : "no directory, no DLOCK_PLUGIN_PATH";
    char hint[HINT_SIZE] = "";

    if (!library_hint(path, module, hint)) {
        if (known)
            package_hint(module, hint);
        else
            nearest_hint(scheme, hint);
    }
    if (known)
        return dl_error(err, DLOCK_NO_PLUGIN,
                        "scheme '%s' is known, but its plugin dlock_%s.so is not installed%s "
                        "(looked in %s)",
                        scheme, module, hint, where);
    return dl_error(err, DLOCK_INVALID, "unknown scheme '%s'%s (no plugin dlock_%s.so in %s)",
                    scheme, hint, module, where);
}

static enum dlock_status module_find(const struct dl_plugin_path *path, const char *module,
                                     char **file, struct dlock_error *err)
{
    enum dlock_status status = dl_plugin_path_find(path, module, file, err);

    if (status != DLOCK_NO_PLUGIN || !path->builtin || builtin_find(module) == NULL)
        return status;
    dl_error_reset(err);
    if (asprintf(file, BUILTIN_DIR "%s", module) >= 0)
        return DLOCK_OK;
    *file = NULL;
    return dl_error(err, DLOCK_NOMEM, "no memory for a plugin");
}

enum dlock_status dl_registry_find(const char *scheme, const char *plugin_dirs,
                                   const struct dlock_host *host, const struct dl_plugin **out,
                                   struct dlock_error *err)
{
    struct dl_plugin_path path = {0};
    char module[DL_SCHEME_MAX + 1], *file = NULL;
    bool known = false;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_once(&registry_once, registry_start);
    if (!dl_uri_scheme_valid(scheme, strnlen(scheme, DL_SCHEME_MAX + 1)))
        return dl_error(err, DLOCK_INVALID, "a scheme is [a-z][a-z0-9+.-]{0,31}");
    known = scheme_module(scheme, module);
    status = dl_plugin_path_init(plugin_dirs, &path, err);
    if (status == DLOCK_OK) {
        status = module_find(&path, module, &file, err);
        if (status == DLOCK_NO_PLUGIN)
            status = missing(scheme, known, module, &path, err);
    }
    if (status == DLOCK_OK)
        status = file_open(file, module, host, out, err);
    if (status == DLOCK_OK)
        status = dl_abi_serves(*out, scheme, err);
    free(file);
    dl_plugin_path_fini(&path);
    return status;
}

/* ---- listing ---- */

struct found {
    char *path, *module;
    struct dl_plugin plugin;
    enum dlock_status status;
    struct dlock_error err;
};

struct listing {
    struct found *items;
    size_t count;
};

static void listing_fini(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->items[i].path);
        free(listing->items[i].module);
    }
    free(listing->items);
}

/* Where the module was found first; NULL: nowhere yet. */
static const struct found *listing_module(const struct listing *listing, const char *module)
{
    for (size_t i = 0; i < listing->count; i++)
        if (strcmp(listing->items[i].module, module) == 0)
            return &listing->items[i];
    return NULL;
}

/* "libdlock_x.so" without its "lib"; other names as they are. */
static const char *library_name(const char *base)
{
    return strncmp(base, "libdlock_", strlen("libdlock_")) == 0 ? base + strlen("lib") : base;
}

/* Loads and judges the file, unless another one of the same name comes first. */
static void found_load(const struct listing *listing, struct found *item)
{
    const struct found *first = listing_module(listing, item->module);
    const char *base = strrchr(item->path, '/') + 1;
    struct entry *entry = NULL;
    char *file = NULL;

    if (library_name(base) != base) {
        item->status = dl_error(&item->err, DLOCK_PLUGIN_LOAD, "not used: a plugin is called %s",
                                library_name(base));
        return;
    }
    if (first != NULL) {
        item->status =
            dl_error(&item->err, DLOCK_NO_PLUGIN, "not used: %s comes first", first->path);
        return;
    }
    item->status = DLOCK_OK;
    if (file_builtin(item->path) == NULL)
        item->status = dl_plugin_file_check(item->path, &file, &item->err);
    if (item->status != DLOCK_OK)
        return;
    registry_lock();
    item->status = entry_get(file != NULL ? file : item->path, item->module, &entry, &item->err);
    registry_unlock();
    free(file);
    if (item->status == DLOCK_OK)
        item->plugin = entry->plugin;
}

/* Takes path and module, which are NULL if there was no memory for them. */
static enum dlock_status listing_add(struct listing *listing, char *path, char *module)
{
    struct found item = {.path = path, .module = module, .status = DLOCK_INTERNAL};
    struct found *grown = reallocarray(listing->items, listing->count + 1, sizeof *listing->items);

    if (grown != NULL)
        listing->items = grown;
    if (grown == NULL || path == NULL || module == NULL) {
        free(path);
        free(module);
        return DLOCK_NOMEM;
    }
    dl_error_reset(&item.err);
    found_load(listing, &item);
    listing->items[listing->count++] = item;
    return DLOCK_OK;
}

static enum dlock_status listing_add_file(struct listing *listing, const char *dir,
                                          const char *base)
{
    const char *name = library_name(base) + strlen("dlock_");
    char *path = NULL;

    if (asprintf(&path, "%s/%s", dir, base) < 0)
        path = NULL;
    return listing_add(listing, path, strndup(name, strlen(name) - strlen(".so")));
}

static enum dlock_status listing_add_builtins(struct listing *listing, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; status == DLOCK_OK && builtin_table[i].module != NULL; i++) {
        const char *module = builtin_table[i].module;
        char *path = NULL;

        if (asprintf(&path, BUILTIN_DIR "%s", module) < 0)
            path = NULL;
        status = listing_add(listing, path, strdup(module));
    }
    return status == DLOCK_OK ? DLOCK_OK : dl_error(err, status, "no memory to list plugins");
}

static int plugin_file_filter(const struct dirent *file)
{
    return dl_plugin_file_named(library_name(file->d_name));
}

static enum dlock_status listing_add_directory(struct listing *listing, const char *dir,
                                               struct dlock_error *err)
{
    struct dirent **files = NULL;
    int count = scandir(dir, &files, plugin_file_filter, alphasort);
    enum dlock_status status = DLOCK_OK;

    if (count < 0 && (errno == ENOENT || errno == ENOTDIR))
        return DLOCK_OK;
    if (count < 0)
        return dl_error(err, DLOCK_PLUGIN_LOAD, "cannot list %s: %s", dir, strerrordesc_np(errno));
    for (int i = 0; i < count; i++) {
        if (status == DLOCK_OK)
            status = listing_add_file(listing, dir, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    return status == DLOCK_OK ? DLOCK_OK : dl_error(err, status, "no memory to list %s", dir);
}

static void listing_tell(const struct listing *listing, dlock_plugin_fn *fn, void *arg)
{
    for (size_t i = 0; i < listing->count; i++) {
        const struct found *item = &listing->items[i];
        struct dlock_plugin_info info = {.struct_size = sizeof info, .path = item->path};

        if (item->status == DLOCK_OK) {
            info.name = item->plugin.name;
            info.version = item->plugin.version;
            info.schemes = item->plugin.schemes;
            info.caps = item->plugin.caps;
        } else {
            info.err = &item->err;
        }
        if (fn(arg, &info) != 0)
            return;
    }
}

enum dlock_status dl_registry_each(const char *plugin_dirs, dlock_plugin_fn *fn, void *arg,
                                   struct dlock_error *err)
{
    struct dl_plugin_path path = {0};
    struct listing listing = {0};
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_once(&registry_once, registry_start);
    status = dl_plugin_path_init(plugin_dirs, &path, err);
    for (size_t i = 0; status == DLOCK_OK && path.dirs[i] != NULL; i++)
        status = listing_add_directory(&listing, path.dirs[i], err);
    if (status == DLOCK_OK && path.builtin)
        status = listing_add_builtins(&listing, err);
    if (status == DLOCK_OK)
        listing_tell(&listing, fn, arg);
    listing_fini(&listing);
    dl_plugin_path_fini(&path);
    return status;
}
