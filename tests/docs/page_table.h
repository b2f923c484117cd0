/* SPDX-License-Identifier: MIT */
/*
 * page_table.h - tables of pages that a program writes: what stands between "<!-- KIND: NAME -->"
 * and
 * "<!-- end -->". A file that cannot be read, and memory that is not there, end the program.
 */
#ifndef DLT_PAGE_TABLE_H
#define DLT_PAGE_TABLE_H

#include <stdbool.h>
#include <stdio.h>

struct page_tables {
    const char *kind;
    bool (*write)(FILE *out,
                  const char *name); /* false: there is no such table; the page's stays */
    unsigned found, unknown;         /* out: tables of this kind; those without one */
};

/* The text of the file. Caller frees, here and below. */
char *page_table_read(const char *path);

/* The page as it should be. */
char *page_table_make(const char *page, struct page_tables *tables);

/* Non-zero: the file cannot be written. */
int page_table_write(const char *path, const char *text);

#endif
