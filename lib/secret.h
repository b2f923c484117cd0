/* SPDX-License-Identifier: MIT */
/* secret.h - texts with a secret in them. */
#ifndef LIB_SECRET_H
#define LIB_SECRET_H

#include <stdbool.h>

/* text: the name of an option, or a whole query. True: it has a word that tells of a secret. */
bool dl_secret_is_named(const char *text);

/* Overwrites a string and frees it; NULL is fine. */
void dl_secret_free(char *text);

#endif
