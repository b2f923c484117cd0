/* SPDX-License-Identifier: MIT */
#include "load/loader.h"
#include "sys/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <ltdl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ == 8
#define CLASS_NATIVE ELFCLASS64
#else
#define CLASS_NATIVE ELFCLASS32
#endif

/* False with errno 0: the file ends before. */
static bool read_at(int fd, void *buf, size_t len, uint64_t offset)
{
    ssize_t got = -1;

    errno = 0;
    if (offset > INT64_MAX)
        return false;
    do {
        errno = 0;
        got = pread(fd, buf, len, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)len;
}

static bool header_native(const ElfW(Ehdr) * header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == CLASS_NATIVE && header->e_phentsize == sizeof(ElfW(Phdr));
}

/* The end of the last segment that is loaded; UINT64_MAX: the program headers are not there. */
static uint64_t segments_end(int fd, const ElfW(Ehdr) * header)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        uint64_t here = 0;

        if (!read_at(fd, &segment, sizeof segment, header->e_phoff + i * sizeof segment))
            return UINT64_MAX;
        if (segment.p_type != PT_LOAD)
            continue;
        if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &here))
            return UINT64_MAX;
        end = here > end ? here : end;
    }
    return end;
}

bool dl_loader_file_complete(const char *path, char *why, size_t why_size)
{
    ElfW(Ehdr) header;
    struct stat st = {0};
    bool complete = false;
    int fd;

    errno = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        if (read_at(fd, &header, sizeof header, 0) && header_native(&header))
            complete = segments_end(fd, &header) <= (uint64_t)st.st_size;
        else
            complete = errno == 0;
    }
    if (!complete && errno != 0)
        (void)snprintf(why, why_size, "cannot read it: %s", strerrordesc_np(errno));
    else if (!complete)
        (void)snprintf(why, why_size,
                       "the file is truncated: a segment ends beyond its %lld "
                       "bytes",
                       (long long)st.st_size);
    if (fd >= 0)
        (void)close(fd);
    return complete;
}

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

    if (!dl_loader_file_complete(path, request.cause, sizeof request.cause))
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
