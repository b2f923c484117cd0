/* SPDX-License-Identifier: MIT */
/* uri_print.c - a parsed URI as text again, without its secrets. */
#include "load/uri.h"

#include "lib/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that stay as they are, besides letters and digits. '@' comes first, to be left out by + 1:
 * the parser refuses it after an authority that is not empty. */
#define PLAIN_IN_USER  "-._~!$*+;"
#define PLAIN_IN_PATH  "@-._~!$*+,;=:/"
#define PLAIN_IN_VALUE "@-._~!$*+,;=:/?"

static void put_encoded(FILE *out, const char *text, const char *plain)
{
    for (; *text != '\0'; text++) {
        int c = (unsigned char)*text;
        int letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';

        if (letter || (c >= '0' && c <= '9') || strchr(plain, c) != NULL)
            (void)fputc(c, out);
        else
            (void)fprintf(out, "%%%02X", (unsigned)c);
    }
}

static bool value_is_secret(const struct dl_uri_option *option)
{
    return dl_secret_is_named(option->name) ||
           (strstr(option->value, "://") != NULL && strchr(option->value, '@') != NULL);
}

/* 1 or 0. */
static int authority_filled(const struct dl_uri *uri)
{
    return uri->hosts[0] != NULL || uri->user != NULL || uri->password != NULL;
}

static void put_authority(FILE *out, const struct dl_uri *uri)
{
    (void)fputs("//", out);
    if (uri->user != NULL)
        put_encoded(out, uri->user, PLAIN_IN_USER);
    if (uri->password != NULL)
        (void)fputs(":" DL_SECRET_SHOWN, out);
    if (uri->user != NULL || uri->password != NULL)
        (void)fputc('@', out);
    for (size_t i = 0; uri->hosts[i] != NULL; i++)
        (void)fprintf(out, "%s%s", i == 0 ? "" : ",", uri->hosts[i]);
}

static void put_path(FILE *out, const struct dl_uri *uri)
{
    const char *path = uri->path;

    /* Without an authority "//" at the front would begin one. */
    if (!uri->authority && strncmp(path, "//", 2) == 0) {
        (void)fputs("%2F", out);
        path++;
    }
    put_encoded(out, path, PLAIN_IN_PATH + authority_filled(uri));
}

char *dl_uri_print(const struct dl_uri *uri)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    (void)fprintf(out, "%s:", uri->scheme);
    if (uri->authority)
        put_authority(out, uri);
    put_path(out, uri);
    for (size_t i = 0; i < uri->query.count; i++) {
        const struct dl_uri_option *option = &uri->query.options[i];

        (void)fprintf(out, "%c%s=", i == 0 ? '?' : '&', option->name);
        if (value_is_secret(option))
            (void)fputs(DL_SECRET_SHOWN, out);
        else
            put_encoded(out, option->value, PLAIN_IN_VALUE + authority_filled(uri));
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
