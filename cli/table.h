/* SPDX-License-Identifier: MIT */
/*
 * table.h - locks as a table that fits a terminal: name, holder, mode, age, time left, waiters,
 * fence.
 *
 * Names and holders share the columns that the numbers leave. What does not fit is cut, with a ~ as
 * its last character. The mode, and what holders publish, are shown from TABLE_WIDE columns on.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "info.h"

#include <stdio.h>

#define TABLE_LEAST 60  /* columns; a narrower terminal gets lines of this length */
#define TABLE_WIDE  100 /* columns from which on the mode and the data are shown */

/* Most waiters first; of these the name with the oldest holder; then by name. Of a name the oldest
 * holder first. The list is in the order of info_list_sort. */
void table_sort(struct info_list *list);

/*
 * Prints the head and a line for each lock, as many as rows allows for both; a last line says how
 * many locks are left out. 0: no limit, of columns or of rows. head: escape sequences around the
 * head line; "": none. end: what ends each line.
 */
void table_print(FILE *out, const struct info_list *list, size_t columns, size_t rows,
                 const char *head[2], const char *end);

#define TABLE_SUMMARY_SIZE 96

/* "12 held, 2 kept, 5 waiting", of a list in the order of info_list_sort. */
void table_summary(const struct info_list *list, char out[TABLE_SUMMARY_SIZE]);

#endif
