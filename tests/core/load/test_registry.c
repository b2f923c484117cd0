/* SPDX-License-Identifier: MIT */
/* Tests: core/load/registry.c core/load/plugin_path.c core/load/loader.c */
/* Is a plugin found where it should be, and the place refused where it is not safe? What a plugin
 * itself may have wrong: tests/core/load. */
#include "load/loader.h"
#include "load/plugin_path.h"
#include "load/registry.h"
#include "sys/error.h"
#include "sys/host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dlock_error err;

static void set_up(void)
{
    dl_error_reset(&err);
    (void)unsetenv("DLOCK_PLUGIN_PATH");
}

TestSuite(registry, .init = set_up);

static void path_is(const char *dirs, const char *expected)
{
    struct dl_plugin_path path;

    cr_expect_eq(dl_plugin_path_init(dirs, &path, &err), DLOCK_OK, "%s", err.message);
    cr_expect_str_eq(path.text, expected);
    dl_plugin_path_fini(&path);
}

Test(registry, search_path)
{
    struct dl_plugin_path path;
    char own[512], both[600];

    cr_assert_eq(dl_plugin_path_init(NULL, &path, &err), DLOCK_OK);
    (void)snprintf(own, sizeof own, "%s", path.text);
    cr_expect_null(path.dirs[1], "one compiled-in directory");
    dl_plugin_path_fini(&path);
    (void)snprintf(both, sizeof both, "/a:/b:%s", own);
    cr_assert_eq(setenv("DLOCK_PLUGIN_PATH", "/a:/b", 1), 0);
    path_is(NULL, both);
    path_is("/c:/d", "/c:/d");
    cr_assert_eq(setenv("DLOCK_PLUGIN_PATH", "", 1), 0);
    path_is(NULL, own);
}

static void path_refused(const char *dirs, const char *words)
{
    struct dl_plugin_path path;

    cr_expect_eq(dl_plugin_path_init(dirs, &path, &err), DLOCK_INVALID, "%s", dirs);
    cr_expect(strstr(err.message, words) != NULL, "\"%s\" is not in \"%s\"", words, err.message);
    dl_plugin_path_fini(&path);
}

Test(registry, search_path_refused)
{
    path_refused("", "plugin_dirs: '' is not an absolute directory");
    path_refused("lib", "plugin_dirs: 'lib' is not");
    path_refused("/a:", "'' is not");
    path_refused("/a::/b", "'' is not");
    path_refused("/a:./b", "'./b' is not");
    path_refused("~/x", "'~/x' is not");
}

Test(registry, file_names)
{
    cr_expect(dl_plugin_file_named("dlock_redis.so"));
    cr_expect(dl_plugin_file_named("dlock_x.so"));
    cr_expect_not(dl_plugin_file_named("dlock_.so"));
    cr_expect_not(dl_plugin_file_named("dlock_redis.la"));
    cr_expect_not(dl_plugin_file_named("dlock_redis.so.1"));
    cr_expect_not(dl_plugin_file_named("libdlock_redis.so"));
    cr_expect_not(dl_plugin_file_named("dlock_Redis.so"));
    cr_expect_not(dl_plugin_file_named("dlock_a b.so"));
}

Test(registry, whole_and_foreign_files)
{
    char why[100] = "";

    cr_expect(dl_loader_file_complete("/proc/self/exe", why, sizeof why), "%s", why);
    cr_expect(dl_loader_file_complete("/dev/null", why, sizeof why),
              "not ELF: for the linker to say");
    cr_expect_not(dl_loader_file_complete("/nonexistent", why, sizeof why));
    cr_expect_str_eq(why, "cannot read it: No such file or directory");
}

/* The built plugins are found with no environment at all. */
Test(registry, the_memory_plugin_of_this_build)
{
    struct dl_host host;
    const struct dl_plugin *plugin = NULL;

    dl_host_init(&host, (struct dl_log){0});
    cr_assert_eq(dl_registry_find("memory", NULL, &host.table, &plugin, &err), DLOCK_OK, "%s",
                 err.message);
    cr_expect_str_eq(plugin->name, "memory");
}
