/* SPDX-License-Identifier: MIT */
/* secret_words.h - the words by which core and the command know an option with a secret. */
#ifndef LIB_SECRET_WORDS_H
#define LIB_SECRET_WORDS_H

#include <stdbool.h>

/* text: the name of an option, or a whole query. True: it contains such a word. */
bool dl_secret_words_in(const char *text);

#endif
