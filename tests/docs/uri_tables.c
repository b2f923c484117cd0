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
#include "sys/error.h"
#include "sys/host.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN "<!-- options: "
#define END   "<!-- end -->\n"

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

static char *page_read(const char *path)
{
    FILE *in = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;

    if (in == NULL || getdelim(&text, &size, '\0', in) < 0) {
        perror(path);
        exit(2);
    }
    (void)fclose(in);
    return text;
}

/* The page as it should be. Counts the tables that the build cannot tell. */
static char *page_make(const char *page, int *unknown)
{
    char *text = NULL, name[64];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *at, *end;

    if (out == NULL)
        exit(2);
    while ((at = strstr(page, BEGIN)) != NULL && (end = strstr(at, END)) != NULL) {
        const struct dlock_option_spec *table = NULL;

        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at + strlen(BEGIN), " \n"),
                       at + strlen(BEGIN));
        table = table_of(name);
        if (table == NULL) {
            printf("# %s: not in this build\n", name);
            ++*unknown;
            (void)fwrite(page, 1, (size_t)(end - page), out);
        } else {
            (void)fwrite(page, 1, (size_t)(at - page), out);
            (void)fprintf(out, "%s%s -->\n", BEGIN, name);
            put_table(out, table);
        }
        (void)fputs(END, out);
        page = end + strlen(END);
    }
    (void)fputs(page, out);
    if (fclose(out) != 0)
        exit(2);
    return text;
}

struct search {
    const char *page;
    int missing;
};

static int section_search(void *arg, const struct dlock_plugin_info *info)
{
    struct search *search = arg;
    char marker[96];

    if (info->name == NULL)
        return 0;
    (void)snprintf(marker, sizeof marker, BEGIN "%s -->", info->name);
    if (strstr(search->page, marker) == NULL) {
        printf("# no \"%s\" on the page\n", marker);
        search->missing++;
    }
    return 0;
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
    char *page, *right;
    int unknown = 0, status = 0;

    if (argc != 2 && !write) {
        (void)fputs("usage: uri_tables [--write] PAGE\n", stderr);
        return 2;
    }
    page = page_read(argv[argc - 1]);
    right = page_make(page, &unknown);
    if (write) {
        FILE *out = fopen(argv[2], "we");

        status = out == NULL || fputs(right, out) < 0 || fclose(out) != 0;
    } else {
        status = page_check(page, right, unknown);
    }
    free(page);
    free(right);
    return status;
}
