/* SPDX-License-Identifier: MIT */
#include "load/abi.h"
#include "lib/text.h"

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

/* The descriptor and the table of ABI 3.0. */
#define PLUGIN_SIZE_MIN (offsetof(struct dlock_plugin, strategies) + sizeof(void *))
#define OPS_SIZE_MIN    (offsetof(struct dlock_backend_ops, server_of) + sizeof(slot_fn *))

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
    char why[DL_OPTION_WHY + 64];
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

static enum dlock_status ops_check(const struct check *check, const struct dlock_backend_ops *ops)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (ops == NULL)
        return refuse(check, "ops: expected a table, got NULL");
    status = size_check(check, "ops", ops->struct_size, OPS_SIZE_MIN);
    if (status != DLOCK_OK)
        return status;
    if (ops->session_size > SESSION_SIZE_MAX)
        return refuse(check, "ops session_size: expected at most %d, got %u", SESSION_SIZE_MAX,
                      ops->session_size);
    if (ops->attempt_size > ATTEMPT_SIZE_MAX)
        return refuse(check, "ops attempt_size: expected at most %d, got %u", ATTEMPT_SIZE_MAX,
                      ops->attempt_size);
    return DLOCK_OK;
}

static enum dlock_status header_check(const struct check *check, const struct dlock_plugin *d)
{
    if (d == NULL)
        return refuse(check, "expected a descriptor, got NULL");
    if (d->magic != DLOCK_PLUGIN_MAGIC)
        return refuse(check, "magic: expected 0x%08x, got 0x%08x", DLOCK_PLUGIN_MAGIC, d->magic);
    if (d->abi_major != DLOCK_PLUGIN_ABI_MAJOR)
        return refuse(check,
                      "plugin ABI: expected %u, got %u.%u: the plugin was built for %s dlock, and "
                      "has to be built for this one",
                      DLOCK_PLUGIN_ABI_MAJOR, d->abi_major, d->abi_minor,
                      d->abi_major < DLOCK_PLUGIN_ABI_MAJOR ? "an older" : "a newer");
    return size_check(check, "descriptor", d->struct_size, PLUGIN_SIZE_MIN);
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
    uint64_t cap, needs;
    const char *cap_name, *needs_name;
} implications[] = {
    {DLOCK_CAP_QUEUE, DLOCK_CAP_WATCH, "QUEUE", "WATCH"},
    {DLOCK_CAP_DOWNGRADE, DLOCK_CAP_RWLOCK, "DOWNGRADE", "RWLOCK"},
    {DLOCK_CAP_FENCE_DURABLE, DLOCK_CAP_FENCE, "FENCE_DURABLE", "FENCE"},
};

/* A lease lives in one place [SES-1] [TET-1]. */
static enum dlock_status caps_exclude(const struct check *check, uint64_t caps)
{
    const uint64_t both = DLOCK_CAP_SESSION | DLOCK_CAP_TETHERED;

    if ((caps & both) == both)
        return refuse(check, "capability TETHERED: expected no SESSION with it, got both");
    return DLOCK_OK;
}

static enum dlock_status caps_imply(const struct check *check, uint64_t caps)
{
    for (size_t i = 0; i < sizeof implications / sizeof implications[0]; i++)
        if ((caps & implications[i].cap) != 0 && (caps & implications[i].needs) == 0)
            return refuse(check, "capability %s: expected %s with it, got none",
                          implications[i].cap_name, implications[i].needs_name);
    return DLOCK_OK;
}

/* A newer plugin's other capabilities belong to slots that are cut off. */
static void ops_copy(struct dl_plugin *out, uint64_t caps, const struct dlock_backend_ops *ops)
{
    const size_t size = ops->struct_size;

    out->caps = caps & DLOCK_CAP_ALL;
    memset(&out->ops, 0, sizeof out->ops);
    memcpy(&out->ops, ops, size < sizeof out->ops ? size : sizeof out->ops);
    out->ops.struct_size = sizeof out->ops;
}

/* One way to keep locks: a table and its capabilities. */
static enum dlock_status way_check(const struct check *check, struct dl_plugin *plugin,
                                   uint64_t caps, const struct dlock_backend_ops *ops)
{
    enum dlock_status status = ops_check(check, ops);

    if (status != DLOCK_OK)
        return status;
    ops_copy(plugin, caps, ops);
    status = required_check(check, &plugin->ops);
    if (status == DLOCK_OK)
        status = caps_pair(check, plugin);
    if (status == DLOCK_OK)
        status = caps_imply(check, plugin->caps);
    return status == DLOCK_OK ? caps_exclude(check, plugin->caps) : status;
}

static bool is_value_of(const struct dlock_option_spec *option, const char *name)
{
    int64_t ignored;
    char why[DL_OPTION_WHY];

    return strchr(name, '|') == NULL && dl_option_parse(option, name, &ignored, why);
}

static size_t values_count(const char *range)
{
    size_t count = 1;

    for (; *range != '\0'; range++)
        count += *range == '|';
    return count;
}

/* [STG-1] */
static enum dlock_status strategy_names_check(const struct check *check,
                                              const struct dlock_strategy *strategies,
                                              const struct dlock_option_spec *options)
{
    const struct dlock_option_spec *option = dl_option_find(options, "strategy");
    size_t count = 0;

    if (option == NULL || strcmp(option->type, "enum") != 0 || option->fallback == NULL)
        return refuse(check, "strategies: expected an option 'strategy', an enum with a default");
    for (; strategies[count].name != NULL; count++) {
        if (!is_value_of(option, strategies[count].name))
            return refuse(check, "strategy %.32s: expected a value of the option 'strategy'",
                          strategies[count].name);
        for (size_t i = 0; i < count; i++)
            if (strcmp(strategies[i].name, strategies[count].name) == 0)
                return refuse(check, "strategy %.32s: expected one of that name, got two",
                              strategies[count].name);
    }
    if (count != values_count(option->range))
        return refuse(check, "strategies: expected one for each value of the option 'strategy'");
    return DLOCK_OK;
}

static enum dlock_status ways_check(const struct check *check, const struct dlock_plugin *d,
                                    struct dl_plugin *copy)
{
    enum dlock_status status = DLOCK_OK;
    struct dl_plugin way = {0};

    if (d->strategies == NULL)
        return way_check(check, copy, d->caps, d->ops);
    if (d->ops != NULL || d->caps != 0)
        return refuse(check, "strategies: expected no ops and no caps beside them");
    status = strategy_names_check(check, d->strategies, copy->options);
    for (const struct dlock_strategy *s = d->strategies; status == DLOCK_OK && s->name != NULL;
         s++) {
        status = way_check(check, &way, s->caps, s->ops);
        if (status == DLOCK_OK)
            copy->caps |= way.caps;
    }
    return status;
}

enum dlock_status dl_abi_check(const struct dlock_plugin *descriptor, const char *where,
                               struct dl_plugin *out, struct dlock_error *err)
{
    static const struct dlock_option_spec no_options[] = {{0}};
    struct check check = {where, err};
    struct dl_plugin copy = {0};
    enum dlock_status status = header_check(&check, descriptor);

    if (status == DLOCK_OK)
        status = names_check(&check, descriptor);
    if (status != DLOCK_OK)
        return status;
    copy = (struct dl_plugin){
        .name = descriptor->name,
        .version = descriptor->version,
        .schemes = descriptor->schemes,
        .options = descriptor->options != NULL ? descriptor->options : no_options,
        .init = descriptor->init,
        .strategies = descriptor->strategies,
    };
    status = options_check(&check, copy.options);
    if (status == DLOCK_OK)
        status = ways_check(&check, descriptor, &copy);
    if (status == DLOCK_OK)
        *out = copy;
    return status;
}

void dl_abi_choose(const struct dl_plugin *plugin, const char *strategy, struct dl_plugin *out)
{
    const struct dlock_strategy *s = plugin->strategies;

    *out = *plugin;
    out->strategies = NULL;
    while (s != NULL && s->name != NULL && strcmp(s->name, strategy) != 0)
        s++;
    if (s != NULL && s->name != NULL)
        ops_copy(out, s->caps, s->ops);
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
