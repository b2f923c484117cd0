/* SPDX-License-Identifier: MIT */
/* Tests: core/load/builtin.c core/load/registry.c core/load/plugin_path.c */
/* Does a program that is linked with libdlock_static.a use all stores without loading a file?
 * Linked with that library alone. dlopen is ours: it counts, and passes on. */
#include "tap.h"

#include <dlock/dlock.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int opened; /* calls of dlopen */

void *dlopen(const char *file, int mode)
{
    void *(*next)(const char *, int) = NULL;
    void *symbol = dlsym(RTLD_NEXT, "dlopen");

    opened++;
    memcpy(&next, &symbol, sizeof next);
    return next(file, mode);
}

/* Acquires and releases a lock. */
static enum dlock_status use(const char *uri, const char *dirs, struct dlock_error *err)
{
    const struct dlock_client_options options = {.struct_size = sizeof options,
                                                 .plugin_dirs = dirs};
    struct dlock_client *client = NULL;
    struct dlock *lock = NULL;
    enum dlock_status status = dlock_client_open(uri, &options, &client, err);

    if (status == DLOCK_OK)
        status = dlock_new(client, "job", 3, NULL, &lock, err);
    if (status == DLOCK_OK)
        status = dlock_acquire(lock, DLOCK_EXCLUSIVE, 5000, err);
    if (status == DLOCK_OK)
        status = dlock_unlock(lock, err);
    dlock_free(lock);
    dlock_client_close(client);
    return status;
}

static void expect(const char *uri, const char *dirs, enum dlock_status status, const char *words)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status got = use(uri, dirs, &err);

    if (!dlt_ok(got == status && (words == NULL || strstr(err.message, words) != NULL), "%s: %s %s",
                uri, dlock_status_name(status), words != NULL ? words : ""))
        printf("# got %s \"%s\"\n", dlock_status_name(got), err.message);
}

static int builtin_count(void *arg, const struct dlock_plugin_info *info)
{
    int *count = arg;

    printf("# %s\n", info->path);
    *count += info->err == NULL && strncmp(info->path, "built-in/", 9) == 0 &&
              strcmp(info->path + 9, info->name) == 0;
    return 0;
}

static int listed(const char *dirs)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    int count = 0;

    return dlock_plugins(dirs, builtin_count, &count, &err) == DLOCK_OK ? count : -1;
}

/* Nothing listens on port 1: the plugin itself says so. */
static void servers_test(void)
{
    static const char *const uris[] = {
        "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "redis://127.0.0.1:1",
        "rediss://127.0.0.1:1",
        "mysql://u@127.0.0.1:1/d",
        "postgresql://u@127.0.0.1:1/d",
        "etcd://127.0.0.1:1",
        "zk://127.0.0.1:1",
    };

    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++)
        expect(uris[i], NULL, i == 0 ? DLOCK_NO_QUORUM : DLOCK_UNAVAILABLE, NULL);
}

int main(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;

    (void)unsetenv("DLOCK_PLUGIN_PATH");
    dlt_ok(listed(NULL) == 8, "all plugins are listed as built-in");
    expect("memory://x", NULL, DLOCK_OK, NULL);
    expect("sqlite://" DATABASE, NULL, DLOCK_OK, NULL);
    servers_test();
    dlt_ok(opened == 0, "nothing was loaded: %d calls of dlopen", opened);
    expect("toy://x", NULL, DLOCK_INVALID, "no directory");

    /* Directories that the caller gave count alone; those of the environment come first. */
    dlt_ok(listed(EMPTY_DIR) == 0, "with plugin_dirs no built-in plugin is listed");
    expect("memory://x", EMPTY_DIR, DLOCK_NO_PLUGIN, EMPTY_DIR);
    (void)setenv("DLOCK_PLUGIN_PATH", LOADER_DIR, 1);
    expect("badmagic://x", NULL, DLOCK_PLUGIN_ABI, "magic");
    expect("memory://x", NULL, DLOCK_OK, NULL);
    dlt_ok(opened > 0, "a plugin that is not built-in is loaded from its file");
    (void)setenv("DLOCK_PLUGIN_PATH", EVIL_DIR, 1);
    if (dlock_client_open("sqlite://" DATABASE, NULL, &client, &err) == DLOCK_OK)
        dlock_client_close(client);
    dlt_ok(getenv("DLT_EVIL_WAS_HERE") != NULL, "its file comes before a plugin that is built-in");
    return dlt_done();
}
