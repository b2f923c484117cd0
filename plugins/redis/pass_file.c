/* SPDX-License-Identifier: MIT */
#include "pass_file.h"
#include "config.h"
#include "lib/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096
#define WHAT           "sentinel_pass_file"

static enum dlock_status fail(struct dlock_error *err, enum dlock_status status, const char *why)
{
    return dlock_fail(err, REDIS_ORIGIN, status, 0, WHAT ": %s", why);
}

static enum dlock_status file_judge(int fd, struct dlock_error *err)
{
    struct stat file;

    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return fail(err, DLOCK_INVALID, "not a regular file");
    if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(err, DLOCK_CONFIG, "others may write the file: chmod go-w");
    return DLOCK_OK;
}

static enum dlock_status line_read(int fd, char *text, struct dlock_error *err)
{
    ssize_t len = read(fd, text, LINE_MAX_BYTES);

    if (len < 0)
        return fail(err, DLOCK_INVALID, strerror(errno));
    text[len] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    return text[0] != '\0' ? DLOCK_OK : fail(err, DLOCK_INVALID, "the file has no password");
}

enum dlock_status redis_pass_file_read(const char *path, char **secret, struct dlock_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    enum dlock_status status = DLOCK_INTERNAL;

    *secret = NULL;
    if (fd < 0)
        return fail(err, DLOCK_INVALID, strerror(errno));
    status = file_judge(fd, err);
    if (status == DLOCK_OK && (*secret = calloc(1, LINE_MAX_BYTES + 1)) == NULL)
        status = fail(err, DLOCK_NOMEM, "no memory for a password");
    if (status == DLOCK_OK)
        status = line_read(fd, *secret, err);
    (void)close(fd);
    if (status != DLOCK_OK) {
        dl_secret_free(*secret);
        *secret = NULL;
    }
    return status;
}
