/* SPDX-License-Identifier: MIT */
/* suggest.h - "did you mean": the known word that a mistyped one is nearest to. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

struct suggest {
    const char *typed;
    size_t len;       /* of typed */
    const char *best; /* NULL: no word is near enough */
    size_t distance;
};

/* Looks at one known word. Near enough are words with at most one wrong, missing or additional
 * letter in three. */
void suggest_try(struct suggest *suggest, const char *known);

#endif
