/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "os_error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

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

bool sqlite_config_is_local(const char *directory)
{
    const struct fs_name *known = NULL;
    uint32_t magic = 0;

    return find(directory, &magic, &known) && (known == NULL || !known->network);
}

const char *sqlite_config_filesystem(const char *directory, char *buf, size_t size)
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

/* Links are followed as the kernel follows them with fs.protected_symlinks, also where that is off.
 * The same rule holds for files and directories: who made one there can change what is in it. */

#define LINKS_MAX 40 /* as the kernel */

struct walk {
    char done[PATH_MAX]; /* without links; "" is the root */
    char rest[PATH_MAX];
    int links;
};

bool sqlite_config_may_follow(const char *directory, const struct stat *entry)
{
    struct stat parent;

    if (stat(directory[0] != '\0' ? directory : "/", &parent) != 0)
        return false;
    return (parent.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH) ||
           entry->st_uid == geteuid() || entry->st_uid == parent.st_uid;
}

/* Puts the target of the link before the rest. Returns an errno. */
static int link_follow(struct walk *walk, const char *link)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t n = readlink(link, target, sizeof target - 1);

    if (n < 0)
        return errno;
    if (++walk->links > LINKS_MAX)
        return ELOOP;
    target[n] = '\0';
    if (snprintf(rest, sizeof rest, "%s/%s", target, walk->rest) >= (int)sizeof rest)
        return ENAMETOOLONG;
    (void)memcpy(walk->rest, rest, sizeof rest);
    if (target[0] == '/')
        walk->done[0] = '\0';
    return 0;
}

/* Appends one name to what is done. Returns an errno; EPERM: `at` is refused. */
static int step(struct walk *walk, const char *name, char *at)
{
    char *slash = strrchr(walk->done, '/');
    struct stat st;

    if (strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0) {
        if (slash != NULL)
            *slash = '\0';
        return 0;
    }
    if (snprintf(at, PATH_MAX, "%s/%s", walk->done, name) >= PATH_MAX)
        return ENAMETOOLONG;
    if (lstat(at, &st) != 0)
        return errno;
    if (!sqlite_config_may_follow(walk->done, &st))
        return EPERM;
    if (S_ISLNK(st.st_mode))
        return link_follow(walk, at);
    (void)memcpy(walk->done, at, strlen(at) + 1);
    return 0;
}

enum dlock_status sqlite_config_refuse(const char *path, struct dlock_error *err)
{
    return dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, EPERM,
                      "%.180s belongs to another user, in a directory in which everybody may make "
                      "files",
                      path);
}

static int failed(int number, const char *path, const char *at, struct dlock_error *err)
{
    if (number == EPERM)
        (void)sqlite_config_refuse(at, err);
    else if (number != ENOENT)
        (void)sqlite_os_error_fail(err, path, "find", number);
    return number;
}

/* As realpath(3), but what another user may have put on the way is EPERM. Returns 0 or an errno;
 * err is filled, except for ENOENT. The caller frees *real. */
static int path_resolve(const char *path, char **real, struct dlock_error *err)
{
    struct walk walk = {.links = 0};
    char name[NAME_MAX + 1], at[PATH_MAX] = "";
    int number = strlen(path) < sizeof walk.rest ? 0 : ENAMETOOLONG;

    if (number == 0)
        (void)memcpy(walk.rest, path, strlen(path) + 1);
    while (number == 0) {
        size_t skip = strspn(walk.rest, "/");
        size_t length = strcspn(walk.rest + skip, "/");

        if (length == 0)
            break;
        if (length > NAME_MAX)
            return failed(ENAMETOOLONG, path, at, err);
        (void)snprintf(name, sizeof name, "%.*s", (int)length, walk.rest + skip);
        (void)memmove(walk.rest, walk.rest + skip + length, strlen(walk.rest + skip + length) + 1);
        number = step(&walk, name, at);
    }
    if (number != 0)
        return failed(number, path, at, err);
    *real = strdup(walk.done[0] != '\0' ? walk.done : "/");
    return *real != NULL ? 0 : failed(ENOMEM, path, at, err);
}

#define NAME_LEN_MAX (NAME_MAX - 16) /* file systems take NAME_MAX, a suffix included */

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

enum dlock_status sqlite_config_no_store(const struct sqlite_config *config,
                                         struct dlock_error *err)
{
    return dlock_fail(err, SQ_ORIGIN, DLOCK_NO_STORE, ENOENT, "there is no store at %.200s",
                      config->path);
}

/* The directory of a file that is not there. */
static enum dlock_status directory_find(struct sqlite_config *config, const char *path,
                                        struct dlock_error *err)
{
    int number = path_resolve(path, &config->directory, err);

    if (number == ENOENT && !config->create)
        return sqlite_config_no_store(config, err);
    if (number == ENOENT)
        return sqlite_os_error_fail(err, path, "enter directory", number);
    return number == 0 ? DLOCK_OK : err->status;
}

static enum dlock_status resolve_new(struct sqlite_config *config, struct dlock_error *err)
{
    char *slash = strrchr(config->path, '/');
    char *parent = strndup(config->path, (size_t)(slash - config->path) + 1);
    enum dlock_status status = DLOCK_INTERNAL;

    if (parent == NULL)
        return out_of_memory(err);
    status = directory_find(config, parent, err);
    free(parent);
    if (status == DLOCK_OK &&
        asprintf(&config->real, "%s/%s",
                 strcmp(config->directory, "/") == 0 ? "" : config->directory, slash + 1) < 0) {
        config->real = NULL;
        status = out_of_memory(err);
    }
    return status;
}

static enum dlock_status resolve(struct sqlite_config *config, struct dlock_error *err)
{
    const char *slash = NULL;
    int number = path_resolve(config->path, &config->real, err);

    if (number == ENOENT)
        return resolve_new(config, err);
    if (number != 0)
        return err->status;
    slash = strrchr(config->real, '/');
    config->directory =
        strndup(config->real, slash == config->real ? 1 : (size_t)(slash - config->real));
    return config->directory != NULL ? DLOCK_OK : out_of_memory(err);
}

static bool is_permitted(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

bool sqlite_config_may(const struct sqlite_config *config, int mode)
{
    return is_permitted(config->real, mode);
}

enum dlock_status sqlite_config_read_only(const struct sqlite_config *config,
                                          struct dlock_error *err)
{
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, EROFS,
                      "%.200s may only be read: it or its file system is read-only", config->path);
}

int sqlite_config_directory_errno(const struct sqlite_config *config)
{
    return is_permitted(config->directory, W_OK | X_OK) ? 0 : errno;
}

bool sqlite_config_has_sibling(const struct sqlite_config *config, const char *suffix)
{
    char *path = sqlite_config_sibling(config, suffix);
    struct stat st;
    bool has = path == NULL || lstat(path, &st) == 0 || errno != ENOENT;

    free(path);
    return has;
}

/* A user who may write the file, but cannot make -wal and -shm, gets access to read, too. */
static enum sqlite_access access_of_file(const struct sqlite_config *config)
{
    bool wal = sqlite_config_has_sibling(config, "-wal"),
         shm = sqlite_config_has_sibling(config, "-shm");

    if (sqlite_config_may(config, W_OK) &&
        ((wal && shm) || sqlite_config_directory_errno(config) == 0))
        return SQ_ACCESS_WRITE;
    return wal || shm ? SQ_ACCESS_READ : SQ_ACCESS_SNAPSHOT;
}

static enum dlock_status file_check(struct sqlite_config *config, const struct stat *st,
                                    struct dlock_error *err)
{
    if (!S_ISREG(st->st_mode))
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0, "%.200s is not a regular file",
                          config->path);
    if (st->st_nlink > 1) /* each name would have a log of its own */
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                          "%.180s has %lu hard links; a store has one name", config->path,
                          (unsigned long)st->st_nlink);
    if (config->create)
        return DLOCK_OK;
    if (st->st_size == 0)
        return sqlite_config_no_store(config, err);
    config->access = access_of_file(config);
    if (config->access == SQ_ACCESS_READ && sqlite_config_directory_errno(config) == 0)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, 0,
                          "%.150s is in use, and this user may make files beside it but not write "
                          "it: SQLite would make -wal and -shm as this user's files",
                          config->path);
    return DLOCK_OK;
}

static enum dlock_status filesystem_check(const struct sqlite_config *config,
                                          struct dlock_error *err)
{
    char number[16];

    if (sqlite_config_is_local(config->directory))
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                      "%.150s is on %s, where locks of other hosts are not seen; "
                      "unsafe_network_fs=on accepts that",
                      config->path,
                      sqlite_config_filesystem(config->directory, number, sizeof number));
}

enum dlock_status sqlite_config_init(struct sqlite_config *config,
                                     const struct dlock_target *target, struct dlock_error *err)
{
    const char *sync = target->option(target, "sync");
    enum dlock_status status = DLOCK_INTERNAL;
    struct stat st;

    *config = (struct sqlite_config){
        .waiter_ttl_ms = target->number(target, "waiter_lease"),
        .create = target->number(target, "create") != 0,
        .full = sync != NULL && strcmp(sync, "full") == 0,
    };
    status = absolute(target, &config->path, err);
    if (status == DLOCK_OK)
        status = resolve(config, err);
    if (status != DLOCK_OK)
        return status;
    if (strlen(config->real) > SQ_REAL_MAX || strlen(strrchr(config->real, '/') + 1) > NAME_LEN_MAX)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, ENAMETOOLONG,
                          "%.150s... is too long: at most %d bytes, and %d after the last /",
                          config->real, SQ_REAL_MAX, NAME_LEN_MAX);
    if (stat(config->real, &st) == 0)
        status = file_check(config, &st, err);
    else if (!config->create)
        status = sqlite_config_no_store(config, err);
    if (status == DLOCK_OK && target->number(target, "unsafe_network_fs") == 0)
        status = filesystem_check(config, err);
    return status;
}

void sqlite_config_fini(struct sqlite_config *config)
{
    free(config->path);
    free(config->real);
    free(config->directory);
    *config = (struct sqlite_config){.path = NULL};
}

char *sqlite_config_sibling(const struct sqlite_config *config, const char *suffix)
{
    char *path = NULL;

    return asprintf(&path, "%s%s", config->real, suffix) < 0 ? NULL : path;
}
