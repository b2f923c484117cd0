/* SPDX-License-Identifier: MIT */
/* Tests: core/load/loader.c */
/* Does the environment decide only where it may? Scenario T74. Runs with LTDL_LIBRARY_PATH and
 * LD_LIBRARY_PATH pointing to plugins that leave a mark as soon as they are loaded. */
#include "load/registry.h"
#include "privileged.h"
#include "sys/error.h"
#include "sys/host.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static enum dlock_status find(const char *scheme, const char *dirs, struct dlock_error *err)
{
    const struct dl_plugin *plugin = NULL;
    struct dl_host host;

    dl_host_init(&host, (struct dl_log){0});
    dl_error_reset(err);
    return dl_registry_find(scheme, dirs, &host.table, &plugin, err);
}

static bool evil_loaded(void)
{
    return getenv("DLT_EVIL_WAS_HERE") != NULL;
}

static void test_library_paths(void)
{
    struct dlock_error err;

    dlt_ok(getenv("LTDL_LIBRARY_PATH") != NULL && getenv("LD_LIBRARY_PATH") != NULL,
           "the trap is set");
    dlt_ok(find("evil", LOADER_DIR, &err) == DLOCK_INVALID && !evil_loaded(),
           "a plugin in LTDL_LIBRARY_PATH is not found");
    dlt_ok(find("sqlite", LOADER_DIR, &err) == DLOCK_NO_PLUGIN && !evil_loaded(),
           "nor one with the name of a known plugin");
}

static void test_plugin_path(void)
{
    struct dlock_error err;

    (void)setenv("DLOCK_PLUGIN_PATH", LOADER_DIR, 1);
    dlt_ok(find("good", NULL, &err) == DLOCK_OK, "DLOCK_PLUGIN_PATH is searched");
    dlt_ok(find("good", "/nonexistent", &err) == DLOCK_INVALID,
           "DLOCK_PLUGIN_PATH is not, when the caller names directories");
    (void)setenv("DLOCK_PLUGIN_PATH", "plugins", 1);
    dlt_ok(find("good", NULL, &err) == DLOCK_INVALID &&
               strstr(err.message, "DLOCK_PLUGIN_PATH: 'plugins' is not") != NULL,
           "a relative DLOCK_PLUGIN_PATH is refused: %s", err.message);
    (void)setenv("DLOCK_PLUGIN_PATH", "", 1);
    dlt_ok(find("good", NULL, &err) == DLOCK_INVALID &&
               strstr(err.message, "unknown scheme") != NULL,
           "an empty DLOCK_PLUGIN_PATH is none: %s", err.message);
    (void)unsetenv("DLOCK_PLUGIN_PATH");
}

/* In a copy of this program that runs with raised privilege: exit 0 if the variable is ignored. */
static int privileged_main(void)
{
    struct dlock_error err;

    if (getauxval(AT_SECURE) == 0)
        return DLT_NOT_PRIVILEGED;
    return find("good", NULL, &err) == DLOCK_INVALID ? 0 : 1;
}

static void test_privilege(void)
{
    (void)setenv("DLOCK_PLUGIN_PATH", LOADER_DIR, 1);
    dlt_privileged_ok("DLOCK_PLUGIN_PATH is ignored in a set-user-id program");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], DLT_PRIVILEGED) == 0)
        _exit(privileged_main()); /* a leak checker may not look into a privileged process */
    test_library_paths();
    test_plugin_path();
    test_privilege();
    return dlt_done();
}
