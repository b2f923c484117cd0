/* SPDX-License-Identifier: MIT */
#include "lib/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_WARNING 1                      /* DLOCK_LOG_WARNING of dlock.h */
#define BUFFER_SIZE (DL_TEXT_FILE_MAX + 3) /* CR LF, and one more to see that there is more */

/* Fills buf as far as the file goes. -1: errno. */
static ssize_t read_all(int fd, char *buf, size_t size)
{
    size_t used = 0;

    while (used < size) {
        ssize_t got = read(fd, buf + used, size - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

/* Cuts the end of the line, and judges the rest. NULL: fine. */
static const char *line_check(char *buf, size_t *len)
{
    if (*len > 0 && buf[*len - 1] == '\n')
        --*len;
    if (*len > 0 && buf[*len - 1] == '\r')
        --*len;
    if (*len == 0)
        return "is empty";
    if (*len > DL_TEXT_FILE_MAX)
        return "is too long";
    for (size_t i = 0; i < *len; i++)
        if ((unsigned char)buf[i] < 0x20 || buf[i] == 0x7f)
            return "has more than one line, or control characters";
    buf[*len] = '\0';
    return NULL;
}

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a FIFO";
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "a socket";
}

/* What the path names, and what its mode says. */
static enum dlock_status file_check(int fd, const char *path, const char *what,
                                    enum dl_exposure *exposure, struct dlock_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return dlock_fail(err, "core", DLOCK_INVALID, 0, "%s: cannot read %.160s: %s", what, path,
                          strerrordesc_np(errno));
    if (!S_ISREG(st.st_mode))
        return dlock_fail(err, "core", DLOCK_INVALID, 0, "%s: %.160s is %s: want a regular file",
                          what, path, kind_of(st.st_mode));
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return dlock_fail(err, "core", DLOCK_CONFIG, 0,
                          "%s: %.140s belongs to user %u, who may write it: want a file of root or "
                          "of this user (%u)",
                          what, path, st.st_uid, geteuid());
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return dlock_fail(err, "core", DLOCK_CONFIG, 0,
                          "%s: its group or others may write %.140s (mode %04o): chmod go-w", what,
                          path, st.st_mode & 07777u);
    *exposure = (st.st_mode & S_IROTH) != 0 ? DL_EXPOSED_TO_ALL : DL_EXPOSED_TO_NOBODY;
    return DLOCK_OK;
}

static enum dlock_status line_read(int fd, const char *path, const char *what, char *buf,
                                   struct dlock_error *err)
{
    const char *fault = NULL;
    ssize_t got = read_all(fd, buf, BUFFER_SIZE);
    size_t len = 0;

    if (got < 0)
        return dlock_fail(err, "core", DLOCK_INVALID, 0, "%s: cannot read %.160s: %s", what, path,
                          strerrordesc_np(errno));
    len = (size_t)got;
    fault = line_check(buf, &len);
    if (fault != NULL)
        return dlock_fail(err, "core", DLOCK_INVALID, 0, "%s: %.160s %s", what, path, fault);
    return DLOCK_OK;
}

enum dlock_status dl_text_file_read(const char *path, const char *what, char **text,
                                    enum dl_exposure *exposure, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    char *buf = NULL;
    int fd = -1;

    if (path[0] != '/')
        return dlock_fail(err, "core", DLOCK_INVALID, 0, "%s: an absolute path is needed", what);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO would be waited for */
    if (fd < 0)
        return dlock_fail(err, "core", DLOCK_INVALID, 0, "%s: cannot read %.160s: %s", what, path,
                          strerrordesc_np(errno));
    buf = malloc(BUFFER_SIZE);
    if (buf == NULL)
        status = dlock_fail(err, "core", DLOCK_NOMEM, 0, "%s: no memory", what);
    else
        status = file_check(fd, path, what, exposure, err);
    if (status == DLOCK_OK)
        status = line_read(fd, path, what, buf, err);
    if (status == DLOCK_OK && (*text = strdup(buf)) == NULL)
        status = dlock_fail(err, "core", DLOCK_NOMEM, 0, "%s: no memory", what);
    (void)close(fd);
    if (buf != NULL)
        explicit_bzero(buf, BUFFER_SIZE);
    free(buf);
    return status;
}

void dl_text_file_warn(const struct dlock_host *host, const char *what, const char *path)
{
    char line[512];

    (void)snprintf(line, sizeof line, "%s: all users may read the secret in %.300s: chmod o-r",
                   what, path);
    host->log(host->ctx, LOG_WARNING, line);
}
