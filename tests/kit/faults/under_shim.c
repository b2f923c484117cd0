/* SPDX-License-Identifier: MIT */
#include "under_shim.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The exit status of this program, started again; as a shell says it. */
static int again(char **argv)
{
    int status = -1;
    pid_t pid = 0;

    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0)
        return 71;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const char *dlt_under_shim(char **argv, const char *variable, bool (*preload)(const char *path))
{
    const char *file = getenv(variable);
    char dir[256], path[300];
    int fd, rc = 71;

    if (file != NULL)
        return file;
    if (dlt_tempdir_make(dir, sizeof dir) != 0)
        exit(rc);
    (void)snprintf(path, sizeof path, "%s/page", dir);
    /* Large enough for any shim's page; the program makes it its own size. */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, 4096) == 0 && close(fd) == 0 && preload(path))
        rc = again(argv);
    dlt_tempdir_remove(dir);
    exit(rc);
}
