/* SPDX-License-Identifier: MIT */
/*
 * uri_tables.c - the option tables of a page, from the descriptors that the code itself uses.
 *
 *     uri_tables PAGE             compares, TAP on standard output
 *     uri_tables --write PAGE     rewrites them in place
 *
 * A table is what stands between "<!-- options: NAME -->" and "<!-- end -->"; NAME is "core" or a
 * plugin of the build.
 */
#include "load/registry.h"
#include "load/settings.h"
#include "page_table.h"
#include "sys/error.h"
#include "sys/host.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND "options"

/* Writes text with '|' escaped, which would end a cell. */
static void put_cell(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        (void)fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
}

static void put_code(FILE *out, const char *text)
{
    (void)fputs(text != NULL ? " | `" : " | ", out);
    put_cell(out, text != NULL ? text : "");
    (void)fputs(text != NULL ? "`" : "", out);
}

static void put_table(FILE *out, const struct dlock_option_spec *row)
{
    if (row->name == NULL) {
        (void)fputs("None of its own.\n", out);
        return;
    }
    (void)fputs("| option | type | default | range | meaning |\n|---|---|---|---|---|\n", out);
    for (; row->name != NULL; row++) {
        (void)fprintf(out, "| `%s` | %s", row->name, row->type);
        put_code(out, row->fallback);
        put_code(out, row->range);
        (void)fputs(" | ", out);
        put_cell(out, row->help);
        (void)fputs(" |\n", out);
    }
}

/* NULL: no such plugin in this build. */
static const struct dlock_option_spec *table_of(const char *name)
{
    struct dl_host host;
    struct dlock_error err;
    const struct dl_plugin *plugin = NULL;

    if (strcmp(name, "core") == 0)
        return dl_settings_options;
    dl_host_init(&host, (struct dl_log){0});
    dl_error_reset(&err);
    if (dl_registry_find(name, NULL, &host.table, &plugin, &err) != DLOCK_OK)
        return NULL;
    return plugin->options;
}

static bool table_write(FILE *out, const char *name)
{
    const struct dlock_option_spec *table = table_of(name);

    if (table == NULL) {
        printf("# %s: not in this build\n", name);
        return false;
    }
    put_table(out, table);
    return true;
}

struct search {
    const char *page;
    int missing;
};

static bool section_search(void *arg, const struct dlock_plugin_info *info)
{
    struct search *search = arg;
    char marker[96];

    if (info->name == NULL)
        return false;
    (void)snprintf(marker, sizeof marker, "<!-- " KIND ": %s -->", info->name);
    if (strstr(search->page, marker) == NULL) {
        printf("# no \"%s\" on the page\n", marker);
        search->missing++;
    }
    return false;
}

static int page_check(const char *page, const char *right, int unknown)
{
    struct search search = {page, 0};
    struct dlock_error err;
    bool same = strcmp(page, right) == 0, listed = false;

    dl_error_reset(&err);
    listed = dl_registry_each(NULL, section_search, &search, &err) == DLOCK_OK;
    printf("%sok 1 - the option tables say what the code checks\n", same ? "" : "not ");
    if (!same)
        printf("# uri_tables --write PAGE sets them right\n");
    printf("%sok 2 - every plugin of the build has a table\n",
           listed && search.missing == 0 ? "" : "not ");
    printf("%sok 3 - every table is of a plugin of the build\n1..3\n", unknown == 0 ? "" : "not ");
    return same && listed && search.missing == 0 && unknown == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    bool write = argc == 3 && strcmp(argv[1], "--write") == 0;
    struct page_tables tables = {.kind = KIND, .write = table_write};
    char *page, *right;
    int status = 0;

    if (argc != 2 && !write) {
        (void)fputs("usage: uri_tables [--write] PAGE\n", stderr);
        return 2;
    }
    page = page_table_read(argv[argc - 1]);
    right = page_table_make(page, &tables);
    status =
        write ? page_table_write(argv[2], right) : page_check(page, right, (int)tables.unknown);
    free(page);
    free(right);
    return status;
}
