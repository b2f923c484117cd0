/* SPDX-License-Identifier: MIT */
#include "suggest.h"

#include <string.h>

#define WORD_MAX ((size_t)32)

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to add, to drop, to change, or neighbours to swap; both words have at most WORD_MAX. */
static size_t distance_of(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t before[WORD_MAX + 1] = {0}, last[WORD_MAX + 1] = {0}, row[WORD_MAX + 1];

    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        memcpy(before, last, sizeof before);
        memcpy(last, row, sizeof last);
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = least(least(row[j - 1], last[j]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
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
