/* SPDX-License-Identifier: MIT */
/* The functions of tls.h call the functions of the module (tls_module.h). */
#include "net/tls_module.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* NULL: not loaded. Set before the first struct tls exists. */
static _Atomic(const struct tls_functions *) module;

static bool module_bad(const char *path, const char *what, char *why, size_t why_size)
{
    (void)snprintf(why, why_size, "TLS: %s: %s", path, what);
    return false;
}

/* Beside the shared object of this code, with the same owner. The loader of plugins has refused
 * directories that others may write. */
static bool path_find(char path[PATH_MAX], char *why, size_t why_size)
{
    static const char here = 0;
    Dl_info info;
    struct stat st, own;
    const char *slash = NULL;

    if (dladdr(&here, &info) != 0)
        slash = strrchr(info.dli_fname, '/');
    if (slash == NULL || snprintf(path, PATH_MAX, "%.*s%s", (int)(slash + 1 - info.dli_fname),
                                  info.dli_fname, TLS_MODULE_FILE) >= PATH_MAX)
        return module_bad(TLS_MODULE_FILE, "no path to it", why, why_size);
    if (stat(path, &st) != 0) {
        (void)snprintf(why, why_size, "TLS: %s is not in %.*s", TLS_MODULE_FILE,
                       (int)(slash - info.dli_fname), info.dli_fname);
        return false;
    }
    if (stat(info.dli_fname, &own) != 0 || st.st_uid != own.st_uid)
        return module_bad(path, "not of the owner of the plugin", why, why_size);
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return module_bad(path, "others may write it", why, why_size);
    return true;
}

static const struct tls_functions *module_load(char *why, size_t why_size)
{
    char path[PATH_MAX];
    const struct tls_functions *functions = NULL;
    tls_module_entry *entry = NULL;
    void *handle = NULL;

    if (!path_find(path, why, why_size))
        return NULL;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != NULL)
        *(void **)&entry = dlsym(handle, TLS_MODULE_ENTRY);
    if (entry == NULL) {
        (void)snprintf(why, why_size, "TLS: %s", dlerror());
        return NULL;
    }
    functions = entry();
    if (strcmp(functions->version, DLOCK_VERSION) == 0 &&
        functions->stream_size == sizeof(struct stream))
        return functions;
    (void)module_bad(path, "of another version of dlock", why, why_size);
    return NULL;
}

struct tls *tls_new(const struct tls_options *options, enum dlock_status *status, char *why,
                    size_t why_size)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const struct tls_functions *functions = NULL;

    (void)pthread_mutex_lock(&mutex);
    functions = atomic_load(&module);
    if (functions == NULL) {
        functions = module_load(why, why_size);
        atomic_store(&module, functions);
    }
    (void)pthread_mutex_unlock(&mutex);
    if (functions != NULL)
        return functions->make(options, status, why, why_size);
    *status = DLOCK_PLUGIN_LOAD;
    return NULL;
}

void tls_free(struct tls *tls)
{
    if (tls != NULL)
        atomic_load(&module)->free(tls);
}

enum stream_result tls_begin(struct stream *stream, const struct tls *tls, const char *name)
{
    return atomic_load(&module)->begin(stream, tls, name);
}

enum stream_result tls_step(struct stream *stream, const struct tls *tls, const char *name,
                            short *events)
{
    return atomic_load(&module)->step(stream, tls, name, events);
}

enum stream_result tls_try_send(struct stream *stream, const void *bytes, size_t len,
                                struct stream_step *step)
{
    return atomic_load(&module)->try_send(stream, bytes, len, step);
}

enum stream_result tls_try_receive(struct stream *stream, void *bytes, size_t size,
                                   struct stream_step *step)
{
    return atomic_load(&module)->try_receive(stream, bytes, size, step);
}

bool tls_idle(struct stream *stream)
{
    return atomic_load(&module)->idle(stream);
}

void tls_moved(struct stream *stream)
{
    atomic_load(&module)->moved(stream);
}

void tls_end(struct stream *stream)
{
    if (stream->ssl != NULL)
        atomic_load(&module)->end(stream);
}
