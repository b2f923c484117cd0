/* SPDX-License-Identifier: MIT */
/* Tests: core/load/store.c lib/text.c */
/* C17: are secrets in files read again, and are files refused that others may write? */
#include "load/store.h"
#include "no_ops.h"
#include "sys/error.h"
#include "sys/host.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const schemes[] = {"x", NULL};
static const struct dlock_option_spec options[] = {
    {"secret", "text", NULL, NULL, "h"}, {"node", "list", NULL, "1..64", "h"}, {0}};

static const struct dlock_plugin descriptor = {.magic = DLOCK_PLUGIN_MAGIC,
                                               .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
                                               .struct_size = sizeof descriptor,
                                               .name = "x",
                                               .version = "1",
                                               .schemes = schemes,
                                               .options = options,
                                               .ops = &no_ops};

static struct dl_host host;
static struct dlock_error err;
static struct dl_store *store;
static char dir[] = "/tmp/dlock-secret-XXXXXX", path[64], at_path[72], uri[128];
static int warnings;
static char warned[512];

static void log_line(void *arg, enum dlock_log_level level, const char *message)
{
    (void)arg;
    warnings += level == DLOCK_LOG_WARNING;
    (void)snprintf(warned, sizeof warned, "%s", message);
}

static void set_up(void)
{
    dl_host_init(&host, (struct dl_log){log_line, NULL});
    dl_error_reset(&err);
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/f", dir);
    (void)snprintf(at_path, sizeof at_path, "@%s", path);
    (void)snprintf(uri, sizeof uri, "x://bob@h?pass_file=%s", path);
}

static void tear_down(void)
{
    dl_store_free(store);
    (void)unlink(path);
    (void)rmdir(dir);
}

TestSuite(store_secrets, .init = set_up, .fini = tear_down);

static void write_file(const char *content, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t len = strlen(content);

    cr_assert(fd >= 0 && write(fd, content, len) == (ssize_t)len && fchmod(fd, mode) == 0 &&
              close(fd) == 0);
}

static enum dlock_status open_store(const char *text, const char *defaults)
{
    struct dlock_client_options client = {.defaults = defaults};

    dl_store_free(store);
    store = NULL;
    return dl_store_open_static(&descriptor, text, &client, &host.table, &store, &err);
}

static void opens(const char *text, const char *defaults)
{
    cr_assert_eq(open_store(text, defaults), DLOCK_OK, "%s", err.message);
}

static void secret_is(const char *option, const char *expected)
{
    char buf[64];
    int len = store->target.read_secret(&store->target, option, buf, sizeof buf, &err);

    cr_assert_eq(len, (int)strlen(expected), "%d: %s", len, err.message);
    cr_expect_str_eq(buf, expected);
}

static void secret_fails(const char *words)
{
    char buf[64];

    cr_expect_eq(store->target.read_secret(&store->target, NULL, buf, sizeof buf, &err), -2);
    cr_expect(strstr(err.message, words) != NULL, "%s", err.message);
    cr_expect_neq(err.status, DLOCK_OK);
}

Test(store_secrets, a_password_file_is_read_again)
{
    write_file("old\n", 0600);
    opens(uri, NULL);
    secret_is(NULL, "old");
    write_file("new\n", 0600);
    secret_is(NULL, "new");
    cr_expect_str_eq(store->target.password, "old", "as it was when the client was opened");
    opens("x://bob@h", strchr(uri, '?') + 1);
    write_file("newer\n", 0600);
    secret_is(NULL, "newer");
}

Test(store_secrets, a_variable_is_read_again)
{
    cr_assert_eq(setenv("DLT_PASSWORD", "old", 1), 0);
    opens("x://bob@h?pass_env=DLT_PASSWORD", NULL);
    cr_assert_eq(setenv("DLT_PASSWORD", "new", 1), 0);
    secret_is(NULL, "new");
    cr_assert_eq(unsetenv("DLT_PASSWORD"), 0);
    secret_fails("DLT_PASSWORD is not set");
}

Test(store_secrets, a_uri_file_is_read_again)
{
    write_file("x://bob:old@h?secret=one&node=a:1\n", 0600);
    opens(at_path, "ttl=9s");
    secret_is(NULL, "old");
    secret_is("secret", "one");
    write_file("x://bob:new@h?secret=two&node=a:2&node=b\n", 0600);
    secret_is(NULL, "new");
    secret_is("secret", "two");
    secret_is("node", "a:2\nb");
    opens(at_path, "secret=mine");
    write_file("x://bob:new@h?secret=three\n", 0600);
    secret_is("secret", "mine");
}

Test(store_secrets, a_uri_file_that_names_a_password_file)
{
    char line[160], other[80];
    FILE *out = NULL;

    (void)snprintf(other, sizeof other, "%s/g", dir);
    (void)snprintf(line, sizeof line, "x://bob@h?pass_file=%s\n", other);
    write_file(line, 0600);
    cr_assert_not_null(out = fopen(other, "we"));
    cr_assert(fputs("old\n", out) >= 0 && fclose(out) == 0 && chmod(other, 0600) == 0);
    opens(at_path, NULL);
    secret_is(NULL, "old");
    write_file("x://bob:new@h\n", 0600);
    secret_is(NULL, "new");
    (void)unlink(other);
}

Test(store_secrets, without_a_file_the_text_of_the_uri)
{
    char buf[4];

    opens("x://bob:hunter2@h?secret=s", NULL);
    secret_is(NULL, "hunter2");
    secret_is("secret", "s");
    cr_expect_eq(store->target.read_secret(&store->target, NULL, buf, sizeof buf, &err), -2);
    cr_expect(strstr(err.message, "longer than 3 bytes") != NULL, "%s", err.message);
    opens("x://h", NULL);
    cr_expect_eq(store->target.read_secret(&store->target, NULL, buf, sizeof buf, &err), -1);
    cr_expect_eq(store->target.read_secret(&store->target, "secret", buf, sizeof buf, &err), -1);
    cr_expect_eq(store->target.read_secret(&store->target, "nonsense", buf, sizeof buf, &err), -1);
}

Test(store_secrets, a_secret_that_is_gone_or_of_another_store)
{
    write_file("old\n", 0600);
    opens(uri, NULL);
    cr_assert_eq(unlink(path), 0);
    secret_fails("No such file");
    write_file("x://bob:old@h\n", 0600);
    opens(at_path, NULL);
    write_file("x://bob:new@other\n", 0600);
    secret_fails("names another store or user now");
    write_file("x://eve:new@h\n", 0600);
    secret_fails("names another store or user now");
    cr_expect_null(strstr(err.message, "new@"), "%s", err.message);
}

/* Whoever may write the file decides which store is used, and what is sent to it. */
Test(store_secrets, CONFIG_for_a_file_that_others_may_write)
{
    static const mode_t modes[] = {0620, 0602, 0666};

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        write_file("hunter2\n", modes[i]);
        cr_expect_eq(open_store(uri, NULL), DLOCK_CONFIG, "%o", modes[i]);
        cr_expect(strstr(err.message, "may write") != NULL, "%s", err.message);
        write_file("x://h\n", modes[i]);
        cr_expect_eq(open_store(at_path, NULL), DLOCK_CONFIG, "%o", modes[i]);
    }
    write_file("old\n", 0600);
    opens(uri, NULL);
    write_file("new\n", 0660);
    secret_fails("may write");
}

/* As the directory of plugins: its owner decides, whatever the mode. */
Test(store_secrets, CONFIG_for_a_file_of_another_user)
{
    if (geteuid() != 0)
        cr_skip("root alone gives a file away");
    write_file("hunter2\n", 0600);
    cr_assert_eq(chown(path, 65534, 65534), 0);
    cr_expect_eq(open_store(uri, NULL), DLOCK_CONFIG);
    cr_expect(strstr(err.message, "belongs to user 65534") != NULL, "%s", err.message);
    write_file("x://h\n", 0600);
    cr_assert_eq(chown(path, 65534, 65534), 0);
    cr_expect_eq(open_store(at_path, NULL), DLOCK_CONFIG);
    cr_assert_eq(chown(path, 0, 0), 0);
    opens(at_path, NULL);
}

Test(store_secrets, one_warning_for_a_file_that_others_may_read)
{
    write_file("hunter2\n", 0640);
    opens(uri, NULL);
    cr_expect_eq(warnings, 0, "a group is a choice");
    write_file("hunter2\n", 0644);
    opens(uri, NULL);
    cr_expect_eq(warnings, 1);
    cr_expect(strstr(warned, path) != NULL && strstr(warned, "all users may read") != NULL, "%s",
              warned);
    secret_is(NULL, "hunter2");
    cr_expect_eq(warnings, 1, "not again for each connection");
    write_file("x://bob:hunter2@h\n", 0644);
    opens(at_path, NULL);
    cr_expect_eq(warnings, 2);
    write_file("x://bob@h\n", 0644);
    opens(at_path, NULL);
    cr_expect_eq(warnings, 2, "there is no secret in it");
}

/* A FIFO without a writer would hold up the open for ever. */
Test(store_secrets, a_fifo_is_refused_at_once, .timeout = 60)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(open_store(uri, NULL), DLOCK_INVALID);
    cr_expect(strstr(err.message, "is a FIFO: want a regular file") != NULL, "%s", err.message);
}
