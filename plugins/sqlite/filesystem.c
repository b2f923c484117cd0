/* SPDX-License-Identifier: MIT */
#include "filesystem.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/vfs.h>

struct fs_name {
    uint32_t magic; /* statfs(2), linux/magic.h */
    const char *name;
    bool network; /* or served by a process that may be anywhere */
};

static const struct fs_name fs_names[] = {
    {0x0000ef53u, "ext4", false},    {0x58465342u, "xfs", false},
    {0x9123683eu, "btrfs", false},   {0x01021994u, "tmpfs", false},
    {0xf2f52010u, "f2fs", false},    {0x2fc12fc1u, "zfs", false},
    {0x794c7630u, "overlay", false}, {0xca451a4eu, "bcachefs", false},
    {0x00004d44u, "vfat", false},    {0x00006969u, "nfs", true},
    {0x0000517bu, "smb", true},      {0xff534d42u, "cifs", true},
    {0xfe534d42u, "smb2", true},     {0x65735546u, "fuse", true},
    {0x01021997u, "9p", true},       {0x00c36400u, "ceph", true},
    {0x5346414fu, "afs", true},      {0x6b414653u, "kafs", true},
    {0x73757245u, "coda", true},     {0x0000564cu, "ncp", true},
    {0x7461636fu, "ocfs2", true},    {0x01161970u, "gfs2", true},
    {0x0bd00bd0u, "lustre", true},   {0x47504653u, "gpfs", true},
    {0x20030528u, "orangefs", true}, {0x786f4256u, "vboxsf", true},
    {0x6a656a63u, "virtiofs", true},
};

/* False: not known at all. *known is NULL if the number has no name here. */
static bool find(const char *directory, uint32_t *magic, const struct fs_name **known)
{
    struct statfs fs;

    *known = NULL;
    if (statfs(directory, &fs) != 0)
        return false;
    *magic = (uint32_t)fs.f_type;
    for (size_t i = 0; i < sizeof fs_names / sizeof fs_names[0]; i++)
        if (fs_names[i].magic == *magic)
            *known = &fs_names[i];
    return true;
}

bool sqlite_filesystem_is_local(const char *directory)
{
    const struct fs_name *known = NULL;
    uint32_t magic = 0;

    return find(directory, &magic, &known) && (known == NULL || !known->network);
}

const char *sqlite_filesystem_name(const char *directory, char *buf, size_t size)
{
    const struct fs_name *known = NULL;
    uint32_t magic = 0;

    if (!find(directory, &magic, &known))
        return "unknown";
    if (known != NULL)
        return known->name;
    (void)snprintf(buf, size, "0x%08x", magic);
    return buf;
}
