/* SPDX-License-Identifier: MIT */
#include "lib/secret.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* pass_file and pass_env tell where the password is. They are no secret. */
static bool is_elsewhere(const char *pass)
{
    return strncmp(pass, "pass_file", 9) == 0 || strncmp(pass, "pass_env", 8) == 0;
}

bool dl_secret_is_named(const char *text)
{
    static const char *const words[] = {"secret", "token", "cred", "pwd"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(text, words[i]) != NULL)
            return true;
    for (const char *at = text; (at = strstr(at, "pass")) != NULL; at++)
        if (!is_elsewhere(at))
            return true;
    return false;
}

void dl_secret_free(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}
