/* SPDX-License-Identifier: MIT */
#include "tempdir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "{tmp}"

int dlt_tempdir_make(char *dir, unsigned long dir_size)
{
    const char *base = getenv("TMPDIR");
    int len = snprintf(dir, dir_size, "%s/dlock-conformance-XXXXXX", base != NULL ? base : "/tmp");

    return len < 0 || (unsigned long)len >= dir_size || mkdtemp(dir) == NULL ? -1 : 0;
}

char *dlt_tempdir_expand(const char *uri, char *dir, unsigned long dir_size)
{
    char *out = NULL;
    size_t size = 0;
    FILE *text = NULL;
    const char *mark = NULL;

    dir[0] = '\0';
    if (strstr(uri, MARK) != NULL && dlt_tempdir_make(dir, dir_size) != 0)
        return NULL;
    text = open_memstream(&out, &size);
    if (text == NULL)
        return NULL;
    for (mark = strstr(uri, MARK); mark != NULL; mark = strstr(uri, MARK)) {
        (void)fprintf(text, "%.*s%s", (int)(mark - uri), uri, dir);
        uri = mark + strlen(MARK);
    }
    (void)fputs(uri, text);
    if (fclose(text) != 0)
        return NULL;
    return out;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void dlt_tempdir_remove(const char *dir)
{
    if (dir[0] != '\0')
        (void)nftw(dir, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}
