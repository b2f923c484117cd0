/* SPDX-License-Identifier: MIT */
#include "store.h"

#include "default_uri.h"
#include "error.h"
#include "option.h"
#include "registry.h"
#include "text_file.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dl_store_value {
    char *text; /* NULL: not given, the fallback applies */
    int64_t number;
};

/* Where the password may come from besides the URI itself; borrowed from the queries. */
struct password_sources {
    const char *file, *env;
};

static enum dlock_status out_of_memory(struct dlock_error *err)
{
    (void)dl_error(err, DLOCK_NOMEM, "no memory for the store");
    return DLOCK_NOMEM;
}

/* ---- what the plugin sees ---- */

static const struct dl_store *store_of(const struct dlock_target *target)
{
    return (const struct dl_store *)(const void *)((const char *)target -
                                                   offsetof(struct dl_store, target));
}

static const char *target_option(const struct dlock_target *target, const char *name)
{
    const struct dl_store *store = store_of(target);
    const struct dlock_option_spec *row = dl_option_find(store->plugin->options, name);
    const struct dl_store_value *value;

    if (row == NULL)
        return NULL;
    value = &store->values[row - store->plugin->options];
    return value->text != NULL ? value->text : row->fallback;
}

static int64_t target_number(const struct dlock_target *target, const char *name)
{
    const struct dl_store *store = store_of(target);
    const struct dlock_option_spec *row = dl_option_find(store->plugin->options, name);

    if (row == NULL)
        return strcmp(name, "ttl") == 0 ? store->settings.ttl_ms : 0;
    return store->values[row - store->plugin->options].number;
}

/* Without secrets, and of the same meaning in any working directory. */
static char *uri_shown(const struct dl_store *store)
{
    struct dl_uri shown = store->parsed;
    char *path = NULL;
    char *text;

    if (shown.authority || shown.path[0] == '/' || shown.path[0] == '\0' ||
        store->directory == NULL)
        return dl_uri_print(&shown);
    if (asprintf(&path, "%s/%s", strcmp(store->directory, "/") == 0 ? "" : store->directory,
                 shown.path) < 0)
        return NULL;
    shown.path = path;
    shown.authority = true;
    text = dl_uri_print(&shown);
    free(path);
    return text;
}

static void target_fill(struct dl_store *store)
{
    store->target = (struct dlock_target){
        .scheme = store->parsed.scheme,
        .user = store->parsed.user,
        .password = store->parsed.password,
        .path = store->parsed.path,
        .directory = store->directory,
        .hosts = (const char *const *)store->parsed.hosts,
        .option = target_option,
        .number = target_number,
    };
}

/* ---- options ---- */

/* Values of the rows' fallbacks, which abi.c has checked. */
static enum dlock_status values_init(struct dl_store *store, struct dlock_error *err)
{
    const struct dlock_option_spec *rows = store->plugin->options;
    char why[DL_OPTION_WHY];
    size_t count = 0;

    while (rows[count].name != NULL)
        count++;
    store->values = calloc(count + 1, sizeof *store->values);
    if (store->values == NULL)
        return out_of_memory(err);
    for (size_t i = 0; i < count; i++)
        if (rows[i].fallback != NULL)
            (void)dl_option_parse(&rows[i], rows[i].fallback, &store->values[i].number, why);
    return DLOCK_OK;
}

/* A query being applied. */
struct context {
    struct dl_store *store;
    struct password_sources *password;
    const char *what; /* "URI", for messages */
    struct dlock_error *err;
};

static enum dlock_status refuse(const struct context *ctx, const struct dl_uri_option *option,
                                const char *why)
{
    return dl_error(ctx->err, DLOCK_INVALID, "%s at offset %zu: %s", ctx->what, option->offset,
                    why);
}

static enum dlock_status unknown_option(const struct context *ctx,
                                        const struct dl_uri_option *option)
{
    char why[DL_OPTION_WHY];
    const char *nearest = NULL;

    dl_option_nearest(dl_settings_options, option->name, &nearest);
    dl_option_nearest(ctx->store->plugin->options, option->name, &nearest);
    (void)snprintf(why, sizeof why, "unknown option '%s'%s%s%s", option->name,
                   nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "'?" : "");
    return refuse(ctx, option, why);
}

/* An option before it in the query has its name. */
static bool is_repeated(const struct dl_uri_query *query, const struct dl_uri_option *option)
{
    for (const struct dl_uri_option *other = query->options; other < option; other++)
        if (strcmp(other->name, option->name) == 0)
            return true;
    return false;
}

static enum dlock_status plugin_option_apply(const struct context *ctx,
                                             const struct dlock_option_spec *row,
                                             const struct dl_uri_query *query,
                                             const struct dl_uri_option *option)
{
    struct dl_store_value *value = &ctx->store->values[row - ctx->store->plugin->options];
    char why[DL_OPTION_WHY], *text = NULL;
    bool more = is_repeated(query, option);
    size_t before = 0, len = strlen(option->value);

    if (more && strcmp(row->type, "list") != 0) {
        (void)snprintf(why, sizeof why, "option '%s' is repeated", option->name);
        return refuse(ctx, option, why);
    }
    if (!dl_option_parse(row, option->value, &value->number, why))
        return refuse(ctx, option, why);
    if (more)
        before = strlen(value->text) + 1;
    text = malloc(before + len + 1); /* no growing: it may be a secret */
    if (text == NULL)
        return out_of_memory(ctx->err);
    if (more) {
        memcpy(text, value->text, before - 1);
        text[before - 1] = '\n';
    }
    memcpy(text + before, option->value, len + 1);
    dl_secret_free(value->text);
    value->text = text;
    return DLOCK_OK;
}

static enum dlock_status core_option_apply(const struct context *ctx,
                                           const struct dlock_option_spec *row,
                                           const struct dl_uri_option *option)
{
    char why[DL_OPTION_WHY];
    int64_t number = 0;

    if (!dl_option_parse(row, option->value, &number, why))
        return refuse(ctx, option, why);
    if (strcmp(row->name, "pass_file") == 0)
        ctx->password->file = option->value;
    else if (strcmp(row->name, "pass_env") == 0)
        ctx->password->env = option->value;
    else if (!dl_settings_set(&ctx->store->settings, row->name, option->value, number)) {
        (void)snprintf(why, sizeof why,
                       "the value of '%s' has characters other than printable "
                       "ASCII",
                       row->name);
        return refuse(ctx, option, why);
    }
    return DLOCK_OK;
}

/* A URI as messages show it would open the store as somebody else, or another one. */
static const char left_out[] = DL_SECRET_SHOWN " stands for a secret that was left out: give the "
                                               "whole URI, or pass_file=, pass_env= or @/path";

static enum dlock_status password_whole(const struct context *ctx)
{
    const char *password = ctx->store->parsed.password;

    if (password == NULL || strcmp(password, DL_SECRET_SHOWN) != 0)
        return DLOCK_OK;
    return dl_error(ctx->err, DLOCK_INVALID, "%s: %s", ctx->what, left_out);
}

static enum dlock_status query_apply(const struct context *ctx, const struct dl_uri_query *query)
{
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; status == DLOCK_OK && i < query->count; i++) {
        const struct dl_uri_option *option = &query->options[i];
        const struct dlock_option_spec *core = dl_option_find(dl_settings_options, option->name);
        const struct dlock_option_spec *own =
            dl_option_find(ctx->store->plugin->options, option->name);

        if (strcmp(option->value, DL_SECRET_SHOWN) == 0)
            status = refuse(ctx, option, left_out);
        else if (core != NULL)
            status = core_option_apply(ctx, core, option);
        else if (own != NULL)
            status = plugin_option_apply(ctx, own, query, option);
        else
            status = unknown_option(ctx, option);
    }
    return status;
}

/* ---- password ---- */

static bool variable_name_valid(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return name[len] == '\0' && len > 0 && (name[0] < '0' || name[0] > '9');
}

static enum dlock_status password_from_env(const char *name, char **password,
                                           struct dlock_error *err)
{
    const char *value = NULL;

    if (!variable_name_valid(name))
        return dl_error(err, DLOCK_INVALID, "pass_env: not the name of an environment variable");
    value = secure_getenv(name);
    if (value == NULL)
        return dl_error(err, DLOCK_INVALID, "pass_env: %s is not set", name);
    *password = strdup(value);
    return *password != NULL ? DLOCK_OK : out_of_memory(err);
}

static enum dlock_status password_load(struct dl_store *store,
                                       const struct password_sources *sources,
                                       struct dlock_error *err)
{
    int count = (store->parsed.password != NULL) + (sources->file != NULL) + (sources->env != NULL);

    if (count > 1)
        return dl_error(err, DLOCK_INVALID,
                        "more than one password: give one in the URI, by pass_file or by pass_env");
    if (sources->file != NULL)
        return dl_text_file_read(sources->file, "pass_file", &store->parsed.password, err);
    if (sources->env != NULL)
        return password_from_env(sources->env, &store->parsed.password, err);
    return DLOCK_OK;
}

/* ---- the whole ---- */

/* store->parsed and store->plugin are there. */
static enum dlock_status store_fill(struct dl_store *store, const char *what, const char *defaults,
                                    struct dlock_error *err)
{
    struct dl_uri_query overriding = {0};
    struct password_sources password = {0};
    struct context ctx = {store, &password, what, err};
    enum dlock_status status = values_init(store, err);

    store->directory = getcwd(NULL, 0);
    dl_settings_init(&store->settings);
    if (status == DLOCK_OK)
        status = password_whole(&ctx);
    if (status == DLOCK_OK)
        status = query_apply(&ctx, &store->parsed.query);
    if (status == DLOCK_OK)
        status = dl_uri_query_parse(defaults != NULL ? defaults : "", "defaults", &overriding, err);
    ctx.what = "defaults";
    if (status == DLOCK_OK)
        status = query_apply(&ctx, &overriding);
    if (status == DLOCK_OK) {
        /* Before a password from elsewhere joins it: *** stands for what the text itself holds. */
        store->uri = uri_shown(store);
        status = store->uri != NULL ? DLOCK_OK : out_of_memory(err);
    }
    if (status == DLOCK_OK)
        status = password_load(store, &password, err);
    if (status == DLOCK_OK)
        target_fill(store);
    dl_uri_query_fini(&overriding);
    return status;
}

/* plugin_of: sets store->plugin for the scheme of store->parsed. */
static enum dlock_status
store_new(const char *uri, const char *defaults,
          enum dlock_status (*plugin_of)(struct dl_store *store, const void *arg,
                                         const struct dlock_host *host, struct dlock_error *err),
          const void *arg, const struct dlock_host *host, struct dl_store **out,
          struct dlock_error *err)
{
    struct dl_store *store = calloc(1, sizeof *store);
    char *text = NULL, *what = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (store == NULL)
        return out_of_memory(err);
    status = dl_default_uri(uri, &text, &what, err);
    if (status == DLOCK_OK)
        status = dl_uri_parse(text, what, &store->parsed, err);
    if (status == DLOCK_OK)
        status = plugin_of(store, arg, host, err);
    if (status == DLOCK_OK)
        status = store_fill(store, what, defaults, err);
    dl_secret_free(text);
    free(what);
    if (status == DLOCK_OK)
        *out = store;
    else
        dl_store_free(store);
    return status;
}

static enum dlock_status plugin_by_scheme(struct dl_store *store, const void *plugin_dirs,
                                          const struct dlock_host *host, struct dlock_error *err)
{
    return dl_registry_find(store->parsed.scheme, plugin_dirs, host, &store->plugin, err);
}

static enum dlock_status plugin_at_hand(struct dl_store *store, const void *descriptor,
                                        const struct dlock_host *host, struct dlock_error *err)
{
    enum dlock_status status = dl_abi_check(descriptor, "static", &store->static_plugin, err);

    if (status == DLOCK_OK)
        status = dl_abi_serves(&store->static_plugin, store->parsed.scheme, err);
    if (status == DLOCK_OK && store->static_plugin.init != NULL)
        status = store->static_plugin.init(host, err);
    store->plugin = &store->static_plugin;
    return status;
}

enum dlock_status dl_store_open(const char *uri, const char *plugin_dirs, const char *defaults,
                                const struct dlock_host *host, struct dl_store **out,
                                struct dlock_error *err)
{
    return store_new(uri, defaults, plugin_by_scheme, plugin_dirs, host, out, err);
}

enum dlock_status dl_store_open_static(const struct dlock_plugin *descriptor, const char *uri,
                                       const char *defaults, const struct dlock_host *host,
                                       struct dl_store **out, struct dlock_error *err)
{
    return store_new(uri, defaults, plugin_at_hand, descriptor, host, out, err);
}

void dl_store_free(struct dl_store *store)
{
    if (store == NULL)
        return;
    for (size_t i = 0; store->values != NULL && store->plugin->options[i].name != NULL; i++)
        dl_secret_free(store->values[i].text);
    free(store->values);
    dl_uri_fini(&store->parsed);
    free(store->uri);
    free(store->directory);
    free(store);
}
