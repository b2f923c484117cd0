/* SPDX-License-Identifier: MIT */
/*
 * store.h - one URI, understood: its plugin is loaded, its options are checked, its defaults are
 * resolved. No connection yet.
 */
#ifndef DL_STORE_H
#define DL_STORE_H

#include "load/abi.h"
#include "load/settings.h"
#include "load/uri.h"

#include <dlock/plugin.h>

/* The password of a URI that gives it by pass_file= or pass_env=. One of the two at most is not
 * NULL. */
struct dl_password_source {
    char *file; /* pass_file: an absolute path */
    char *env;  /* pass_env: the name of a variable */
};

struct dl_store_value;

struct dl_store {
    const struct dl_plugin *plugin; /* with the slots of the URI's strategy */
    struct dlock_target target;     /* given to open; its first member-holder is this struct */
    struct dl_settings settings;    /* core's own options */
    int64_t ttl_set_ms;             /* ttl= of the URI or the defaults; 0: neither has it */
    char *uri;                      /* without secrets */

    /* for core/load only */
    struct dl_uri parsed; /* target points into it; it has the password */
    struct dl_password_source password;
    char *what;                    /* the source of the URI, for messages: "URI", "@/path" */
    char *file;                    /* the path of "@/path"; NULL: the URI is not in a file */
    char *defaults;                /* from the client's options; NULL: none */
    char *directory;               /* the working directory, for target */
    struct dl_store_value *values; /* one for each row of plugin->options */
    struct dl_plugin own_plugin;   /* plugin points to it if there is a strategy, or after
                                      dl_store_open_static */
};

/*
 * uri: NULL, "@file" or a URI (docs/uri.md). options: NULL, or those of the client; plugin_dirs,
 * defaults and create count here. *out: free with dl_store_free. host: for the plugin's init, and
 * for warnings.
 */
enum dlock_status dl_store_open(const char *uri, const struct dlock_client_options *options,
                                const struct dlock_host *host, struct dl_store **out,
                                struct dlock_error *err);

/* The same with a descriptor instead of a file on disk, for tests. The descriptor is checked in the
 * same way. Its init is called each time. */
enum dlock_status dl_store_open_static(const struct dlock_plugin *descriptor, const char *uri,
                                       const struct dlock_client_options *options,
                                       const struct dlock_host *host, struct dl_store **out,
                                       struct dlock_error *err);

void dl_store_free(struct dl_store *store);

#endif
