/* SPDX-License-Identifier: MIT */
/* privileged.h - a copy of a test program that runs as a set-user-ID program. */
#ifndef DLT_PRIVILEGED_H
#define DLT_PRIVILEGED_H

#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DLT_PRIVILEGED     "--privileged" /* the copy's only argument */
#define DLT_NOT_PRIVILEGED 77             /* its exit code if AT_SECURE is 0 */

static inline bool dlt_privileged_copy(const char *path)
{
    static char buf[64 * 1024];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t got = -1;

    while (in >= 0 && out >= 0 && (got = read(in, buf, sizeof buf)) > 0)
        if (write(out, buf, (size_t)got) != got)
            break;
    return got == 0 && fchown(out, 65533, 65533) == 0 && fchmod(out, 04755) == 0 &&
           close(out) == 0 && close(in) == 0;
}

/* Runs the copy with our environment: ok if it exits with 0. Skipped without root. */
static inline void dlt_privileged_ok(const char *name)
{
    char dir[] = "/tmp/dlock-setuid-XXXXXX", path[64];
    int wait_status = -1;
    pid_t child = -1;

    if (geteuid() != 0) {
        dlt_skip(name, "needs root to make one");
        return;
    }
    if (mkdtemp(dir) == NULL || chmod(dir, 0755) != 0)
        abort();
    (void)snprintf(path, sizeof path, "%s/probe", dir);
    if (!dlt_privileged_copy(path))
        abort();
    child = fork();
    if (child == 0) {
        (void)execl(path, path, DLT_PRIVILEGED, (char *)NULL);
        _exit(126);
    }
    (void)waitpid(child, &wait_status, 0);
    (void)unlink(path);
    (void)rmdir(dir);
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == DLT_NOT_PRIVILEGED)
        dlt_skip(name, "the temporary directory has no set-user-id bit");
    else
        (void)dlt_ok(wait_status == 0, "%s", name);
}

#endif
