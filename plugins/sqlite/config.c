/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "filesystem.h"
#include "links.h"
#include "os_error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    int number = sqlite_links_resolve(path, &config->directory, err);

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
    int number = sqlite_links_resolve(config->path, &config->real, err);

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

    if (sqlite_filesystem_is_local(config->directory))
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                      "%.150s is on %s, where locks of other hosts are not seen; "
                      "unsafe_network_fs=on accepts that",
                      config->path,
                      sqlite_filesystem_name(config->directory, number, sizeof number));
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
