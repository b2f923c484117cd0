/* SPDX-License-Identifier: MIT */
/* dlock renew and dlock release: what a script does with a lock that dlock acquire took. */
#include "args.h"
#include "client.h"
#include "exitcode.h"
#include "output.h"

#include <string.h>
#include <unistd.h>

enum { TOKEN_TOKEN = CLI_OPTION_OWN, TOKEN_TTL };

static const struct option renew_options[] = {
    {"token", required_argument, NULL, TOKEN_TOKEN},
    {"ttl", required_argument, NULL, TOKEN_TTL},
    {NULL, 0, NULL, 0},
};

static const struct option release_options[] = {
    {"token", required_argument, NULL, TOKEN_TOKEN},
    {NULL, 0, NULL, 0},
};

struct adopted {
    struct cli *cli;
    struct cli_name name;
    const char *token;
    struct dlock_options options;
    struct dlock_client *client;
    struct dlock_handle *lock;
    struct dlock_error err;
};

/* -1: go on; else the exit code. */
static int token_option_take(struct adopted *what, int option)
{
    char why[CLI_WHY] = "";

    if (option == TOKEN_TOKEN) {
        what->token = optarg;
        if (!cli_args_is_token(optarg))
            return cli_args_usage(what->cli,
                                  "--token=%s is not a token (32 hex digits, as dlock acquire "
                                  "prints them)",
                                  cli_output_printable(optarg, strlen(optarg)));
    } else if (!cli_args_duration(optarg, &cli_ttl, &what->options.ttl_ms, why)) {
        return cli_args_usage(what->cli, "--ttl=%s %s",
                              cli_output_printable(optarg, strlen(optarg)), why);
    }
    return -1;
}

/* -1: go on; else the exit code. */
static int token_options_read(struct adopted *what, int argc, char **argv,
                              const struct option *options)
{
    int exit_code;
    int option;

    while ((option = cli_args_next(what->cli, argc, argv, options, false, &exit_code)) != -1) {
        if (option != -2)
            exit_code = token_option_take(what, option);
        if (exit_code >= 0)
            return exit_code;
    }
    if (what->token == NULL)
        return cli_args_usage(what->cli, "%s: --token is missing", argv[0]);
    return cli_args_name_operand(what->cli, argc, argv, &what->name);
}

/* NOT_HELD is no status of a lock that a script believes to hold. */
static int token_fail(const struct adopted *what, enum dlock_status status)
{
    struct dlock_error err = what->err;
    const char *name = cli_output_printable(what->name.bytes, what->name.len);

    err.status = status;
    if (status != DLOCK_NOT_HELD && status != DLOCK_LOST)
        return cli_output_fail_status(what->cli, name, &err);
    cli_output_fail(what->cli, "%s: lock lost: that token does not hold it any more", name);
    return CLI_EXIT_LOST;
}

/* The lease is renewed, and this process is its owner. */
static enum dlock_status token_adopt(struct adopted *what)
{
    enum dlock_status status =
        cli_client_open(what->cli, CLI_TO_INSPECT, &what->client, &what->err);

    what->options.renew = DLOCK_OFF;
    if (status == DLOCK_OK)
        status = dlock_new(what->client, what->name.bytes, what->name.len, &what->options,
                           &what->lock, &what->err);
    if (status == DLOCK_OK)
        status = dlock_adopt(what->lock, what->token, &what->err);
    return status;
}

static int token_print(const struct adopted *what, const char *event)
{
    int64_t left_ms = dlock_remaining_ms(what->lock);
    json_t *root;

    if (!what->cli->json)
        return CLI_EXIT_OK;
    root = cli_output_json_name(what->name.bytes, what->name.len);
    (void)json_object_set_new(root, event, json_true());
    if (left_ms > 0)
        (void)json_object_set_new(root, "remaining_ms", json_integer(left_ms));
    return cli_output_json_print(what->cli, root, CLI_EXIT_OK);
}

static int token_end(struct adopted *what, int exit_code)
{
    dlock_free(what->lock);
    dlock_client_close(what->client);
    return exit_code;
}

int cli_token_renew(struct cli *cli, int argc, char **argv)
{
    struct adopted what = {.cli = cli, .options = DLOCK_OPTIONS_INIT, .err = DLOCK_ERROR_INIT};
    int exit_code = token_options_read(&what, argc, argv, renew_options);
    enum dlock_status status;

    if (exit_code >= 0)
        return exit_code;
    status = token_adopt(&what);
    if (status != DLOCK_OK)
        return token_end(&what, token_fail(&what, status));
    _exit(token_print(&what, "renewed")); /* to free the handle would release the lock */
}

int cli_token_release(struct cli *cli, int argc, char **argv)
{
    struct adopted what = {.cli = cli, .options = DLOCK_OPTIONS_INIT, .err = DLOCK_ERROR_INIT};
    int exit_code = token_options_read(&what, argc, argv, release_options);
    enum dlock_status status;

    if (exit_code >= 0)
        return exit_code;
    status = token_adopt(&what);
    if (status == DLOCK_OK)
        status = dlock_unlock(what.lock, &what.err);
    exit_code = status == DLOCK_OK ? token_print(&what, "released") : token_fail(&what, status);
    return token_end(&what, exit_code);
}
