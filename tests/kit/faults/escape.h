/* SPDX-License-Identifier: MIT */
/* escape.h - words and bytes in the lines that the tools read and print. */
#ifndef DLT_ESCAPE_H
#define DLT_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLT_WORDS_MAX 64

struct dlt_words {
    size_t count;
    char *at[DLT_WORDS_MAX]; /* within the line; escapes resolved, NUL behind each */
    size_t len[DLT_WORDS_MAX];
    bool quoted[DLT_WORDS_MAX];
};

/*
 * Splits a line in place, at blanks. A word may be in double quotes; \r \n \t \0 \s (a blank) \\ \"
 * and \xHH stand for bytes, within quotes and without. # begins a comment. NULL: fine; else what is
 * wrong.
 */
const char *dlt_words_split(char *line, struct dlt_words *words);

/* Decimal digits and nothing else, at most `most`. */
bool dlt_number_parse(const char *text, uint64_t most, uint64_t *out);

/* Bytes as dlt_words_split reads them within quotes; cut short, with "..." at the end, to fit. */
void dlt_escape(const void *bytes, size_t len, char *out, size_t size);

#endif
