/* SPDX-License-Identifier: MIT */
#include "lock_options.h"

#include "output.h"

#include <stdio.h>
#include <string.h>

static const struct option no_own_options[] = {LOCK_OPTIONS, {NULL, 0, NULL, 0}};
static const struct option until_options[] = {
    LOCK_OPTIONS,
    {"until", required_argument, NULL, LOCK_OPTION_OWN},
    {NULL, 0, NULL, 0},
};

void lock_options_init(struct acquire *acquire, struct cli *cli)
{
    *acquire = (struct acquire){.cli = cli,
                                .timeout_ms = DLOCK_AS_OPTIONS,
                                .parent = -1,
                                .options = DLOCK_OPTIONS_INIT,
                                .held_mutex = PTHREAD_MUTEX_INITIALIZER};
}

bool lock_options_take(struct acquire *acquire, int option, char why[CLI_WHY])
{
    long limit;

    switch (option) {
    case LOCK_TTL:
        return cli_args_duration(optarg, &cli_ttl, &acquire->options.ttl_ms, why);
    case LOCK_WAIT:
        acquire->timed = true;
        return cli_args_duration(optarg, &cli_wait, &acquire->timeout_ms, why);
    case LOCK_NOWAIT:
        acquire->timeout_ms = 0;
        acquire->nowait = true;
        return true;
    case LOCK_SHARED:
        acquire->shared = true;
        return true;
    case LOCK_LIMIT:
        (void)snprintf(why, CLI_WHY, "is not in 1..%d", DLOCK_LIMIT_MAX);
        if (!cli_args_number(optarg, 1, DLOCK_LIMIT_MAX, &limit))
            return false;
        acquire->options.limit = limit;
        return true;
    case LOCK_DATA:
        acquire->options.data = optarg;
        acquire->options.data_len = strlen(optarg);
        return true;
    default:
        acquire->options.label = optarg;
        return true;
    }
}

int lock_options_refuse(const struct cli *cli, const struct option *table, int option,
                        const char *why)
{
    return cli_args_usage(cli, "--%s=%s %s", table[option - CLI_OPTION_OWN].name,
                          cli_output_printable(optarg, strlen(optarg)), why);
}

int lock_options_check(const struct acquire *acquire)
{
    if (acquire->timed && acquire->nowait)
        return cli_args_usage(acquire->cli, "--wait and --nowait exclude each other");
    if (acquire->shared && acquire->options.limit > 1)
        return cli_args_usage(acquire->cli, "--shared and --limit exclude each other");
    if (acquire->options.data_len > DLOCK_DATA_MAX)
        return cli_args_usage(acquire->cli, "--data has %zu bytes, want at most %d",
                              acquire->options.data_len, DLOCK_DATA_MAX);
    if (acquire->shared && acquire->options.keep_ms > 0)
        return cli_args_usage(acquire->cli,
                              "--shared excludes --keep and --once-per: only exclusive runs keep");
    return -1;
}

int lock_options_read(struct acquire *acquire, const char **until, int argc, char **argv,
                      struct cli_name *name)
{
    const struct option *table = until != NULL ? until_options : no_own_options;
    char why[CLI_WHY] = "";
    int exit_code;
    int option;

    while ((option = cli_args_next(acquire->cli, argc, argv, table, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (until != NULL && option == LOCK_OPTION_OWN)
            *until = optarg;
        else if (!lock_options_take(acquire, option, why))
            return lock_options_refuse(acquire->cli, table, option, why);
    }
    exit_code = lock_options_check(acquire);
    if (exit_code >= 0)
        return exit_code;
    acquire->name = name;
    return cli_args_name_operand(acquire->cli, argc, argv, name);
}
