/* SPDX-License-Identifier: MIT */
/* Tests: core/load/store.c lib/text_file.c */
/* Do a URI, a plugin's option table and core's own options become one understood store? */
#include "heap_search.h"
#include "load/option.h"
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

static const char *const schemes[] = {"x", "x+unix", NULL};
static const struct dlock_option_spec options[] = {
    {"sync", "enum", "normal", "normal|full", "h"},
    {"grace", "duration", "2s", "10ms..1h", "h"},
    {"cache", "size", NULL, "1..1G", "h"},
    {"create", "bool", "on", NULL, "h"},
    {"secret", "text", NULL, NULL, "h"},
    {"node", "list", NULL, "1..8", "h"},
    {0},
};
static int inits;
static enum dlock_status init_answer = DLOCK_OK;

static enum dlock_status x_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    inits++;
    return init_answer == DLOCK_OK ? DLOCK_OK : dlock_fail(err, "x", init_answer, 3, "no driver");
}

static const struct dlock_plugin descriptor = {.magic = DLOCK_PLUGIN_MAGIC,
                                               .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
                                               .struct_size = sizeof descriptor,
                                               .name = "x",
                                               .version = "1",
                                               .schemes = schemes,
                                               .options = options,
                                               .init = x_init,
                                               .ops = &no_ops};

static struct dl_host host;
static struct dlock_error err;
static struct dl_store *store;
static char dir[] = "/tmp/dlock-store-XXXXXX";

static void set_up(void)
{
    dl_host_init(&host, (struct dl_log){0});
    dl_error_reset(&err);
    cr_assert_not_null(mkdtemp(dir));
}

static void tear_down(void)
{
    char path[64];

    dl_store_free(store);
    (void)snprintf(path, sizeof path, "%s/f", dir);
    (void)unlink(path);
    (void)rmdir(dir);
}

TestSuite(store, .init = set_up, .fini = tear_down);

static enum dlock_status open_static(const char *uri, const char *defaults, enum dlock_tri create)
{
    struct dlock_client_options client = {.defaults = defaults, .create = create};

    dl_store_free(store);
    store = NULL;
    return dl_store_open_static(&descriptor, uri, &client, &host.table, &store, &err);
}

static void opens(const char *uri, const char *defaults)
{
    cr_assert_eq(open_static(uri, defaults, DLOCK_DEFAULT), DLOCK_OK, "%s: %s", uri, err.message);
}

static void refused(const char *uri, const char *defaults, const char *words)
{
    cr_expect_eq(open_static(uri, defaults, DLOCK_DEFAULT), DLOCK_INVALID, "%s", uri);
    cr_expect_null(store);
    cr_expect(strstr(err.message, words) != NULL, "%s: \"%s\" is not in \"%s\"", uri, words,
              err.message);
    cr_expect_null(strstr(err.message, "hunter2"), "%s", err.message);
}

/* dir/f with this content. Returns its path. */
static const char *file_with(const char *content, size_t len)
{
    static char path[64];
    int fd = -1;

    (void)snprintf(path, sizeof path, "%s/f", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && write(fd, content, len) == (ssize_t)len && close(fd) == 0);
    return path;
}

Test(store, target)
{
    opens("x://bob:hunter2@h:1/p?grace=70ms&cache=4k", NULL);
    cr_expect_str_eq(store->target.scheme, "x");
    cr_expect_str_eq(store->target.user, "bob");
    cr_expect_str_eq(store->target.password, "hunter2");
    cr_expect_str_eq(store->target.path, "/p");
    cr_expect_str_eq(store->target.hosts[0], "h:1");
    cr_expect_null(store->target.hosts[1]);
    cr_expect_str_eq(store->uri, "x://bob:***@h:1/p?grace=70ms&cache=4k");
    cr_expect_str_eq(store->plugin->name, "x");
    cr_expect_eq(inits, 1);
}

Test(store, options_given_and_not)
{
    const struct dlock_target *target;

    opens("x:?grace=70ms&secret=a%26b", NULL);
    target = &store->target;
    cr_expect_str_eq(target->option(target, "grace"), "70ms");
    cr_expect_eq(target->number(target, "grace"), 70);
    cr_expect_str_eq(target->option(target, "sync"), "normal");
    cr_expect_eq(target->number(target, "create"), 1);
    cr_expect_null(target->option(target, "cache"));
    cr_expect_eq(target->number(target, "cache"), 0);
    cr_expect_str_eq(target->option(target, "secret"), "a&b");
    cr_expect_null(target->option(target, "ttl"), "core's options are not the plugin's");
    cr_expect_eq(target->number(target, "nonsense"), 0);
    cr_expect_eq(target->number(target, "ttl"), 0, "core's own, and not given");
    cr_expect_gt(store->settings.ttl_ms, 0);
    cr_expect_str_eq(store->uri, "x:?grace=70ms&secret=***");
}

Test(store, the_ttl_that_was_given)
{
    opens("x:?ttl=20s", NULL);
    cr_expect_eq(store->target.number(&store->target, "ttl"), 20000);
    opens("x:?ttl=20s", "ttl=6s");
    cr_expect_eq(store->target.number(&store->target, "ttl"), 6000);
    cr_expect_eq(store->settings.ttl_ms, 6000);
}

/* The callbacks have nothing but the target: two stores must not mix. */
Test(store, two_stores_at_once)
{
    struct dl_store *other = NULL;

    opens("x:?grace=70ms", NULL);
    cr_assert_eq(
        dl_store_open_static(&descriptor, "x:?grace=80ms", NULL, &host.table, &other, &err),
        DLOCK_OK);
    cr_expect_eq(store->target.number(&store->target, "grace"), 70);
    cr_expect_eq(other->target.number(&other->target, "grace"), 80);
    dl_store_free(other);
}

Test(store, core_options_and_their_override)
{
    opens("x:?ttl=5s&wait=0&grace=1s", "ttl=6s&grace=3s&label=job");
    cr_expect_eq(store->settings.ttl_ms, 6000);
    cr_expect_eq(store->settings.wait_ms, 0);
    cr_expect_str_eq(store->settings.label, "job");
    cr_expect_eq(store->target.number(&store->target, "grace"), 3000);
    cr_expect_str_eq(store->target.option(&store->target, "grace"), "3s");
    opens("x:", NULL);
    cr_expect_eq(store->settings.ttl_ms, 30000);
    cr_expect_eq(store->settings.wait_ms, DLOCK_FOREVER);
}

Test(store, a_list_may_be_given_again)
{
    opens("x:?node=a:1&create=off&node=b", NULL);
    cr_expect_str_eq(store->target.option(&store->target, "node"), "a:1\nb");
    opens("x:?node=a&node=b", "node=c"); /* defaults override all of it */
    cr_expect_str_eq(store->target.option(&store->target, "node"), "c");
    refused("x:?node=a&node=123456789", NULL, "URI at offset 10: the value of 'node' is not");
}

Test(store, options_refused)
{
    refused("x:?tttl=5s", NULL, "URI at offset 3: unknown option 'tttl'; did you mean 'ttl'?");
    refused("x:?gracee=5s", NULL, "unknown option 'gracee'; did you mean 'grace'?");
    refused("x:?zzzzzzz=5s", NULL, "URI at offset 3: unknown option 'zzzzzzz'");
    refused("x:?ttl=30", NULL, "URI at offset 3: ttl=30 has no unit");
    refused("x:?sync=full&ttl=0", NULL, "URI at offset 13: ttl=0 is not in none|50ms..7d");
    refused("x:?ttl=-1", NULL, "ttl=-1 has a sign");
    refused("x:?ttl=9223372036854775808", NULL, "is too large");
    refused("x:?sync=fast", NULL, "sync=fast is not one of normal|full");
    refused("x:?ttl=5s&ttl=5s", NULL, "option 'ttl' is repeated");
    refused("x:?label=%c2%9b", NULL, "printable");
    refused("x:", "wait", "defaults at offset 4");
    refused("x:", "ttl=1s&wiat=0",
            "defaults at offset 7: unknown option 'wiat'; did you mean 'wait'");
    refused("y:", NULL, "unknown scheme 'y'");
    refused("", NULL, "URI at offset 0");
}

/* C17. */
Test(store, password_from_a_file)
{
    char uri[128];

    (void)snprintf(uri, sizeof uri, "x://h?pass_file=%s", file_with("hunter2\n", 8));
    opens(uri, NULL);
    cr_expect_str_eq(store->target.password, "hunter2");
    cr_expect_str_eq(store->uri, uri, "a password from a file does not make the URI secret");
    (void)file_with(" hunt er2 \r\n", 12);
    opens("x://h", uri + strlen("x://h?"));
    cr_expect_str_eq(store->target.password, " hunt er2 ", "only the end of the line is cut");
}

Test(store, password_file_refused)
{
    static char long_line[9000];
    char uri[128];

    memset(long_line, 'a', sizeof long_line);
    (void)snprintf(uri, sizeof uri, "x://h?pass_file=%s", file_with("", 0));
    refused(uri, NULL, "is empty");
    (void)file_with("\n", 1);
    refused(uri, NULL, "is empty");
    (void)file_with("hunter2\nhunter2\n", 16);
    refused(uri, NULL, "more than one line");
    (void)file_with("hunter2\0x\n", 10);
    refused(uri, NULL, "control characters");
    (void)file_with(long_line, sizeof long_line);
    refused(uri, NULL, "is too long");
    refused("x://h?pass_file=/nonexistent/hunter", NULL, "/nonexistent/hunter: No such file");
    refused("x://h?pass_file=relative", NULL, "absolute path");
    refused("x://h?pass_file=/dev/zero", NULL, "/dev/zero is a device: want a regular file");
    refused("x://h?pass_file=/", NULL, "is a directory: want a regular file");
}

Test(store, password_from_the_environment)
{
    cr_assert_eq(setenv("DLT_PASSWORD", "hunter2", 1), 0);
    opens("x://bob@h?pass_env=DLT_PASSWORD", NULL);
    cr_expect_str_eq(store->target.password, "hunter2");
    cr_expect_str_eq(store->target.user, "bob");
    cr_expect_str_eq(store->uri, "x://bob@h?pass_env=DLT_PASSWORD");
    refused("x://h?pass_env=DLT_NOT_SET", NULL, "DLT_NOT_SET is not set");
    refused("x://h?pass_env=1x", NULL, "not the name of an environment variable");
}

#ifdef DLT_HEAP_SEARCH
/* C17 */
Test(store, passwords_are_wiped)
{
    char uri[400], password[121];

    for (size_t i = 0; i < sizeof password - 1; i++)
        password[i] = (char)('a' + (i * 7 + i / 11) % 26);
    password[sizeof password - 1] = '\0';
    (void)snprintf(uri, sizeof uri, "x://u:%s@h?secret=%s", password, password);
    opens(uri, NULL);
    cr_assert(dlt_heap_has(password + 80, 40), "the search finds what is there");
    dl_store_free(store);
    store = NULL;
    cr_expect_not(dlt_heap_has(password + 80, 40), "password and option of the URI");
    (void)snprintf(uri, sizeof uri, "x://u@h?pass_file=%s",
                   file_with(password, sizeof password - 1));
    opens(uri, NULL);
    cr_expect_str_eq(store->target.password, password);
    dl_store_free(store);
    store = NULL;
    cr_expect_not(dlt_heap_has(password + 80, 40), "password of a file");
    (void)snprintf(uri, sizeof uri, "x://u:%s@ho_st", password);
    refused(uri, NULL, "a host name");
    cr_expect_not(dlt_heap_has(password + 80, 40), "a URI that was refused");
}
#endif

/* C17. What a store shows of its URI opens no other store. */
Test(store, a_password_that_was_left_out)
{
    refused("x://bob:***@h", NULL, "URI: *** stands for a secret that was left out");
    refused("x://:%2A%2a*@h", NULL, "left out");
    refused("x:?grace=70ms&secret=***", NULL, "URI at offset 14: *** stands for a secret");
    refused("x:", "secret=***", "defaults at offset 0: *** stands");
    cr_assert_eq(setenv("DLOCK_URI", "x://bob:***@h", 1), 0);
    refused(NULL, NULL, "DLOCK_URI: *** stands");
    opens("x://bob:****@h", NULL);
    cr_expect_str_eq(store->target.password, "****");
    cr_expect_str_eq(store->uri, "x://bob:***@h", "told from the outside by nothing");
    cr_assert_eq(setenv("DLT_PASSWORD", "***", 1), 0);
    opens("x://bob@h?pass_env=DLT_PASSWORD", NULL);
    cr_expect_str_eq(store->target.password, "***", "nothing was left out there");
}

Test(store, one_password_only)
{
    cr_assert_eq(setenv("DLT_PASSWORD", "hunter2", 1), 0);
    refused("x://:hunter2@h?pass_env=DLT_PASSWORD", NULL, "more than one password");
    refused("x://h?pass_env=DLT_PASSWORD&pass_file=/x", NULL, "more than one password");
    refused("x://h?pass_env=DLT_PASSWORD", "pass_file=/x", "more than one password");
}

Test(store, uri_from_a_file)
{
    char uri[80];

    (void)snprintf(uri, sizeof uri, "@%s", file_with("x://u:hunter2@h?ttl=9s\n", 23));
    opens(uri, NULL);
    cr_expect_eq(store->settings.ttl_ms, 9000);
    cr_expect_str_eq(store->uri, "x://u:***@h?ttl=9s");
    (void)file_with("x://u:hunter2@h?ttl=9\n", 22);
    refused(uri, NULL, "/f at offset 16: ttl=9 has no unit");
    refused("@/nonexistent/hunter", NULL, "cannot read /nonexistent/hunter");
    refused("@relative", NULL, "absolute path");
}

Test(store, uri_from_the_environment)
{
    cr_assert_eq(setenv("DLOCK_URI", "x:?ttl=9s", 1), 0);
    opens(NULL, NULL);
    cr_expect_eq(store->settings.ttl_ms, 9000);
    opens("x:?ttl=8s", NULL);
    cr_expect_eq(store->settings.ttl_ms, 8000, "the caller's comes first");
    cr_assert_eq(setenv("DLOCK_URI", "x:?ttl=9", 1), 0);
    refused(NULL, NULL, "DLOCK_URI at offset 3");
}

Test(store, init_that_fails)
{
    init_answer = DLOCK_UNAVAILABLE;
    cr_assert_eq(dl_store_open_static(&descriptor, "x:", NULL, &host.table, &store, &err),
                 DLOCK_UNAVAILABLE);
    cr_expect_str_eq(err.message, "no driver");
    cr_expect_str_eq(err.origin, "x");
}

Test(store, a_descriptor_that_is_wrong)
{
    struct dlock_plugin wrong = descriptor;

    wrong.caps = DLOCK_CAP_WATCH;
    cr_assert_eq(dl_store_open_static(&wrong, "x:", NULL, &host.table, &store, &err),
                 DLOCK_PLUGIN_ABI);
}

Test(store, by_scheme)
{
    struct dlock_client_options client = {.plugin_dirs = "/nonexistent"};

    cr_assert_eq(dl_store_open("redis://h", &client, &host.table, &store, &err), DLOCK_NO_PLUGIN);
    cr_expect(strstr(err.message, "is known") != NULL, "%s", err.message);
    cr_assert_eq(dl_store_open("zzz://h", &client, &host.table, &store, &err), DLOCK_INVALID);
    client.plugin_dirs = "relative";
    cr_assert_eq(dl_store_open("redis://h", &client, &host.table, &store, &err), DLOCK_INVALID);
}

/* Looking never creates. */
Test(store, create_of_the_client_comes_first)
{
    cr_assert_eq(open_static("x:?create=on", "create=on", DLOCK_OFF), DLOCK_OK, "%s", err.message);
    cr_expect_eq(store->target.number(&store->target, "create"), 0);
    cr_expect_str_eq(store->target.option(&store->target, "create"), "off");
    cr_assert_eq(open_static("x:?create=off", NULL, DLOCK_ON), DLOCK_OK, "%s", err.message);
    cr_expect_eq(store->target.number(&store->target, "create"), 1);
    cr_assert_eq(open_static("x:?create=off", NULL, DLOCK_DEFAULT), DLOCK_OK, "%s", err.message);
    cr_expect_eq(store->target.number(&store->target, "create"), 0);
    cr_expect_eq(open_static("x:", NULL, (enum dlock_tri)3), DLOCK_INVALID);
    cr_expect(strstr(err.message, "create is 3") != NULL, "%s", err.message);
}
