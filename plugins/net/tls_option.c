/* SPDX-License-Identifier: MIT */
#include "net/tls.h"

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

static enum dlock_status unasked(const struct dlock_target *target, const char *origin,
                                 const char *missing, struct dlock_error *err)
{
    static const char *const names[] = {"ca", "cert", "key_file", "verify", "sni"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (target->option(target, names[i]) != NULL)
            return dlock_fail(err, origin, DLOCK_INVALID, 0, "%s= is for TLS: %s", names[i],
                              missing);
    return DLOCK_OK;
}

enum dlock_status tls_options_take(struct tls_options *options, const struct dlock_target *target,
                                   const char *origin, const char *missing, struct dlock_error *err)
{
    const char *verify = target->option(target, "verify");

    *options = (struct tls_options){
        .ca = target->option(target, "ca"),
        .cert = target->option(target, "cert"),
        .key = target->option(target, "key_file"),
        .directory = target->directory,
        .verify = TLS_VERIFY_FULL,
    };
    if (missing != NULL)
        return unasked(target, origin, missing, err);
    if ((options->cert == NULL) != (options->key == NULL))
        return dlock_fail(err, origin, DLOCK_INVALID, 0, "cert= and key_file= go together");
    if (verify != NULL && strcmp(verify, "ca") == 0)
        options->verify = TLS_VERIFY_CA;
    else if (verify != NULL && strcmp(verify, "none") == 0)
        options->verify = TLS_VERIFY_NONE;
    return DLOCK_OK;
}

static bool check(const struct tls_options *options, const char *option, const char *path,
                  char *why, size_t size)
{
    char buf[TLS_PATH_SIZE];

    return path == NULL ||
           tls_file_check(option, tls_file_from(options->directory, path, buf), why, size);
}

bool tls_options_check(const struct tls_options *options, char *why, size_t size)
{
    return check(options, "ca", options->ca, why, size) &&
           check(options, "cert", options->cert, why, size) &&
           check(options, "key_file", options->key, why, size);
}
