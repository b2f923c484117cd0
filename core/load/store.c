/* SPDX-License-Identifier: MIT */
#include "load/store.h"
#include "lib/text.h"

#include "load/default_uri.h"
#include "load/option.h"
#include "load/registry.h"
#include "load/store_options.h"
#include "sys/error.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    return dl_password_read(source, &store->parsed.password, exposure, err);
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
    enum dlock_status status = dl_store_options_apply(store, filling->create, err);

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
    } else if (dl_password_read(&store->password, &text, &exposure, err) == DLOCK_OK) {
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
    dl_password_source_fini(&store->password);
    dl_secret_free(store->defaults);
    free(store->what);
    free(store->file);
    free(store->uri);
    free(store->directory);
    free(store);
}
