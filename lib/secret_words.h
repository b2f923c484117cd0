/* SPDX-License-Identifier: MIT */
/* secret_words.h - the one list of words by which core and the command know a secret option. */
#ifndef LIB_SECRET_WORDS_H
#define LIB_SECRET_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Two names with "pass" in them tell where the password is, and not what it is. */
static inline bool lib_secret_is_elsewhere(const char *pass)
{
    return strncmp(pass, "pass_file", 9) == 0 || strncmp(pass, "pass_env", 8) == 0;
}

/* text: the name of an option, or a whole query. True: it has a word that tells of a secret. */
static inline bool lib_has_secret_word(const char *text)
{
    static const char *const words[] = {"secret", "token", "cred", "pwd"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(text, words[i]) != NULL)
            return true;
    for (const char *at = text; (at = strstr(at, "pass")) != NULL; at++)
        if (!lib_secret_is_elsewhere(at))
            return true;
    return false;
}

#endif
