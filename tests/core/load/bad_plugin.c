/* SPDX-License-Identifier: MIT */
/* bad_plugin.c - a plugin that is right except for what -DBAD_... says. PLUGIN_NAME is its name. */
#include <dlock/plugin.h>
#include <stddef.h>
#include <stdlib.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

#ifdef BAD_UNDEFINED_SYMBOL
void dlt_nobody_defines_this(void);
#endif
#ifdef BAD_DEPENDENCY
void dlt_gone(void);
#endif

#ifdef BAD_EVIL
/* Runs as soon as the file is loaded, by whomever. */
__attribute__((constructor)) static void evil_constructor(void)
{
    (void)setenv("DLT_EVIL_WAS_HERE", "1", 1);
}
#endif

static enum dlock_status bad_open(void *self, const struct dlock_host *host,
                                  const struct dlock_target *target, int64_t deadline_ns,
                                  struct dlock_session_info *info, struct dlock_error *err)
{
    (void)self;
    (void)host;
    (void)target;
    (void)deadline_ns;
    (void)info;
    return dlock_fail(err, TEXT(PLUGIN_NAME), DLOCK_UNAVAILABLE, 0, "this plugin has no store");
}

static void bad_close(void *self, bool forked)
{
    (void)self;
    (void)forked;
#ifdef BAD_UNDEFINED_SYMBOL
    dlt_nobody_defines_this();
#endif
#ifdef BAD_DEPENDENCY
    dlt_gone();
#endif
}

static enum dlock_status bad_trylock(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    (void)self;
    (void)req;
    (void)grant;
    return dlock_fail(err, TEXT(PLUGIN_NAME), DLOCK_UNAVAILABLE, 0, "this plugin has no store");
}

static enum dlock_status bad_unlock(void *self, const struct dlock_request *req,
                                    struct dlock_error *err)
{
    (void)self;
    (void)req;
    return dlock_fail(err, TEXT(PLUGIN_NAME), DLOCK_UNAVAILABLE, 0, "this plugin has no store");
}

#ifndef BAD_MISSING_SLOT
static enum dlock_status bad_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                   int64_t deadline_ns, struct dlock_error *err)
{
    (void)self;
    (void)ops;
    (void)n;
    (void)deadline_ns;
    return dlock_fail(err, TEXT(PLUGIN_NAME), DLOCK_UNAVAILABLE, 0, "this plugin has no store");
}
#endif

static enum dlock_status bad_init(const struct dlock_host *host, struct dlock_error *err)
{
    host->log(host->ctx, 2, TEXT(PLUGIN_NAME) " starts");
#ifdef BAD_INIT
    return dlock_fail(err, TEXT(PLUGIN_NAME), DLOCK_UNAVAILABLE, 7, "the driver is not at home");
#else
    (void)err;
    return DLOCK_OK;
#endif
}

#ifndef BAD_OPS_SIZE
#define BAD_OPS_SIZE sizeof(struct dlock_backend_ops)
#endif
#ifndef BAD_PLUGIN_SIZE
#define BAD_PLUGIN_SIZE sizeof(struct dlock_plugin)
#endif
#ifndef BAD_CAPS
#define BAD_CAPS 0
#endif
#ifndef BAD_MAGIC
#define BAD_MAGIC DLOCK_PLUGIN_MAGIC
#endif
#ifndef BAD_ABI
#define BAD_ABI DLOCK_PLUGIN_ABI_MAJOR
#endif
#ifndef BAD_NAME
#define BAD_NAME TEXT(PLUGIN_NAME)
#endif
#ifndef BAD_OPTION
#define BAD_OPTION "colour"
#endif

/* A table of the future has more slots than we know. */
static const struct {
    struct dlock_backend_ops known;
    void (*later)(void);
} table = {
    .known =
        {
            .struct_size = BAD_OPS_SIZE,
            .session_size = 16,
            .open = bad_open,
            .close = bad_close,
            .trylock = bad_trylock,
            .unlock = bad_unlock,
#ifndef BAD_MISSING_SLOT
            .renew = bad_renew,
#endif
#ifdef BAD_SLOT_LEAVE
            .dequeue = bad_unlock,
#endif
#ifdef BAD_SLOT_WATCH
            .watch = bad_trylock,
#endif
        },
    .later = NULL,
};

static const char *const schemes[] = {TEXT(PLUGIN_NAME), TEXT(PLUGIN_NAME) "+unix", NULL};

static const struct dlock_option_spec options[] = {
    {BAD_OPTION, "enum", "red", "red|green", "which colour"},
    {0},
};

static const struct dlock_plugin descriptor = {
    .magic = BAD_MAGIC,
    .abi_major = BAD_ABI,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = BAD_PLUGIN_SIZE,
    .caps = BAD_CAPS,
    .name = BAD_NAME,
    .version = "1",
    .schemes = schemes,
    .options = options,
    .init = bad_init,
    .ops = &table.known,
};

#if defined(BAD_NO_ENTRY)
__attribute__((visibility("default"))) const void *dlt_not_the_entry(void);
const void *dlt_not_the_entry(void)
{
    return &descriptor;
}
#elif defined(BAD_NULL_DESCRIPTOR)
DLOCK_PLUGIN_ENTRY(bad, descriptor.init == NULL ? &descriptor : NULL)
#else
DLOCK_PLUGIN_ENTRY(bad, &descriptor)
#endif
