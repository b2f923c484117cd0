/* SPDX-License-Identifier: MIT */
#include "shared.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void guards_init(struct shared *shared)
{
    pthread_mutexattr_t attributes;

    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (unsigned i = 0; i < NAMES_MOST; i++)
        (void)pthread_mutex_init(&shared->resources[i].guard, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
}

struct shared *shared_open(const char *directory, bool create)
{
    char path[PATH_MAX];
    void *map = MAP_FAILED;
    int fd = -1;

    (void)snprintf(path, sizeof path, "%s/shared", directory);
    fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0)
        return NULL;
    if (!create || ftruncate(fd, sizeof(struct shared)) == 0)
        map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return NULL;
    if (create)
        guards_init(map);
    return map;
}

void shared_close(struct shared *shared)
{
    if (shared != NULL)
        (void)munmap(shared, sizeof *shared);
}
