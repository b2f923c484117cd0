/* SPDX-License-Identifier: MIT */
/* client.h - dlock_client_open: reads the URI, loads the plugin, makes the first session. */
#ifndef DL_API_CLIENT_H
#define DL_API_CLIENT_H

#include "client/client.h"

enum dlock_status dl_client_open(const char *uri, const struct dlock_client_options *options,
                                 struct dlock_client **out, struct dlock_error *err);

/* Connects by a thread of the driver. */
enum dlock_status dl_client_open_start(const char *uri, const struct dlock_client_options *options,
                                       struct dlock_client **out, struct dlock_error *err);

/* For tests: a descriptor instead of a file; host replaces clock and random bytes, or is NULL. */
enum dlock_status dl_client_open_static(const struct dlock_plugin *descriptor, const char *uri,
                                        const struct dlock_client_options *options,
                                        const struct dl_host *host, struct dlock_client **out,
                                        struct dlock_error *err);

#endif
