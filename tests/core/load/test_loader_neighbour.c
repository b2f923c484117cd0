/* SPDX-License-Identifier: MIT */
/* Tests: core/load/loader.c */
/* Do dlock and an application that uses libltdl itself leave each other alone? */
#include "load/registry.h"
#include "sys/error.h"
#include "sys/host.h"
#include "tap.h"

#include <ltdl.h>
#include <string.h>

static enum dlock_status find(const char *scheme, struct dlock_error *err)
{
    const struct dl_plugin *plugin = NULL;
    struct dl_host host;

    dl_host_init(&host, (struct dl_log){0});
    dl_error_reset(err);
    return dl_registry_find(scheme, LOADER_DIR, &host.table, &plugin, err);
}

int main(void)
{
    struct dlock_error err;
    lt_dlhandle before = NULL, after = NULL;

    /* A module of the application, open in libltdl's own loader while dlock starts. */
    dlt_ok(lt_dlinit() == 0, "the application starts libltdl");
    before = lt_dlopen(EVIL_DIR "/dlock_sqlite.so");
    dlt_ok(before != NULL && lt_dlsym(before, "dlock_plugin") != NULL, "and opens a module");

    dlt_ok(find("good", &err) == DLOCK_OK, "dlock loads a plugin beside it");
    dlt_ok(find("undefined", &err) == DLOCK_PLUGIN_LOAD &&
               strstr(err.message, "undefined symbol") != NULL,
           "dlock sees the true cause beside it: %s", err.message);
    dlt_ok(find("undefined", &err) == DLOCK_PLUGIN_LOAD &&
               strstr(err.message, "undefined symbol") != NULL,
           "and sees it again: a refused file is not remembered as open");

    after = lt_dlopen(EVIL_DIR "/dlock_evil.so");
    dlt_ok(after != NULL && lt_dlsym(after, "dlock_plugin") != NULL,
           "the application opens another module afterwards");
    dlt_ok(lt_dlopen("/nonexistent/module.so") == NULL, "and is told when one is not there");
    dlt_ok(lt_dlopen(LOADER_DIR "/dlock_undefined.so") != NULL,
           "and keeps lazy binding for its own modules");
    dlt_ok(find("undefined", &err) == DLOCK_PLUGIN_LOAD &&
               strstr(err.message, "another loader") != NULL,
           "what the application opened already is not taken for ours: %s", err.message);
    dlt_ok(lt_dlclose(before) == 0 && lt_dlclose(after) == 0, "the application closes its modules");
    dlt_ok(lt_dlexit() == 0, "and leaves libltdl");
    dlt_ok(find("newer", &err) == DLOCK_OK, "dlock goes on: %s", err.message);
    return dlt_done();
}
