/* SPDX-License-Identifier: MIT */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NAME_LEN_MAX (NAME_MAX - 16) /* file systems take NAME_MAX, a suffix included */

struct fs_name {
    uint32_t magic; /* statfs(2), linux/magic.h */
    const char *name;
    int network; /* or served by a process that may be anywhere */
};

static const struct fs_name fs_names[] = {
    {0x0000ef53u, "ext4", 0},     {0x58465342u, "xfs", 0},      {0x9123683eu, "btrfs", 0},
    {0x01021994u, "tmpfs", 0},    {0xf2f52010u, "f2fs", 0},     {0x2fc12fc1u, "zfs", 0},
    {0x794c7630u, "overlay", 0},  {0xca451a4eu, "bcachefs", 0}, {0x00004d44u, "vfat", 0},
    {0x00006969u, "nfs", 1},      {0x0000517bu, "smb", 1},      {0xff534d42u, "cifs", 1},
    {0xfe534d42u, "smb2", 1},     {0x65735546u, "fuse", 1},     {0x01021997u, "9p", 1},
    {0x00c36400u, "ceph", 1},     {0x5346414fu, "afs", 1},      {0x6b414653u, "kafs", 1},
    {0x73757245u, "coda", 1},     {0x0000564cu, "ncp", 1},      {0x7461636fu, "ocfs2", 1},
    {0x01161970u, "gfs2", 1},     {0x0bd00bd0u, "lustre", 1},   {0x47504653u, "gpfs", 1},
    {0x20030528u, "orangefs", 1}, {0x786f4256u, "vboxsf", 1},   {0x6a656a63u, "virtiofs", 1},
};

static const struct fs_name *fs_find(uint32_t magic)
{
    for (size_t i = 0; i < sizeof fs_names / sizeof fs_names[0]; i++)
        if (fs_names[i].magic == magic)
            return &fs_names[i];
    return NULL;
}

static enum dlock_status out_of_memory(struct dlock_error *err)
{
    return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a path");
}

static enum dlock_status absolute(const struct dlock_target *target, char **path,
                                  struct dlock_error *err)
{
    const char *asked = target->path;

    if (target->hosts[0] != NULL || target->user != NULL || target->password != NULL)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_INVALID, 0,
                          "a file has no host or user: want sqlite:///absolute/path or "
                          "sqlite:relative/path");
    if (asked[0] == '\0' || asked[strlen(asked) - 1] == '/')
        return dlock_fail(err, SQ_ORIGIN, DLOCK_INVALID, 0,
                          "want the path of a file, as in sqlite:///var/lib/app/locks.db");
    if (asked[0] == '/')
        *path = strdup(asked);
    else if (target->directory == NULL)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "%.180s is relative, and there is no working directory", asked);
    else if (asprintf(path, "%s/%s", target->directory, asked) < 0)
        *path = NULL;
    return *path != NULL ? DLOCK_OK : out_of_memory(err);
}

enum dlock_status sqlite_place_no_store(const struct sqlite_place *place, struct dlock_error *err)
{
    return dlock_fail(err, SQ_ORIGIN, DLOCK_NO_STORE, ENOENT, "there is no store at %.200s",
                      place->path);
}

/* Of a file that is not there: of its directory, which must be. */
static enum dlock_status directory_find(struct sqlite_place *place, const char *path,
                                        struct dlock_error *err)
{
    int number = sqlite_links_resolve(path, &place->directory, err);

    if (number == ENOENT && !place->create)
        return sqlite_place_no_store(place, err);
    if (number == ENOENT)
        return sqlite_fail_errno(err, path, "enter directory", number);
    return number == 0 ? DLOCK_OK : err->status;
}

static enum dlock_status resolve_new(struct sqlite_place *place, struct dlock_error *err)
{
    char *slash = strrchr(place->path, '/');
    char *parent = strndup(place->path, (size_t)(slash - place->path) + 1);
    enum dlock_status status = DLOCK_INTERNAL;

    if (parent == NULL)
        return out_of_memory(err);
    status = directory_find(place, parent, err);
    free(parent);
    if (status == DLOCK_OK &&
        asprintf(&place->real, "%s/%s", strcmp(place->directory, "/") == 0 ? "" : place->directory,
                 slash + 1) < 0) {
        place->real = NULL;
        status = out_of_memory(err);
    }
    return status;
}

static enum dlock_status resolve(struct sqlite_place *place, struct dlock_error *err)
{
    const char *slash = NULL;
    int number = sqlite_links_resolve(place->path, &place->real, err);

    if (number == ENOENT)
        return resolve_new(place, err);
    if (number != 0)
        return err->status;
    slash = strrchr(place->real, '/');
    place->directory =
        strndup(place->real, slash == place->real ? 1 : (size_t)(slash - place->real));
    return place->directory != NULL ? DLOCK_OK : out_of_memory(err);
}

static int permitted(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

int sqlite_place_closed(const struct sqlite_place *place)
{
    return permitted(place->directory, W_OK | X_OK) ? 0 : errno;
}

int sqlite_place_has(const struct sqlite_place *place, const char *suffix)
{
    char *path = sqlite_place_sibling(place, suffix);
    struct stat st;
    int has = path == NULL || lstat(path, &st) == 0 || errno != ENOENT;

    free(path);
    return has;
}

/* Of a file that is there. Who may write it, but not make -wal and -shm, reads as well. */
static enum sqlite_access access_found(const struct sqlite_place *place)
{
    int wal = sqlite_place_has(place, "-wal"), shm = sqlite_place_has(place, "-shm");

    if (permitted(place->real, W_OK) && ((wal && shm) || sqlite_place_closed(place) == 0))
        return SQ_ACCESS_WRITE;
    return wal || shm ? SQ_ACCESS_READ : SQ_ACCESS_SNAPSHOT;
}

/* Of a file that its owner alone may write. What others put beside it, SQLite would believe. */
static enum dlock_status beside_judge(const struct sqlite_place *place, const struct stat *file,
                                      const char *suffix, struct dlock_error *err)
{
    char *path = sqlite_place_sibling(place, suffix);
    struct stat st;
    enum dlock_status status = DLOCK_OK;

    if (path == NULL)
        return out_of_memory(err);
    if (lstat(path, &st) == 0 && st.st_uid != file->st_uid && st.st_uid != 0)
        status = dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, 0,
                            "%.150s is of another user than the store, in a directory in which "
                            "everybody may make one",
                            path);
    free(path);
    return status;
}

static enum dlock_status directory_judge(const struct sqlite_place *place, const struct stat *file,
                                         struct dlock_error *err)
{
    struct stat directory;
    enum dlock_status status = DLOCK_OK;

    if (stat(place->directory, &directory) != 0)
        return sqlite_fail_errno(err, place->directory, "look at", errno);
    if ((directory.st_mode & S_IWOTH) == 0 || (file->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return DLOCK_OK;
    status = beside_judge(place, file, "-wal", err);
    return status == DLOCK_OK ? beside_judge(place, file, "-shm", err) : status;
}

static enum dlock_status file_judge(struct sqlite_place *place, const struct stat *st,
                                    struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    if (!S_ISREG(st->st_mode))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0, "%.200s is not a regular file",
                          place->path);
    if (st->st_nlink > 1) /* each name would have a log of its own */
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "%.180s has %lu hard links; a store has one name", place->path,
                          (unsigned long)st->st_nlink);
    status = directory_judge(place, st, err);
    if (status != DLOCK_OK || place->create)
        return status;
    if (st->st_size == 0)
        return sqlite_place_no_store(place, err);
    place->access = access_found(place);
    if (place->access == SQ_ACCESS_READ && sqlite_place_closed(place) == 0)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, 0,
                          "%.150s is in use, and this user may make files beside it and not write "
                          "it: -wal and -shm that SQLite makes would be this user's",
                          place->path);
    return DLOCK_OK;
}

enum dlock_status sqlite_place_init(struct sqlite_place *place, const struct dlock_target *target,
                                    struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    struct stat st;

    memset(place, 0, sizeof *place);
    place->create = target->number(target, "create") != 0;
    status = absolute(target, &place->path, err);
    if (status == DLOCK_OK)
        status = resolve(place, err);
    if (status != DLOCK_OK)
        return status;
    if (strlen(place->real) > SQ_REAL_MAX || strlen(strrchr(place->real, '/') + 1) > NAME_LEN_MAX)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, ENAMETOOLONG,
                          "%.150s... is too long: at most %d bytes, and %d after the last /",
                          place->real, SQ_REAL_MAX, NAME_LEN_MAX);
    if (stat(place->real, &st) != 0)
        return place->create ? DLOCK_OK : sqlite_place_no_store(place, err);
    return file_judge(place, &st, err);
}

void sqlite_place_fini(struct sqlite_place *place)
{
    free(place->path);
    free(place->real);
    free(place->directory);
    memset(place, 0, sizeof *place);
}

static int fs_magic(const struct sqlite_place *place, uint32_t *magic)
{
    struct statfs fs;

    if (statfs(place->directory, &fs) != 0)
        return errno;
    *magic = (uint32_t)fs.f_type;
    return 0;
}

int sqlite_place_local(const struct sqlite_place *place)
{
    const struct fs_name *fs = NULL;
    uint32_t magic = 0;

    if (fs_magic(place, &magic) != 0)
        return 0;
    fs = fs_find(magic);
    return fs == NULL || !fs->network;
}

enum dlock_status sqlite_place_check(const struct sqlite_place *place, struct dlock_error *err)
{
    char magic[16];

    if (sqlite_place_local(place))
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                      "%.150s is on %s, where locks of other hosts are not seen; "
                      "unsafe_network_fs=on accepts that",
                      place->path, sqlite_place_fs(place, magic, sizeof magic));
}

const char *sqlite_place_fs(const struct sqlite_place *place, char *buf, size_t size)
{
    const struct fs_name *fs = NULL;
    uint32_t magic = 0;

    if (fs_magic(place, &magic) != 0)
        return "unknown";
    fs = fs_find(magic);
    if (fs != NULL)
        return fs->name;
    (void)snprintf(buf, size, "0x%08x", magic);
    return buf;
}

char *sqlite_place_sibling(const struct sqlite_place *place, const char *suffix)
{
    char *path = NULL;

    return asprintf(&path, "%s%s", place->real, suffix) < 0 ? NULL : path;
}
