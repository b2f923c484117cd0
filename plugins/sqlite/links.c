/* SPDX-License-Identifier: MIT */
/* Links are followed as the kernel follows them with fs.protected_symlinks, also where that is off.
 * The same rule holds for files and directories: who made one there can change what is in it. */
#include "links.h"

#include "os_error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel */

struct walk {
    char done[PATH_MAX]; /* without links; "" is the root */
    char rest[PATH_MAX];
    int links;
};

bool sqlite_links_may_use(const char *directory, const struct stat *entry)
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
    if (!sqlite_links_may_use(walk->done, &st))
        return EPERM;
    if (S_ISLNK(st.st_mode))
        return link_follow(walk, at);
    (void)memcpy(walk->done, at, strlen(at) + 1);
    return 0;
}

enum dlock_status sqlite_links_refuse(const char *path, struct dlock_error *err)
{
    return dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, EPERM,
                      "%.180s belongs to another user, in a directory in which everybody may make "
                      "files",
                      path);
}

static int failed(int number, const char *path, const char *at, struct dlock_error *err)
{
    if (number == EPERM)
        (void)sqlite_links_refuse(at, err);
    else if (number != ENOENT)
        (void)sqlite_os_error_fail(err, path, "find", number);
    return number;
}

int sqlite_links_resolve(const char *path, char **real, struct dlock_error *err)
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
