/* SPDX-License-Identifier: MIT */
#include "page_table.h"

#include <stdlib.h>
#include <string.h>

#define END "<!-- end -->\n"

char *page_table_read(const char *path)
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

/* From the marker at `at` to the one at its end. */
static void table_make(FILE *out, const char *at, const char *end, struct page_tables *tables,
                       size_t marker)
{
    const char *body = strchr(at, '\n') + 1;
    char name[64], *table = NULL;
    size_t size = 0;
    FILE *made = open_memstream(&table, &size);
    bool known;

    if (made == NULL)
        exit(2);
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at + marker, " \n"), at + marker);
    tables->found++;
    known = tables->write(made, name);
    if (fclose(made) != 0)
        exit(2);
    tables->unknown += !known;
    (void)fwrite(at, 1, (size_t)(body - at), out);
    (void)fwrite(known ? table : body, 1, known ? size : (size_t)(end - body), out);
    free(table);
}

char *page_table_make(const char *page, struct page_tables *tables)
{
    char *text = NULL, begin[64];
    size_t size = 0, marker;
    FILE *out = open_memstream(&text, &size);
    const char *at, *end;

    if (out == NULL)
        exit(2);
    marker = (size_t)snprintf(begin, sizeof begin, "<!-- %s: ", tables->kind);
    while ((at = strstr(page, begin)) != NULL && (end = strstr(at, END)) != NULL) {
        (void)fwrite(page, 1, (size_t)(at - page), out);
        table_make(out, at, end, tables, marker);
        (void)fputs(END, out);
        page = end + strlen(END);
    }
    (void)fputs(page, out);
    if (fclose(out) != 0)
        exit(2);
    return text;
}

int page_table_write(const char *path, const char *text)
{
    FILE *out = fopen(path, "we");

    return out == NULL || fputs(text, out) < 0 || fclose(out) != 0;
}
