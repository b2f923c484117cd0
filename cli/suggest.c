/* SPDX-License-Identifier: MIT */
#include "suggest.h"

#include <string.h>

#define WORD_MAX ((size_t)32)

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance; both words have at most WORD_MAX letters. */
static size_t distance_of(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[WORD_MAX + 1];

    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j];

            row[j] = least(least(row[j - 1], above) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

void suggest_try(struct suggest *suggest, const char *known)
{
    size_t len = strlen(known);
    size_t distance;

    if (suggest->len > WORD_MAX || len > WORD_MAX)
        return;
    distance = distance_of(suggest->typed, suggest->len, known, len);
    if (3 * distance > (len > 3 ? len : 3))
        return;
    if (suggest->best == NULL || distance < suggest->distance) {
        suggest->best = known;
        suggest->distance = distance;
    }
}
