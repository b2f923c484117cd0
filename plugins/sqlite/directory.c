/* SPDX-License-Identifier: MIT */
#include "directory.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

int sqlite_directory_lock(const char *directory, int64_t until_ns)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    for (int round = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; round++) {
        int rc = errno;

        if ((rc == EWOULDBLOCK || rc == EINTR) && sqlite_clock_nap(round, until_ns))
            continue;
        (void)close(fd);
        errno = rc == EWOULDBLOCK ? EBUSY : rc;
        return -1;
    }
    return fd;
}

void sqlite_directory_unlock(int fd)
{
    /* Not by close alone: a forked child may keep the descriptor for a while. */
    (void)flock(fd, LOCK_UN);
    (void)close(fd);
}
