/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: all directories are on NFS. */
#include <string.h>
#include <sys/statfs.h>

int statfs(const char *path, struct statfs *fs)
{
    (void)path;
    memset(fs, 0, sizeof *fs);
    fs->f_type = 0x6969;
    return 0;
}
