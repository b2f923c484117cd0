/* SPDX-License-Identifier: MIT */
#include "usage.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

static int64_t entries(const char *path)
{
    DIR *directory = opendir(path);
    int64_t count = 0;

    if (directory == NULL)
        return -1;
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory))
        count += entry->d_name[0] != '.';
    (void)closedir(directory);
    return count;
}

static int64_t resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (file == NULL)
        return -1;
    if (fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

struct usage usage_now(void)
{
    struct mallinfo2 info = mallinfo2();

    return (struct usage){.heap = (int64_t)(info.uordblks + info.hblkhd),
                          .resident = resident(),
                          .descriptors = entries("/proc/self/fd"),
                          .threads = entries("/proc/self/task")};
}
