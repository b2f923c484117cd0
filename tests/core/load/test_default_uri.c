/* SPDX-License-Identifier: MIT */
/* Tests: core/load/default_uri.c */
/* Has one user one embedded store, whatever the login (ADR 0003)? */
#include "load/default_uri.h"
#include "load/uri.h"
#include "sys/error.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dlock_error err;
static char dir[] = "/tmp/dlock-default-XXXXXX";

static void set_up(void)
{
    dl_error_reset(&err);
    cr_assert_not_null(mkdtemp(dir));
}

static void tear_down(void)
{
    static const char *const paths[] = {"a/b/c/locks.db", "a/b/c", "a/b", "a", "f"};
    char path[80];

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, paths[i]);
        (void)remove(path);
    }
    (void)rmdir(dir);
}

TestSuite(default_uri, .init = set_up, .fini = tear_down);

Test(default_uri, path_of_root)
{
    char *path = NULL;

    cr_assert_eq(dl_default_path(0, &path, &err), DLOCK_OK);
    cr_expect_str_eq(path, "/var/lib/dlock/locks.db");
    free(path);
}

/* cron, a login shell and sudo -E have different environments. */
Test(default_uri, path_of_a_user_ignores_the_environment)
{
    const struct passwd *user = getpwnam("daemon");
    char expected[256], *path = NULL;

    cr_assert_not_null(user);
    (void)snprintf(expected, sizeof expected, "%s/.local/state/dlock/locks.db", user->pw_dir);
    cr_assert_eq(setenv("HOME", "/evil", 1), 0);
    cr_assert_eq(setenv("XDG_STATE_HOME", "/evil", 1), 0);
    cr_assert_eq(setenv("XDG_RUNTIME_DIR", "/evil", 1), 0);
    cr_assert_eq(dl_default_path(user->pw_uid, &path, &err), DLOCK_OK, "%s", err.message);
    cr_expect_str_eq(path, expected);
    free(path);
}

Test(default_uri, a_uid_without_an_entry)
{
    char *path = NULL;

    cr_assert_eq(dl_default_path(3999999999u, &path, &err), DLOCK_CONFIG);
    cr_expect(strstr(err.message,
                     "uid 3999999999 in the password database: no such user; give a") != NULL,
              "%s", err.message);
    cr_expect_null(path);
}

Test(default_uri, directory_is_private)
{
    char file[112], parent[80];
    struct stat st;

    (void)snprintf(file, sizeof file, "%s/a/b/c/locks.db", dir);
    (void)snprintf(parent, sizeof parent, "%s/a/b/c", dir);
    (void)umask(0);
    cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_OK, "%s", err.message);
    cr_assert_eq(stat(parent, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0700);
    *strrchr(parent, '/') = '\0';
    cr_assert_eq(stat(parent, &st), 0);
    cr_expect_eq(st.st_mode & 07777, 0700);
    cr_expect_neq(stat(file, &st), 0, "the file itself is the plugin's");
    cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_OK, "a second time: %s",
                 err.message);
}

Test(default_uri, directory_that_is_not_safe)
{
    char file[112], parent[80];

    (void)snprintf(file, sizeof file, "%s/a/locks.db", dir);
    (void)snprintf(parent, sizeof parent, "%s/a", dir);
    cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_OK);
    cr_assert_eq(chmod(parent, 0770), 0);
    cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_CONFIG);
    cr_expect(strstr(err.message, "may be written by others (mode 0770)") != NULL, "%s",
              err.message);
    if (geteuid() == 0) {
        cr_assert_eq(chmod(parent, 0700), 0);
        cr_assert_eq(chown(parent, 65533, 65533), 0);
        cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_CONFIG);
        cr_expect(strstr(err.message, "belongs to uid 65533") != NULL, "%s", err.message);
    }
}

Test(default_uri, directory_that_cannot_be)
{
    char file[80];
    int fd = -1;

    (void)snprintf(file, sizeof file, "%s/f", dir);
    fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && close(fd) == 0);
    (void)snprintf(file, sizeof file, "%s/f/x/locks.db", dir);
    cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_CONFIG);
    cr_expect(strstr(err.message, "cannot make") != NULL &&
                  strstr(err.message, "Not a directory") != NULL,
              "%s", err.message);
    (void)snprintf(file, sizeof file, "%s/f/locks.db", dir);
    cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_CONFIG);
}

static void chosen(const char *uri, const char *text_expected, const char *what_expected)
{
    struct dl_default_uri_source source;

    cr_assert_eq(dl_default_uri(uri, true, &source, &err), DLOCK_OK, "%s", err.message);
    cr_expect_str_eq(source.text, text_expected);
    cr_expect_str_eq(source.what, what_expected);
    dl_default_uri_fini(&source);
}

Test(default_uri, order)
{
    cr_assert_eq(setenv("DLOCK_URI", "memory://env", 1), 0);
    chosen("memory://arg", "memory://arg", "URI");
    chosen(NULL, "memory://env", "DLOCK_URI");
}

Test(default_uri, a_file_named_by_the_environment)
{
    char file[80], at[96];
    int fd = -1;

    (void)snprintf(file, sizeof file, "%s/f", dir);
    (void)snprintf(at, sizeof at, "@%s", file);
    fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && write(fd, "memory://x\n", 11) == 11 && close(fd) == 0);
    cr_assert_eq(setenv("DLOCK_URI", at, 1), 0);
    chosen(NULL, "memory://x", at);
}

Test(default_uri, a_failure_leaves_nothing_behind)
{
    struct dl_default_uri_source source = {.text = (char *)1, .what = (char *)1, .file = (char *)1};

    cr_assert_eq(dl_default_uri("@relative", true, &source, &err), DLOCK_INVALID);
    cr_expect_null(source.text);
    cr_expect_null(source.what);
    cr_expect_null(source.file);
}

Test(default_uri, who_only_looks_makes_no_directory)
{
    char file[112], parent[80];
    struct stat st;

    (void)snprintf(parent, sizeof parent, "%s/none", dir);
    (void)snprintf(file, sizeof file, "%s/locks.db", parent);
    cr_assert_eq(dl_default_directory(file, false, &err), DLOCK_NO_STORE, "%s", err.message);
    cr_expect_neq(stat(parent, &st), 0);
    cr_assert_eq(dl_default_directory(file, true, &err), DLOCK_OK, "%s", err.message);
    cr_expect_eq(dl_default_directory(file, false, &err), DLOCK_OK, "%s", err.message);
    (void)rmdir(parent);
}
