/* SPDX-License-Identifier: MIT */
#include "load/loader.h"

#include "load/elf_check.h"
#include "sys/error.h"

#include <dlfcn.h>
#include <ltdl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * libltdl's own loader binds lazily, so that a module with an undefined symbol is a crash later,
 * and its errors say "file not found" whatever happened. Ours goes in front of it, and claims the
 * one file that dl_loader_open asks for, also when the dynamic linker refuses it: a refusal passed
 * on as such would make libltdl try its own loader next. All other files, which other code of the
 * process may open through libltdl, are left to the loaders behind ours.
 */
struct module {
    void *handle; /* of dlopen; NULL: refused */
};

struct request {
    const char *path;
    struct module *module; /* ours, once it was asked for it */
    char cause[192];       /* why module->handle is NULL */
};

static struct request *current; /* guarded by the caller's mutex, as is all of libltdl */

/* dlerror's text without the path in front of it, which the message has anyway. */
static void cause_take(struct request *request)
{
    const char *text = dlerror();
    size_t len = strlen(request->path);

    if (text == NULL)
        text = "no reason given";
    if (strncmp(text, request->path, len) == 0 && strncmp(text + len, ": ", 2) == 0)
        text += len + 2;
    (void)snprintf(request->cause, sizeof request->cause, "%s", text);
}

static lt_module module_open(lt_user_data data, const char *filename, lt_dladvise advise)
{
    struct module *module = NULL;

    (void)data;
    (void)advise;
    if (current == NULL || filename == NULL || strcmp(filename, current->path) != 0)
        return NULL;
    module = calloc(1, sizeof *module);
    if (module == NULL)
        return NULL;
    module->handle = dlopen(filename, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module->handle == NULL)
        cause_take(current);
    current->module = module;
    return module;
}

/* Never dlclose: driver libraries leave threads and thread-local destructors behind. */
static int module_close(lt_user_data data, lt_module module)
{
    (void)data;
    free(module);
    return 0;
}

static void *module_symbol(lt_user_data data, lt_module module, const char *name)
{
    (void)data;
    return dlsym(((struct module *)module)->handle, name);
}

/* Once. lt_dlinit counts, and the missing lt_dlexit keeps libltdl up when other users leave it. */
static bool loader_ready(void)
{
    static bool ready;
    lt_dlvtable *vtable = NULL;

    if (ready || lt_dlinit() != 0)
        return ready;
    vtable = calloc(1, sizeof *vtable); /* lt_dlexit would free it */
    if (vtable == NULL)
        return false;
    vtable->name = "dlock";
    vtable->module_open = module_open;
    vtable->module_close = module_close;
    vtable->find_sym = module_symbol;
    vtable->priority = LT_DLLOADER_PREPEND;
    ready = lt_dlloader_add(vtable) == 0;
    if (!ready)
        free(vtable);
    return ready;
}

static enum dlock_status refuse(const char *path, const char *cause, struct dlock_error *err)
{
    const char *base = strrchr(path, '/') + 1;

    /* The cause before the directory: the text has an end. */
    return dl_error(err, DLOCK_PLUGIN_LOAD, "found %.48s, but it will not load: %s (in %.*s)", base,
                    cause, (int)(base - 1 - path), path);
}

static enum dlock_status entry_call(lt_dlhandle handle, const char *path,
                                    const struct dlock_plugin **out, struct dlock_error *err)
{
    const struct dlock_plugin *(*entry)(void) = NULL;
    void *symbol = lt_dlsym(handle, "dlock_plugin");

    if (symbol == NULL)
        return dl_error(err, DLOCK_PLUGIN_ABI, "%.48s: expected the symbol dlock_plugin, got none",
                        strrchr(path, '/') + 1);
    memcpy(&entry, &symbol, sizeof entry);
    (void)lt_dlmakeresident(handle);
    *out = entry();
    return DLOCK_OK;
}

enum dlock_status dl_loader_open(const char *path, const struct dlock_plugin **out,
                                 struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    struct request request = {.path = path};
    lt_dlhandle handle = NULL;

    if (!dl_elf_complete(path, request.cause, sizeof request.cause))
        return refuse(path, request.cause, err);
    if (!loader_ready())
        return dl_error(err, DLOCK_NOMEM, "libltdl will not start: %s", lt_dlerror());
    current = &request;
    handle = lt_dlopen(path);
    current = NULL;
    if (handle == NULL)
        return refuse(path, lt_dlerror(), err);
    if (request.module == NULL)
        status = refuse(path, "another loader of libltdl has taken it", err);
    else if (request.module->handle == NULL)
        status = refuse(path, request.cause, err);
    else
        status = entry_call(handle, path, out, err);
    if (status != DLOCK_OK)
        (void)lt_dlclose(handle);
    return status;
}
