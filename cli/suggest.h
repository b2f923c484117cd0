/* SPDX-License-Identifier: MIT */
/* suggest.h - "did you mean": the known word nearest to a mistyped one. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

struct suggest {
    const char *typed;
    size_t len;       /* of typed */
    const char *best; /* NULL: no word is near enough */
    size_t distance;
};

/* Compares one known word. It is near enough if at most one letter in three is wrong, missing or
 * additional. */
void suggest_try(struct suggest *suggest, const char *known);

#endif
