/* SPDX-License-Identifier: MIT */
#include "lib/pid_space.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_ID_CHARS 36

static bool boot_id_read(char out[BOOT_ID_CHARS])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, BOOT_ID_CHARS) : -1;

    if (fd >= 0)
        (void)close(fd);
    return n == BOOT_ID_CHARS;
}

/* FNV-1a */
static uint32_t digest_add(uint32_t digest, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        digest = (digest ^ at[i]) * UINT32_C(16777619);
    return digest;
}

void dl_pid_space_read(char out[DL_PID_SPACE_SIZE])
{
    uint32_t digest = UINT32_C(2166136261);
    char boot_id[BOOT_ID_CHARS];
    struct stat namespace;

    out[0] = '\0';
    if (!dl_pid_space_is_in_proc() || stat("/proc/self/ns/pid", &namespace) != 0 ||
        !boot_id_read(boot_id))
        return;
    digest = digest_add(digest, boot_id, sizeof boot_id);
    digest = digest_add(digest, &namespace.st_ino, sizeof namespace.st_ino);
    (void)snprintf(out, DL_PID_SPACE_SIZE, "%08" PRIx32, digest);
}

bool dl_pid_space_is_in_proc(void)
{
    char self[16] = "";

    return readlink("/proc/self", self, sizeof self - 1) > 0 &&
           strtol(self, NULL, 10) == (long)getpid();
}
