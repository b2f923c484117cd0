/* SPDX-License-Identifier: MIT */
/*
 * abi.h - checks a plugin's descriptor, in release builds too, and copies its table.
 *
 * The copy has this library's size. Slots that a newer, longer table has in addition are dropped.
 * No other file of core knows about versions.
 */
#ifndef DL_ABI_H
#define DL_ABI_H

#include <dlock/plugin.h>

struct dl_plugin {
    const char *name, *version;
    const char *const *schemes;
    const struct dlock_option_spec *options; /* never NULL */
    uint64_t caps; /* the most it can do; with strategies: all of them together */
    enum dlock_status (*init)(const struct dlock_host *host, struct dlock_error *err);
    struct dlock_backend_ops ops;            /* with strategies: empty until dl_abi_choose */
    const struct dlock_strategy *strategies; /* NULL: none, or one is chosen */
};

/*
 * Checks, in this order: pointer, magic, ABI major, sizes, name, schemes, option table, required
 * slots, each capability bit against its slots and the reverse, in each strategy. PLUGIN_ABI with
 * "<where>: expected X, got Y". where: the file, for the message.
 */
enum dlock_status dl_abi_check(const struct dlock_plugin *descriptor, const char *where,
                               struct dl_plugin *out, struct dlock_error *err);

/* *out: the plugin with the slots and the capabilities of the strategy of that name, which it has.
 * A plugin without strategies is copied. out may be plugin. */
void dl_abi_choose(const struct dl_plugin *plugin, const char *strategy, struct dl_plugin *out);

/* INVALID "unknown scheme": the plugin does not list it. */
enum dlock_status dl_abi_serves(const struct dl_plugin *plugin, const char *scheme,
                                struct dlock_error *err);

#endif
