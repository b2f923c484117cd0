/* SPDX-License-Identifier: MIT */
#include "load/store.h"
#include "lib/text.h"
#include "lib/text_file.h"
#include "load/default_uri.h"
#include "load/option.h"
#include "load/registry.h"
#include "sys/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One for each row of plugin->options. */
struct dl_store_value {
    char *text; /* NULL: not given, the fallback applies */
    int64_t number;
};

static bool variable_name_valid(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return name[len] == '\0' && len > 0 && (name[0] < '0' || name[0] > '9');
}

static enum dlock_status env_read(const char *name, char **text, struct dlock_error *err)
{
    const char *value = NULL;

    if (!variable_name_valid(name))
        return dl_error(err, DLOCK_INVALID, "pass_env: not the name of an environment variable");
    value = secure_getenv(name);
    if (value == NULL)
        return dl_error(err, DLOCK_INVALID, "pass_env: %s is not set", name);
    *text = strdup(value);
    return *text != NULL ? DLOCK_OK : dl_error(err, DLOCK_NOMEM, "pass_env: no memory");
}

/*
 * Reads the password as it is now. *text: caller frees it with dl_secret_free; NULL: the source is
 * empty. *exposure: as in dl_text_file_read. INVALID, CONFIG or NOMEM.
 */
static enum dlock_status password_read(const struct dl_password_source *source, char **text,
                                       enum dl_exposure *exposure, struct dlock_error *err)
{
    *text = NULL;
    *exposure = DL_EXPOSED_TO_NOBODY;
    if (source->file != NULL)
        return dl_text_file_read(source->file, "pass_file", text, exposure, err);
    if (source->env != NULL)
        return env_read(source->env, text, err);
    return DLOCK_OK;
}

static void password_source_fini(struct dl_password_source *source)
{
    free(source->file);
    free(source->env);
    *source = (struct dl_password_source){0};
}

static enum dlock_status options_no_memory(struct dlock_error *err)
{
    (void)dl_error(err, DLOCK_NOMEM, "no memory for the options");
    return DLOCK_NOMEM;
}

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
        return options_no_memory(err);
    for (size_t i = 0; i < count; i++)
        if (rows[i].fallback != NULL)
            (void)dl_option_parse(&rows[i], rows[i].fallback, &store->values[i].number, why);
    return DLOCK_OK;
}

/* A query being applied. */
struct context {
    struct dl_store *store;
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
        return options_no_memory(ctx->err);
    if (more) {
        memcpy(text, value->text, before - 1);
        text[before - 1] = '\n';
    }
    memcpy(text + before, option->value, len + 1);
    dl_secret_free(value->text);
    value->text = text;
    return DLOCK_OK;
}

static enum dlock_status text_keep(const struct context *ctx, char **to, const char *text)
{
    free(*to);
    *to = strdup(text);
    return *to != NULL ? DLOCK_OK : options_no_memory(ctx->err);
}

static enum dlock_status core_option_apply(const struct context *ctx,
                                           const struct dlock_option_spec *row,
                                           const struct dl_uri_option *option)
{
    char why[DL_OPTION_WHY];
    int64_t number = 0;

    if (!dl_option_parse(row, option->value, &number, why))
        return refuse(ctx, option, why);
    if (strcmp(row->name, "ttl") == 0)
        ctx->store->ttl_set_ms = number;
    if (strcmp(row->name, "pass_file") == 0)
        return text_keep(ctx, &ctx->store->password.file, option->value);
    if (strcmp(row->name, "pass_env") == 0)
        return text_keep(ctx, &ctx->store->password.env, option->value);
    if (!dl_settings_set(&ctx->store->settings, row->name, option->value, number)) {
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

/* Sets the plugin's own option `create`, if it has one. It overrides the URI and the defaults. */
static enum dlock_status create_apply(const struct context *ctx, enum dlock_tri create)
{
    static char name[] = "create", on[] = "on", off[] = "off";
    const struct dlock_option_spec *row = dl_option_find(ctx->store->plugin->options, name);
    struct dl_uri_option option = {name, create == DLOCK_ON ? on : off, 0};
    struct dl_uri_query query = {&option, 1};

    if (row == NULL || create == DLOCK_DEFAULT)
        return DLOCK_OK;
    return plugin_option_apply(ctx, row, &query, &option);
}

static enum dlock_status queries_apply(struct context *ctx, enum dlock_tri create)
{
    struct dl_uri_query overriding = {0};
    const char *defaults = ctx->store->defaults;
    enum dlock_status status = query_apply(ctx, &ctx->store->parsed.query);

    if (status == DLOCK_OK)
        status =
            dl_uri_query_parse(defaults != NULL ? defaults : "", "defaults", &overriding, ctx->err);
    ctx->what = "defaults";
    if (status == DLOCK_OK)
        status = query_apply(ctx, &overriding);
    if (status == DLOCK_OK)
        status = create_apply(ctx, create);
    dl_uri_query_fini(&overriding);
    return status;
}

/*
 * Fills store->values, settings and password (the source) from store->parsed and store->defaults.
 * create: DLOCK_ON or DLOCK_OFF decide the plugin's own option `create`, if it has one. INVALID:
 * the text shows the place.
 */
static enum dlock_status store_options_apply(struct dl_store *store, enum dlock_tri create,
                                             struct dlock_error *err)
{
    struct context ctx = {store, store->what, err};
    enum dlock_status status = values_init(store, err);

    dl_settings_init(&store->settings);
    if ((int)create < DLOCK_DEFAULT || (int)create > DLOCK_OFF)
        status =
            dl_error(err, DLOCK_INVALID,
                     "option create is %d, want DLOCK_DEFAULT, DLOCK_ON or DLOCK_OFF", (int)create);
    if (status == DLOCK_OK)
        status = password_whole(&ctx);
    return status == DLOCK_OK ? queries_apply(&ctx, create) : status;
}

static enum dlock_status out_of_memory(struct dlock_error *err)
{
    (void)dl_error(err, DLOCK_NOMEM, "no memory for the store");
    return DLOCK_NOMEM;
}

/* ---- the target ---- */

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

    if (row == NULL && strcmp(name, "fence") == 0)
        return (int64_t)store->settings.fence;
    if (row == NULL)
        return strcmp(name, "ttl") == 0 ? store->ttl_set_ms : 0;
    return store->values[row - store->plugin->options].number;
}

/* The URI without secrets, which means the same in any working directory. */
static char *uri_without_secrets(const struct dl_store *store)
{
    struct dl_uri printed = store->parsed;
    char *path = NULL;
    char *text;

    if (printed.authority || printed.path[0] == '/' || printed.path[0] == '\0' ||
        store->directory == NULL)
        return dl_uri_print(&printed);
    if (asprintf(&path, "%s/%s", strcmp(store->directory, "/") == 0 ? "" : store->directory,
                 printed.path) < 0)
        return NULL;
    printed.path = path;
    printed.authority = true;
    text = dl_uri_print(&printed);
    free(path);
    return text;
}

static int target_read_secret(const struct dlock_target *target, const char *option, char *buf,
                              size_t size, struct dlock_error *err);

static void target_fill(struct dl_store *store)
{
    store->target = (struct dlock_target){
        .struct_size = sizeof store->target,
        .scheme = store->parsed.scheme,
        .user = store->parsed.user,
        .password = store->parsed.password,
        .path = store->parsed.path,
        .directory = store->directory,
        .hosts = (const char *const *)store->parsed.hosts,
        .option = target_option,
        .number = target_number,
        .read_secret = target_read_secret,
    };
}

/* ---- password ---- */

static enum dlock_status password_load(struct dl_store *store, enum dl_exposure *exposure,
                                       struct dlock_error *err)
{
    const struct dl_password_source *source = &store->password;
    int count = (store->parsed.password != NULL) + (source->file != NULL) + (source->env != NULL);

    if (count > 1)
        return dl_error(err, DLOCK_INVALID,
                        "more than one password: give one in the URI, by pass_file or by pass_env");
    if (store->parsed.password != NULL) {
        *exposure = DL_EXPOSED_TO_NOBODY;
        return DLOCK_OK;
    }
    return password_read(source, &store->parsed.password, exposure, err);
}

/* ---- filling a store ---- */

/* For opening a store and for reading its secrets again. */
struct filling {
    const struct dlock_host *host; /* for warnings; NULL: the client has been warned */
    enum dl_exposure exposure;     /* of the file with the URI */
    enum dlock_tri create;
};

/* All users may read a file with a secret. Each client is warned once. */
static void exposed_warn(const struct filling *filling, const char *what, const char *file)
{
    if (filling->host != NULL)
        dl_text_file_warn(filling->host, what, file);
}

static void strategy_choose(struct dl_store *store)
{
    if (store->plugin->strategies == NULL)
        return;
    dl_abi_choose(store->plugin, target_option(&store->target, "strategy"), &store->own_plugin);
    store->plugin = &store->own_plugin;
}

/* store->parsed, plugin, what, file and defaults are set. */
static enum dlock_status store_fill(struct dl_store *store, const struct filling *filling,
                                    struct dlock_error *err)
{
    enum dl_exposure exposure = DL_EXPOSED_TO_NOBODY;
    enum dlock_status status = store_options_apply(store, filling->create, err);

    store->directory = getcwd(NULL, 0);
    if (status == DLOCK_OK) {
        /* Before parsed gets a password from a file: *** stands for a secret in the text. */
        store->uri = uri_without_secrets(store);
        status = store->uri != NULL ? DLOCK_OK : out_of_memory(err);
    }
    if (status == DLOCK_OK)
        status = password_load(store, &exposure, err);
    if (status != DLOCK_OK)
        return status;
    strategy_choose(store);
    if (exposure == DL_EXPOSED_TO_ALL)
        exposed_warn(filling, "pass_file", store->password.file);
    if (filling->exposure == DL_EXPOSED_TO_ALL && strstr(store->uri, DL_SECRET_SHOWN) != NULL)
        exposed_warn(filling, "URI", store->file);
    target_fill(store);
    return DLOCK_OK;
}

/* ---- secrets, again ---- */

static bool text_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* A password for another user or server must not be sent to this server. */
static bool address_same(const struct dl_uri *a, const struct dl_uri *b)
{
    size_t i = 0;

    while (a->hosts[i] != NULL && b->hosts[i] != NULL && strcmp(a->hosts[i], b->hosts[i]) == 0)
        i++;
    return a->hosts[i] == NULL && b->hosts[i] == NULL && strcmp(a->scheme, b->scheme) == 0 &&
           strcmp(a->path, b->path) == 0 && text_same(a->user, b->user);
}

/* The store as its file describes it now. *out: free with dl_store_free, also after a failure. */
static enum dlock_status store_again(const struct dl_store *store, struct dl_store **out,
                                     struct dlock_error *err)
{
    const struct filling filling = {0};
    struct dl_store *fresh = calloc(1, sizeof *fresh);
    enum dl_exposure exposure = DL_EXPOSED_TO_NOBODY;
    enum dlock_status status = DLOCK_INTERNAL;
    char *text = NULL;

    *out = fresh;
    if (fresh == NULL)
        return out_of_memory(err);
    fresh->plugin = store->plugin;
    fresh->what = strdup(store->what);
    fresh->defaults = store->defaults != NULL ? strdup(store->defaults) : NULL;
    if (fresh->what == NULL || (store->defaults != NULL && fresh->defaults == NULL))
        return out_of_memory(err);
    status = dl_text_file_read(store->file, store->what, &text, &exposure, err);
    if (status == DLOCK_OK)
        status = dl_uri_parse(text, store->what, &fresh->parsed, err);
    dl_secret_free(text);
    if (status == DLOCK_OK && !address_same(&store->parsed, &fresh->parsed))
        status = dl_error(err, DLOCK_CONFIG,
                          "%s names another store or user now: the client has to be opened again",
                          store->what);
    return status == DLOCK_OK ? store_fill(fresh, &filling, err) : status;
}

static int secret_copy(const char *secret, char *buf, size_t size, struct dlock_error *err)
{
    size_t len = secret != NULL ? strlen(secret) : 0;

    if (secret == NULL)
        return -1;
    if (len >= size) {
        (void)dl_error(err, DLOCK_INVALID, "a secret is longer than %zu bytes", size - 1);
        return -2;
    }
    memcpy(buf, secret, len + 1);
    return (int)len;
}

static int target_read_secret(const struct dlock_target *target, const char *option, char *buf,
                              size_t size, struct dlock_error *err)
{
    const struct dl_store *store = store_of(target);
    enum dl_exposure exposure = DL_EXPOSED_TO_NOBODY;
    struct dl_store *fresh = NULL;
    char *text = NULL;
    int len = -2;

    if (store->file != NULL) {
        if (store_again(store, &fresh, err) == DLOCK_OK)
            len = secret_copy(option != NULL ? target_option(&fresh->target, option)
                                             : fresh->target.password,
                              buf, size, err);
        dl_store_free(fresh);
    } else if (option != NULL) {
        len = secret_copy(target_option(target, option), buf, size, err);
    } else if (store->password.file == NULL && store->password.env == NULL) {
        len = secret_copy(target->password, buf, size, err);
    } else if (password_read(&store->password, &text, &exposure, err) == DLOCK_OK) {
        len = secret_copy(text, buf, size, err);
    }
    dl_secret_free(text);
    return len;
}

/* ---- opening ---- */

static enum dlock_status plugin_find(struct dl_store *store, const struct dlock_plugin *descriptor,
                                     const char *plugin_dirs, const struct dlock_host *host,
                                     struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (descriptor == NULL)
        return dl_registry_find(store->parsed.scheme, plugin_dirs, host, &store->plugin, err);
    store->plugin = &store->own_plugin;
    status = dl_abi_check(descriptor, "static", &store->own_plugin, err);
    if (status == DLOCK_OK)
        status = dl_abi_serves(&store->own_plugin, store->parsed.scheme, err);
    if (status == DLOCK_OK && store->own_plugin.init != NULL)
        status = store->own_plugin.init(host, err);
    return status;
}

enum dlock_status dl_store_open_static(const struct dlock_plugin *descriptor, const char *uri,
                                       const struct dlock_client_options *options,
                                       const struct dlock_host *host, struct dl_store **out,
                                       struct dlock_error *err)
{
    static const struct dlock_client_options none = {.struct_size = sizeof none};
    const struct dlock_client_options *given = options != NULL ? options : &none;
    struct filling filling = {.host = host, .create = given->create};
    struct dl_store *store = calloc(1, sizeof *store);
    struct dl_default_uri_source source = {0};
    enum dlock_status status = DLOCK_OK;

    if (store == NULL)
        return out_of_memory(err);
    if (given->defaults != NULL && (store->defaults = strdup(given->defaults)) == NULL)
        status = out_of_memory(err);
    if (status == DLOCK_OK)
        status = dl_default_uri(uri, filling.create != DLOCK_OFF, &source, err);
    if (status == DLOCK_OK)
        status = dl_uri_parse(source.text, source.what, &store->parsed, err);
    store->what = source.what;
    store->file = source.file;
    source.what = source.file = NULL;
    filling.exposure = source.exposure;
    dl_default_uri_fini(&source);
    if (status == DLOCK_OK)
        status = plugin_find(store, descriptor, given->plugin_dirs, host, err);
    if (status == DLOCK_OK)
        status = store_fill(store, &filling, err);
    if (status == DLOCK_OK)
        *out = store;
    else
        dl_store_free(store);
    return status;
}

enum dlock_status dl_store_open(const char *uri, const struct dlock_client_options *options,
                                const struct dlock_host *host, struct dl_store **out,
                                struct dlock_error *err)
{
    return dl_store_open_static(NULL, uri, options, host, out, err);
}

void dl_store_free(struct dl_store *store)
{
    if (store == NULL)
        return;
    for (size_t i = 0; store->values != NULL && store->plugin->options[i].name != NULL; i++)
        dl_secret_free(store->values[i].text);
    free(store->values);
    dl_uri_fini(&store->parsed);
    password_source_fini(&store->password);
    dl_secret_free(store->defaults);
    free(store->what);
    free(store->file);
    free(store->uri);
    free(store->directory);
    free(store);
}
