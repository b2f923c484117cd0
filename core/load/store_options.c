/* SPDX-License-Identifier: MIT */
#include "load/store_options.h"
#include "lib/text.h"

#include "load/option.h"
#include "sys/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum dlock_status out_of_memory(struct dlock_error *err)
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
        return out_of_memory(err);
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

static enum dlock_status text_keep(const struct context *ctx, char **to, const char *text)
{
    free(*to);
    *to = strdup(text);
    return *to != NULL ? DLOCK_OK : out_of_memory(ctx->err);
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

enum dlock_status dl_store_options_apply(struct dl_store *store, enum dlock_tri create,
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
