/* SPDX-License-Identifier: MIT */
#include "load/default_uri.h"
#include "lib/text.h"

#include "load/uri.h"
#include "sys/error.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT_PATH         "/var/lib/dlock/locks.db"
#define PATH_BELOW_HOME   ".local/state/dlock/locks.db"
#define PASSWD_BUFFER_MAX ((size_t)1024 * 1024)
#define SOURCE_SHOWN      80 /* bytes of a long "@/path" in messages */

static enum dlock_status out_of_memory(struct dlock_error *err)
{
    (void)dl_error(err, DLOCK_NOMEM, "no memory for the URI");
    return DLOCK_NOMEM;
}

/* ---- the embedded default ---- */

/* *home: caller frees; NULL: no such user. Returns 0 or an errno. */
static int home_of(uid_t uid, char **home)
{
    size_t size = 1024;
    int rc = ERANGE;

    while (rc == ERANGE && size <= PASSWD_BUFFER_MAX) {
        struct passwd entry, *found = NULL;
        char *buf = malloc(size);

        if (buf == NULL)
            return ENOMEM;
        rc = getpwuid_r(uid, &entry, buf, size, &found);
        if (rc == 0 && found != NULL) {
            *home = strdup(found->pw_dir);
            rc = *home == NULL ? ENOMEM : 0;
        }
        free(buf);
        size *= 4;
    }
    return rc;
}

static enum dlock_status no_home(uid_t uid, const char *why, struct dlock_error *err)
{
    (void)dl_error(err, DLOCK_CONFIG,
                   "no default store: home directory of uid %u in the password database: %s; give "
                   "a URI",
                   uid, why);
    return DLOCK_CONFIG;
}

enum dlock_status dl_default_path(uid_t uid, char **path, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;
    char *home = NULL, *text = NULL;
    int rc = 0;

    if (uid == 0) {
        *path = strdup(ROOT_PATH);
        return *path != NULL ? DLOCK_OK : out_of_memory(err);
    }
    rc = home_of(uid, &home);
    if (rc == ENOMEM)
        return out_of_memory(err);
    if (rc != 0)
        return no_home(uid, strerrordesc_np(rc), err);
    if (home == NULL || home[0] != '/')
        status = no_home(uid, home == NULL ? "no such user" : "none", err);
    else if (asprintf(&text, "%s/%s", strcmp(home, "/") == 0 ? "" : home, PATH_BELOW_HOME) < 0)
        status = out_of_memory(err);
    else
        *path = text;
    free(home);
    return status;
}

/* mkdir -p -m 0700 of path, which is cut at each '/' for a moment. 0 or an errno. */
static int directories_make(char *path)
{
    for (char *slash = path; slash != NULL;) {
        int rc = 0;

        slash = strchr(slash + 1, '/');
        if (slash != NULL)
            *slash = '\0';
        rc = mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : errno;
        if (rc != 0) {
            struct stat st;

            /* A read-only or closed parent that is there is no obstacle. */
            rc = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : rc;
        }
        if (slash != NULL)
            *slash = '/';
        if (rc != 0)
            return rc;
    }
    return 0;
}

static enum dlock_status directory_check(const char *dir, struct dlock_error *err)
{
    struct stat st;

    if (stat(dir, &st) != 0)
        return dl_error(err, errno == ENOENT ? DLOCK_NO_STORE : DLOCK_CONFIG,
                        "default store: %s: %s", dir, strerrordesc_np(errno));
    if (!S_ISDIR(st.st_mode))
        return dl_error(err, DLOCK_CONFIG, "default store: %s is not a directory", dir);
    if (st.st_uid != geteuid())
        return dl_error(err, DLOCK_CONFIG, "default store: %s belongs to uid %u, not to uid %u",
                        dir, st.st_uid, geteuid());
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return dl_error(err, DLOCK_CONFIG, "default store: %s may be written by others (mode %04o)",
                        dir, st.st_mode & 07777u);
    return DLOCK_OK;
}

enum dlock_status dl_default_directory(const char *file, bool create, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_INTERNAL;
    const char *slash = strrchr(file, '/');
    char *dir = strndup(file, (size_t)(slash - file));
    int rc = 0;

    if (dir == NULL)
        return out_of_memory(err);
    if (create)
        rc = directories_make(dir);
    if (rc != 0)
        status = dl_error(err, DLOCK_CONFIG, "default store: cannot make %s: %s; give a URI", dir,
                          strerrordesc_np(rc));
    else
        status = directory_check(dir, err);
    free(dir);
    return status;
}

static enum dlock_status embedded(bool create, char **text, struct dlock_error *err)
{
    char scheme[] = "sqlite", *hosts[] = {NULL}, *path = NULL;
    enum dlock_status status = dl_default_path(geteuid(), &path, err);

    if (status == DLOCK_OK)
        status = dl_default_directory(path, create, err);
    if (status == DLOCK_OK) {
        *text = dl_uri_print(
            &(struct dl_uri){.scheme = scheme, .authority = true, .hosts = hosts, .path = path});
        status = *text != NULL ? DLOCK_OK : out_of_memory(err);
    }
    free(path);
    return status;
}

/* ---- what applies ---- */

static enum dlock_status chosen(const char *uri, const char *origin,
                                struct dl_default_uri_source *out, struct dlock_error *err)
{
    bool in_file = uri[0] == '@';
    enum dlock_status status = DLOCK_OK;

    if (in_file)
        status = dl_text_file_read(uri + 1, origin, &out->text, &out->exposure, err);
    else
        out->text = strdup(uri);
    if (status != DLOCK_OK)
        return status;
    out->what = strndup(in_file ? uri : origin, SOURCE_SHOWN);
    if (in_file)
        out->file = strdup(uri + 1);
    if (out->text == NULL || out->what == NULL || (in_file && out->file == NULL))
        return out_of_memory(err);
    return DLOCK_OK;
}

enum dlock_status dl_default_uri(const char *uri, bool create, struct dl_default_uri_source *out,
                                 struct dlock_error *err)
{
    const char *from_environment = secure_getenv("DLOCK_URI");

    *out = (struct dl_default_uri_source){0};
    if (uri != NULL)
        return chosen(uri, "URI", out, err);
    if (from_environment != NULL && from_environment[0] != '\0')
        return chosen(from_environment, "DLOCK_URI", out, err);
    out->what = strdup("default URI");
    return out->what != NULL ? embedded(create, &out->text, err) : out_of_memory(err);
}

void dl_default_uri_fini(struct dl_default_uri_source *source)
{
    dl_secret_free(source->text);
    free(source->what);
    free(source->file);
    *source = (struct dl_default_uri_source){0};
}
