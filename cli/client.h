/* SPDX-License-Identifier: MIT */
/* client.h - opening the store that the global options name. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli.h"

enum cli_purpose {
    CLI_TO_LOCK,    /* makes a store that does not exist; connects at the first call (open=lazy) */
    CLI_TO_INSPECT, /* NO_STORE if the store does not exist */
    CLI_TO_WATCH    /* connects at the first call; then as to inspect */
};

/* As dlock_client_open, with the library's log on standard error: warnings until run has
 * the lock, other messages with --verbose. cli must outlive the client. */
enum dlock_status cli_client_open(struct cli *cli, enum cli_purpose purpose,
                                  struct dlock_client **out, struct dlock_error *err);

/* The same for another URI than that of the global options. */
enum dlock_status cli_client_open_uri(struct cli *cli, const char *uri, enum cli_purpose purpose,
                                      struct dlock_client **out, struct dlock_error *err);

/* True: the URI may contain a password. It does not know the plugin, so that true may be wrong. */
bool cli_client_uri_is_secret(const char *uri);

/*
 * *uri: the value of DLOCK_URI with which a child process finds the same store from any directory;
 * the caller frees it. NULL: DLOCK_URI stays unchanged, because the URI came from there or is the
 * default. If -u gave a URI with a password, *uri has *** instead, which the library refuses: no
 * store is better than another store. False: no memory.
 */
bool cli_client_uri_for_child(const struct cli *cli, struct dlock_client *client, char **uri);

#endif
