/* SPDX-License-Identifier: MIT */
/* client.h - opening the store that the global options name. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli.h"

enum cli_purpose {
    CLI_TO_LOCK, /* makes the store if it does not exist; connects with the first call (open=lazy)
                  */
    CLI_TO_LOOK  /* NO_STORE if the store does not exist */
};

/* As dlock_client_open, with the library's log on standard error: warnings until run has
 * the lock, the rest as far as --verbose asks for it. cli must outlive the client. */
enum dlock_status cli_client_open(struct cli *cli, enum cli_purpose purpose,
                                  struct dlock_client **out, struct dlock_error *err);

/*
 * Does the text of a URI hold a password, as far as one can tell without its plugin? Errs on the
 * side of yes.
 */
bool cli_client_uri_is_secret(const char *uri);

/*
 * *uri: what DLOCK_URI has to be for a child process to find the same store, wherever the child
 * changes its directory to; the caller frees it. NULL: DLOCK_URI stays as it is, because the URI
 * came from there or is the default. If -u gave a URI with a password: the form with ***, which the
 * library refuses, because no store is better than another one. False: no memory.
 */
bool cli_client_uri_for_child(const struct cli *cli, struct dlock_client *client, char **uri);

#endif
