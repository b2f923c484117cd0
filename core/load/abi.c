/* SPDX-License-Identifier: MIT */
#include "load/abi.h"
#include "lib/printable.h"

#include "load/option.h"
#include "load/settings.h"
#include "load/uri.h"
#include "sys/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SCHEMES_MAX      16
#define TABLE_SIZE_MAX   4096 /* more is not a size but rubbish */
#define SESSION_SIZE_MAX (1024 * 1024)
#define ATTEMPT_SIZE_MAX (64 * 1024)

/* The smallest descriptor and table: those of ABI 2.0, the table up to its last required slot. */
#define PLUGIN_SIZE_MIN (offsetof(struct dlock_plugin, ops) + sizeof(void *))
#define OPS_SIZE_MIN    offsetof(struct dlock_backend_ops, forget)

/* Bits are given out one after the other, so that a bit that is not in the map is seen. */
_Static_assert((DLOCK_CAP_ALL & (DLOCK_CAP_ALL + 1)) == 0, "a gap in DLOCK_CAP_MAP");

typedef void slot_fn(void);

struct check {
    const char *where;
    struct dlock_error *err;
};

__attribute__((format(printf, 2, 3))) static enum dlock_status refuse(const struct check *check,
                                                                      const char *format, ...)
{
    char why[DL_OPTION_WHY + 32];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return dl_error(check->err, DLOCK_PLUGIN_ABI, "%s: %s", check->where, why);
}

static enum dlock_status size_check(const struct check *check, const char *what, uint32_t size,
                                    size_t smallest)
{
    if (size >= smallest && size <= TABLE_SIZE_MAX && size % sizeof(slot_fn *) == 0)
        return DLOCK_OK;
    return refuse(check, "%s struct_size: expected %zu or more in steps of %zu, got %u", what,
                  smallest, sizeof(slot_fn *), size);
}

static enum dlock_status header_check(const struct check *check, const struct dlock_plugin *d)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (d == NULL)
        return refuse(check, "expected a descriptor, got NULL");
    if (d->magic != DLOCK_PLUGIN_MAGIC)
        return refuse(check, "magic: expected 0x%08x, got 0x%08x", DLOCK_PLUGIN_MAGIC, d->magic);
    if (d->abi_major != DLOCK_PLUGIN_ABI_MAJOR)
        return refuse(check, "ABI major: expected %u, got %u (built for another dlock)",
                      DLOCK_PLUGIN_ABI_MAJOR, d->abi_major);
    status = size_check(check, "descriptor", d->struct_size, PLUGIN_SIZE_MIN);
    if (status != DLOCK_OK)
        return status;
    if (d->ops == NULL)
        return refuse(check, "ops: expected a table, got NULL");
    status = size_check(check, "ops", d->ops->struct_size, OPS_SIZE_MIN);
    if (status != DLOCK_OK)
        return status;
    if (d->ops->session_size > SESSION_SIZE_MAX)
        return refuse(check, "ops session_size: expected at most %d, got %u", SESSION_SIZE_MAX,
                      d->ops->session_size);
    if (d->ops->attempt_size > ATTEMPT_SIZE_MAX)
        return refuse(check, "ops attempt_size: expected at most %d, got %u", ATTEMPT_SIZE_MAX,
                      d->ops->attempt_size);
    return DLOCK_OK;
}

static enum dlock_status names_check(const struct check *check, const struct dlock_plugin *d)
{
    char escaped[DL_SCHEME_MAX * 4];
    size_t count = 0;

    if (d->name == NULL || !dl_uri_scheme_valid(d->name, strnlen(d->name, DL_SCHEME_MAX + 1)))
        return refuse(check, "name: expected [a-z][a-z0-9+.-]{0,31}, got %s",
                      d->name == NULL ? "NULL"
                                      : dl_printable_escape(escaped, sizeof escaped, d->name,
                                                            strnlen(d->name, 40)));
    if (d->version == NULL || d->version[0] == '\0')
        return refuse(check, "version: expected a text, got none");
    if (d->schemes == NULL || d->schemes[0] == NULL)
        return refuse(check, "schemes: expected one or more, got none");
    for (; d->schemes[count] != NULL; count++) {
        const char *scheme = d->schemes[count];

        if (count == SCHEMES_MAX)
            return refuse(check, "schemes: expected at most %d, got more", SCHEMES_MAX);
        if (!dl_uri_scheme_valid(scheme, strnlen(scheme, DL_SCHEME_MAX + 1)))
            return refuse(
                check, "schemes: expected [a-z][a-z0-9+.-]{0,31}, got %s",
                dl_printable_escape(escaped, sizeof escaped, scheme, strnlen(scheme, 40)));
    }
    return DLOCK_OK;
}

static enum dlock_status options_check(const struct check *check,
                                       const struct dlock_option_spec *options)
{
    char why[DL_OPTION_WHY];

    if (!dl_option_table_valid(options, why))
        return refuse(check, "%s", why);
    for (; options->name != NULL; options++)
        if (dl_option_find(dl_settings_options, options->name) != NULL)
            return refuse(check, "option '%s': expected a name that dlock itself does not use",
                          options->name);
    return DLOCK_OK;
}

static enum dlock_status required_check(const struct check *check,
                                        const struct dlock_backend_ops *ops)
{
    const char *missing = NULL;

    if (ops->open == NULL)
        missing = "open";
    else if (ops->close == NULL)
        missing = "close";
    else if (ops->trylock == NULL)
        missing = "trylock";
    else if (ops->renew == NULL)
        missing = "renew";
    else if (ops->unlock == NULL)
        missing = "unlock";
    if (missing != NULL)
        return refuse(check, "slot %s: expected a function, got NULL", missing);
    return DLOCK_OK;
}

/* A capability and a slot that come together, always. */
static enum dlock_status pair_check(const struct check *check, bool cap, const char *cap_name,
                                    bool slot, const char *slot_name)
{
    if (cap && !slot)
        return refuse(check, "capability %s: expected slot %s with it, got NULL", cap_name,
                      slot_name);
    if (slot && !cap)
        return refuse(check, "slot %s: expected capability %s with it, got none", slot_name,
                      cap_name);
    return DLOCK_OK;
}

static enum dlock_status caps_pair(const struct check *check, const struct dl_plugin *p)
{
    bool native = (p->caps & DLOCK_CAP_NATIVE_WAIT) != 0;
    bool watch = (p->caps & DLOCK_CAP_WATCH) != 0;
    bool queue = (p->caps & DLOCK_CAP_QUEUE) != 0;
    enum dlock_status status =
        pair_check(check, native, "NATIVE_WAIT", p->ops.lock != NULL, "lock");

    if (status == DLOCK_OK)
        status = pair_check(check, watch, "WATCH", p->ops.watch != NULL, "watch");
    if (status == DLOCK_OK)
        status = pair_check(check, native || watch, "NATIVE_WAIT or WATCH",
                            p->ops.interrupt != NULL, "interrupt");
    if (status == DLOCK_OK)
        status = pair_check(check, queue, "QUEUE", p->ops.dequeue != NULL, "dequeue");
    if (status == DLOCK_OK && p->ops.wait_any != NULL && !watch)
        status = refuse(check, "slot wait_any: expected capability WATCH with it, got none");
    return status;
}

/* The first capability needs the second. */
static const struct {
    uint32_t cap, needs;
    const char *cap_name, *needs_name;
} implications[] = {
    {DLOCK_CAP_QUEUE, DLOCK_CAP_WATCH, "QUEUE", "WATCH"},
    {DLOCK_CAP_DOWNGRADE, DLOCK_CAP_RWLOCK, "DOWNGRADE", "RWLOCK"},
    {DLOCK_CAP_FENCE_DURABLE, DLOCK_CAP_FENCE, "FENCE_DURABLE", "FENCE"},
};

/* A lease lives in one place [SES-1] [TET-1]. */
static enum dlock_status caps_exclude(const struct check *check, uint32_t caps)
{
    uint32_t both = DLOCK_CAP_SESSION | DLOCK_CAP_TETHERED;

    if ((caps & both) == both)
        return refuse(check, "capability TETHERED: expected no SESSION with it, got both");
    return DLOCK_OK;
}

static enum dlock_status caps_imply(const struct check *check, uint32_t caps)
{
    for (size_t i = 0; i < sizeof implications / sizeof implications[0]; i++)
        if ((caps & implications[i].cap) != 0 && (caps & implications[i].needs) == 0)
            return refuse(check, "capability %s: expected %s with it, got none",
                          implications[i].cap_name, implications[i].needs_name);
    return DLOCK_OK;
}

static void descriptor_copy(const struct dlock_plugin *d, struct dl_plugin *out)
{
    static const struct dlock_option_spec no_options[] = {{0}};
    size_t size = d->ops->struct_size;

    *out = (struct dl_plugin){
        .name = d->name,
        .version = d->version,
        .schemes = d->schemes,
        .options = d->options != NULL ? d->options : no_options,
        .caps =
            d->caps & DLOCK_CAP_ALL, /* a newer plugin's other bits belong to slots cut off here */
        .init = d->init,
    };
    memcpy(&out->ops, d->ops, size < sizeof out->ops ? size : sizeof out->ops);
    out->ops.struct_size = sizeof out->ops;
}

enum dlock_status dl_abi_check(const struct dlock_plugin *descriptor, const char *where,
                               struct dl_plugin *out, struct dlock_error *err)
{
    struct check check = {where, err};
    struct dl_plugin copy = {0};
    enum dlock_status status = header_check(&check, descriptor);

    if (status == DLOCK_OK)
        status = names_check(&check, descriptor);
    if (status != DLOCK_OK)
        return status;
    descriptor_copy(descriptor, &copy);
    status = options_check(&check, copy.options);
    if (status == DLOCK_OK)
        status = required_check(&check, &copy.ops);
    if (status == DLOCK_OK)
        status = caps_pair(&check, &copy);
    if (status == DLOCK_OK)
        status = caps_imply(&check, copy.caps);
    if (status == DLOCK_OK)
        status = caps_exclude(&check, copy.caps);
    if (status == DLOCK_OK)
        *out = copy;
    return status;
}

enum dlock_status dl_abi_serves(const struct dl_plugin *plugin, const char *scheme,
                                struct dlock_error *err)
{
    char all[SCHEMES_MAX * (DL_SCHEME_MAX + 2) + 1] = "";
    size_t len = 0;

    for (size_t i = 0; plugin->schemes[i] != NULL; i++) {
        if (strcmp(plugin->schemes[i], scheme) == 0)
            return DLOCK_OK;
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i > 0 ? ", " : "",
                                plugin->schemes[i]);
    }
    return dl_error(err, DLOCK_INVALID, "unknown scheme '%s': plugin %s serves %s", scheme,
                    plugin->name, all);
}
