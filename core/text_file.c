/* SPDX-License-Identifier: MIT */
#include "text_file.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

enum dlock_status dl_text_file_read(const char *path, const char *what, char **text,
                                    struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    const char *fault = NULL;
    char *buf = NULL;
    ssize_t got = -1;
    size_t len = 0;
    int fd = -1;

    if (path[0] != '/')
        return dl_error(err, DLOCK_INVALID, "%s: an absolute path is needed", what);
    buf = malloc(BUFFER_SIZE);
    if (buf == NULL)
        return dl_error(err, DLOCK_NOMEM, "%s: no memory", what);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0)
        got = read_all(fd, buf, BUFFER_SIZE);
    if (got < 0) {
        status = dl_error(err, DLOCK_INVALID, "%s: cannot read %.160s: %s", what, path,
                          strerrordesc_np(errno));
        goto out;
    }
    len = (size_t)got;
    fault = line_check(buf, &len);
    if (fault != NULL)
        status = dl_error(err, DLOCK_INVALID, "%s: %.160s %s", what, path, fault);
    else
        *text = strdup(buf);
    if (fault == NULL)
        status = *text != NULL ? DLOCK_OK : dl_error(err, DLOCK_NOMEM, "%s: no memory", what);
out:
    if (fd >= 0)
        (void)close(fd);
    explicit_bzero(buf, BUFFER_SIZE);
    free(buf);
    return status;
}
