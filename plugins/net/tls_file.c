/* SPDX-License-Identifier: MIT */
#include "net/tls_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SHOWN 80 /* bytes: a message is short */

const char *tls_file_from(const char *directory, const char *path, char *buf)
{
    if (path[0] == '/' || directory == NULL)
        return path;
    (void)snprintf(buf, TLS_PATH_SIZE, "%s/%s", directory, path);
    return buf;
}

void tls_file_why(const char *option, const char *path, const char *what, char *why, size_t size)
{
    size_t len = strlen(path);
    size_t passed = len > PATH_SHOWN ? len - PATH_SHOWN : 0;

    (void)snprintf(why, size, "%s=%s%s: %s", option, passed > 0 ? "..." : "", path + passed, what);
}

/* Not opened: it may be a pipe, which gives what is in it once. */
static int file_error(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 ? errno : 0;
}

bool tls_file_check(const char *option, const char *path, char *why, size_t size)
{
    int code = file_error(path);
    char text[96];

    if (code != 0)
        tls_file_why(option, path, strerror_r(code, text, sizeof text), why, size);
    return code == 0;
}
