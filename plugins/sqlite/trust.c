/* SPDX-License-Identifier: MIT */
#include "trust.h"

#include "os_error.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define JOURNAL "-journal"

static bool others_may_make_files(const struct stat *directory, const struct stat *file)
{
    bool group_may_write = (file->st_mode & S_IWGRP) != 0 && file->st_gid == directory->st_gid;

    return (file->st_mode & S_IWOTH) == 0 &&
           ((directory->st_mode & S_IWOTH) != 0 ||
            ((directory->st_mode & S_IWGRP) != 0 && !group_may_write));
}

static bool is_of_owner(const struct stat *sibling, const struct stat *file)
{
    return S_ISREG(sibling->st_mode) && sibling->st_nlink == 1 &&
           (sibling->st_uid == file->st_uid || sibling->st_uid == 0);
}

bool sqlite_trust_is_foreign(const struct stat *sibling, const struct stat *file,
                             const char *directory)
{
    struct stat parent;

    return !is_of_owner(sibling, file) &&
           (stat(directory, &parent) != 0 || others_may_make_files(&parent, file));
}

/* SQLite keeps the file open. */
static bool is_open_here(const struct stat *file)
{
    DIR *descriptors = opendir("/proc/self/fd");
    const struct dirent *entry = NULL;
    struct stat st;
    bool found = false;

    while (!found && descriptors != NULL && (entry = readdir(descriptors)) != NULL)
        found = fstatat(dirfd(descriptors), entry->d_name, &st, 0) == 0 &&
                st.st_ino == file->st_ino && st.st_dev == file->st_dev;
    if (descriptors != NULL)
        (void)closedir(descriptors);
    return found;
}

bool sqlite_trust_others_may_make(const struct sqlite_config *config, const struct stat *file)
{
    struct stat directory;

    return stat(config->directory, &directory) == 0 && others_may_make_files(&directory, file);
}

static enum dlock_status sibling_check(const struct sqlite_config *config, const struct stat *file,
                                       const char *suffix, bool is_open, struct dlock_error *err)
{
    char *path = sqlite_config_sibling(config, suffix);
    struct stat st;
    enum dlock_status status = DLOCK_OK;
    bool exists = false;

    if (path == NULL)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a path");
    exists = lstat(path, &st) == 0;
    if (exists && !is_of_owner(&st, file))
        status = dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, 0,
                            "%.140s was not made by the owner of the store, in a directory in "
                            "which other users may make files",
                            path);
    else if (is_open && (!exists || !is_open_here(&st)))
        status = dlock_fail(err, SQ_ORIGIN, DLOCK_UNAVAILABLE, 0,
                            "%.200s was replaced while it was opened", path);
    free(path);
    return status;
}

/* *others: users may make files in the directory who may not write the store. */
static enum dlock_status examine(const struct sqlite_config *config, struct stat *file,
                                 bool *others, struct dlock_error *err)
{
    struct stat directory;

    if (stat(config->real, file) != 0 || stat(config->directory, &directory) != 0)
        return sqlite_os_error_fail(err, config->path, "examine", errno);
    *others = others_may_make_files(&directory, file);
    return DLOCK_OK;
}

enum dlock_status sqlite_trust_check(const struct sqlite_config *config, struct dlock_error *err)
{
    static const char *const suffixes[] = {JOURNAL, "-wal", "-shm"};
    struct stat file;
    bool others = false;
    enum dlock_status status = examine(config, &file, &others, err);

    if (status != DLOCK_OK || !others)
        return status;
    if (config->access == SQ_ACCESS_WRITE && geteuid() != 0 && geteuid() != file.st_uid)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, 0,
                          "only the owner may use %.130s: users who may not write it may make "
                          "files in its directory",
                          config->path);
    for (size_t i = 0; status == DLOCK_OK && i < sizeof suffixes / sizeof suffixes[0]; i++)
        status = sibling_check(config, &file, suffixes[i], false, err);
    return status;
}

enum dlock_status sqlite_trust_check_open(const struct sqlite_config *config, bool index_too,
                                          struct dlock_error *err)
{
    struct stat file;
    bool others = false;
    enum dlock_status status = examine(config, &file, &others, err);

    if (status == DLOCK_OK && others)
        status = sibling_check(config, &file, "-wal", true, err);
    if (status == DLOCK_OK && others && index_too)
        status = sibling_check(config, &file, "-shm", true, err);
    return status;
}

/* For this thread alone, as the system call has it. */
static bool chown_set(bool allowed)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    const uint32_t bit = UINT32_C(1) << CAP_CHOWN;

    if (syscall(SYS_capget, &head, sets) != 0 || ((sets[0].effective & bit) != 0) == allowed ||
        (sets[0].permitted & bit) == 0)
        return false;
    sets[0].effective ^= bit;
    return syscall(SYS_capset, &head, sets) == 0;
}

bool sqlite_trust_chown_drop(const struct sqlite_config *config, gid_t *group)
{
    struct stat file = {.st_uid = 0, .st_gid = getegid()};

    (void)stat(config->real, &file);
    if (geteuid() != 0 || file.st_uid != 0 || !sqlite_trust_others_may_make(config, &file) ||
        !chown_set(false))
        return false;
    *group = (gid_t)setfsgid(file.st_gid); /* a member of it may give it to files of its own */
    return true;
}

/* Another thread may have changed the user of the process meanwhile. */
void sqlite_trust_chown_restore(gid_t group)
{
    (void)setfsgid(group);
    if (geteuid() == 0)
        (void)chown_set(true);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sqlite3_vfs *unix_vfs, vfs;
static bool is_registered;

/* Also if it has just gone: SQLite opens what is there next. */
static bool journal_is_foreign(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path), tail = sizeof JOURNAL - 1;
    char file_path[SQ_REAL_MAX + 1], directory[SQ_REAL_MAX + 1];
    struct stat journal, file;

    if (slash == NULL || length < tail || strcmp(path + length - tail, JOURNAL) != 0)
        return false;
    (void)snprintf(file_path, sizeof file_path, "%.*s", (int)(length - tail), path);
    (void)snprintf(directory, sizeof directory, "%.*s", (int)(slash - path) + 1, path);
    return lstat(path, &journal) != 0 || stat(file_path, &file) != 0 ||
           sqlite_trust_is_foreign(&journal, &file, directory);
}

static int access_of(sqlite3_vfs *self, const char *path, int flags, int *out)
{
    int rc = unix_vfs->xAccess(unix_vfs, path, flags, out);

    (void)self;
    if (rc == SQLITE_OK && *out != 0 && journal_is_foreign(path))
        *out = 0;
    return rc;
}

static void vfs_register(void)
{
    unix_vfs = sqlite3_vfs_find("unix");
    if (unix_vfs == NULL)
        return;
    vfs = *unix_vfs;
    vfs.pNext = NULL;
    vfs.zName = "dlock-unix";
    vfs.xAccess = access_of;
    is_registered = sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
}

const char *sqlite_trust_vfs(void)
{
    (void)pthread_once(&once, vfs_register);
    return is_registered ? vfs.zName : NULL;
}
