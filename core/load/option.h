/* SPDX-License-Identifier: MIT */
/*
 * option.h - the text of an option against its row in a table: type, range, number. Pure.
 *
 *   type      written as                        number
 *   bool      on off true false yes no 1 0      1 or 0
 *   int       decimal, '-' where allowed        itself
 *   duration  whole number and ms s m h d; 0    milliseconds
 *   size      whole number, alone or k M G      bytes (powers of 1024)
 *   enum      one of the range's words          0
 *   text      anything                          0
 *   list      text; may be given again          0
 *
 * A range is alternatives joined by '|': "lo..hi" in the notation of the type (for text: bounds of
 * its length in bytes), or a word, which counts as -1 (enum: 0).
 */
#ifndef DL_OPTION_H
#define DL_OPTION_H

#include <dlock/plugin.h>
#include <stdbool.h>

#define DL_OPTION_WHY 160 /* size of a buffer for a reason */

/* The row called name; NULL: there is none. */
const struct dlock_option_spec *dl_option_find(const struct dlock_option_spec *table,
                                               const char *name);

/* Keeps in *best the known name nearest to `name`; start with NULL. Only names so near that a
 * typing error is likely are taken. */
void dl_option_nearest(const struct dlock_option_spec *table, const char *name, const char **best);

/* Checks text against the row. False: `why` says what is wrong, naming option and value. */
bool dl_option_parse(const struct dlock_option_spec *spec, const char *text, int64_t *number,
                     char why[DL_OPTION_WHY]);

/* Checks the table itself: names, types, ranges, and fallbacks that their own row accepts. */
bool dl_option_table_valid(const struct dlock_option_spec *table, char why[DL_OPTION_WHY]);

#endif
