/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <errno.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

pid_t dlt_tool_start(char *const argv[], int *fd)
{
    posix_spawn_file_actions_t actions;
    int ends[2], rc;
    pid_t pid = -1;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    rc = posix_spawn_file_actions_init(&actions);
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        if (rc == 0)
            rc = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(ends[1]);
    if (rc != 0) {
        (void)close(ends[0]);
        errno = rc;
        return -1;
    }
    *fd = ends[0];
    return pid;
}

bool dlt_line_read(int fd, char *line, size_t size)
{
    size_t used = 0;

    for (;;) {
        char byte = 0;
        ssize_t got = read(fd, &byte, 1);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || byte == '\n') {
            line[used] = '\0';
            return got > 0;
        }
        if (used + 1 < size)
            line[used++] = byte;
    }
}

bool dlt_write_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t wrote = send(fd, at, len, MSG_NOSIGNAL);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        at += wrote;
        len -= (size_t)wrote;
    }
    return true;
}
