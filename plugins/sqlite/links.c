/* SPDX-License-Identifier: MIT */
/* Links are followed as the kernel follows them with fs.protected_symlinks, also where that is off:
 * in a directory in which everybody may make links, a link of another user is refused. */
#include "links.h"

#include "os_error.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel */

struct walk {
    char done[PATH_MAX]; /* without links; "" is the root */
    char rest[PATH_MAX];
    int links;
};

static bool may_follow(const char *directory, const struct stat *link)
{
    struct stat parent;

    if (stat(directory[0] != '\0' ? directory : "/", &parent) != 0)
        return false;
    return (parent.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH) ||
           link->st_uid == geteuid() || link->st_uid == parent.st_uid;
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

/* Appends one name to what is done. Returns an errno; EPERM: `at` is a link that is refused. */
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
    if (S_ISLNK(st.st_mode))
        return may_follow(walk->done, &st) ? link_follow(walk, at) : EPERM;
    (void)memcpy(walk->done, at, strlen(at) + 1);
    return 0;
}

static int failed(int number, const char *path, const char *at, struct dlock_error *err)
{
    if (number == EPERM)
        (void)dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, number,
                         "%.180s is a symbolic link of another user, in a directory in which "
                         "everybody may make one",
                         at);
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
