/* SPDX-License-Identifier: MIT */
#include "load/elf_check.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ == 8
#define CLASS_NATIVE ELFCLASS64
#else
#define CLASS_NATIVE ELFCLASS32
#endif

/* False with errno 0: the file ends before. */
static bool read_at(int fd, void *buf, size_t len, uint64_t offset)
{
    ssize_t got = -1;

    errno = 0;
    if (offset > INT64_MAX)
        return false;
    do {
        errno = 0;
        got = pread(fd, buf, len, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)len;
}

static bool header_native(const ElfW(Ehdr) * header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == CLASS_NATIVE && header->e_phentsize == sizeof(ElfW(Phdr));
}

/* The end of the last segment that is loaded; UINT64_MAX: the program headers are not there. */
static uint64_t segments_end(int fd, const ElfW(Ehdr) * header)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        uint64_t here = 0;

        if (!read_at(fd, &segment, sizeof segment, header->e_phoff + i * sizeof segment))
            return UINT64_MAX;
        if (segment.p_type != PT_LOAD)
            continue;
        if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &here))
            return UINT64_MAX;
        end = here > end ? here : end;
    }
    return end;
}

bool dl_elf_complete(const char *path, char *why, size_t why_size)
{
    ElfW(Ehdr) header;
    struct stat st;
    bool complete = false;
    int fd;

    errno = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        if (read_at(fd, &header, sizeof header, 0) && header_native(&header))
            complete = segments_end(fd, &header) <= (uint64_t)st.st_size;
        else
            complete = errno == 0;
    }
    if (!complete && errno != 0)
        (void)snprintf(why, why_size, "cannot read it: %s", strerrordesc_np(errno));
    else if (!complete)
        (void)snprintf(why, why_size,
                       "the file is truncated: a segment ends beyond its %lld "
                       "bytes",
                       (long long)st.st_size);
    if (fd >= 0)
        (void)close(fd);
    return complete;
}
