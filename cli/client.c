/* SPDX-License-Identifier: MIT */
#include "client.h"

#include "lib/text.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void log_line(void *arg, enum dlock_log_level level, const char *message)
{
    static const char *const words[] = {"error: ", "warning: ", "info: ", "debug: "};
    const struct cli *cli = arg;
    const char *word =
        cli->verbose > 1 && (size_t)level < sizeof words / sizeof words[0] ? words[level] : "";

    const char *end = cli->untimed && strstr(message, ": waiting: ") != NULL
                          ? " (--wait TIME bounds the wait)"
                          : "";

    if (level <= DLOCK_LOG_WARNING && !atomic_load(&cli->holds))
        cli_output_fail(cli, "%s%s%s", word, message, end);
    else if (cli->verbose > 1 || level < DLOCK_LOG_DEBUG)
        cli_output_say(cli, "%s%s", word, message);
}

enum dlock_status cli_client_open(struct cli *cli, enum cli_purpose purpose,
                                  struct dlock_client **out, struct dlock_error *err)
{
    return cli_client_open_uri(cli, cli->uri, purpose, out, err);
}

enum dlock_status cli_client_open_uri(struct cli *cli, const char *uri, enum cli_purpose purpose,
                                      struct dlock_client **out, struct dlock_error *err)
{
    struct dlock_client_options options = {
        .struct_size = sizeof options,
        .log = log_line,
        .log_arg = cli,
        .create = purpose == CLI_TO_LOCK ? DLOCK_DEFAULT : DLOCK_OFF,
    };
    enum dlock_status status;
    const char *server;

    if (purpose != CLI_TO_INSPECT) /* also waits for a store that does not exist yet */
        options.defaults = "open=lazy";
    status = dlock_client_open(uri, &options, out, err);
    if (status != DLOCK_OK)
        return status;
    cli_output_say(cli, "store %s", dlock_client_uri(*out));
    server = dlock_client_server(*out);
    if (server[0] != '\0') /* connected */
        cli_output_say(cli, "server %s", server);
    return DLOCK_OK;
}

/* A URI in a URI that has a user (an option such as node=) has an '@', perhaps as %40. */
bool cli_client_uri_is_secret(const char *uri)
{
    const char *query = strchr(uri, '?');

    if (uri[0] == '@') /* the name of a file */
        return false;
    return strchr(uri, '@') != NULL || strstr(uri, "%40") != NULL ||
           (query != NULL && dl_secret_is_named(query));
}

/* True: the URI names another store in another directory. A URI without a path (redlock:?node=...)
 * names servers. */
static bool uri_is_relative(const char *uri)
{
    const char *path = strchr(uri, ':');

    return uri[0] != '@' && path != NULL && strchr("/?", path[1]) == NULL;
}

bool cli_client_uri_for_child(const struct cli *cli, struct dlock_client *client, char **uri)
{
    const char *printable = dlock_client_uri(client);
    const char *given = cli->uri != NULL ? cli->uri : getenv("DLOCK_URI");
    bool in_file = given != NULL && given[0] == '@' && strstr(printable, "***") != NULL;

    *uri = NULL;
    if (cli->uri == NULL && (given == NULL || !uri_is_relative(given)))
        return true;
    *uri = strdup(in_file ? given : printable);
    return *uri != NULL;
}
