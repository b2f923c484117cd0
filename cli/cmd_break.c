/* SPDX-License-Identifier: MIT */
/* dlock break: take a name away from its holder. */
#include "args.h"
#include "client.h"
#include "exitcode.h"
#include "info.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BREAK_OWNER = CLI_OPTION_OWN, BREAK_YES };

static const struct option break_options[] = {
    {"owner", required_argument, NULL, BREAK_OWNER},
    {"yes", no_argument, NULL, BREAK_YES},
    {NULL, 0, NULL, 0},
};

struct breaking {
    struct cli_name name;
    const char *owner; /* NULL: any holder */
    bool yes;
};

/* -1: go on; else the exit code. */
static int break_options_read(struct cli *cli, int argc, char **argv, struct breaking *what)
{
    int exit_code;
    int option;

    while ((option = cli_args_next(cli, argc, argv, break_options, false, &exit_code)) != -1) {
        if (option == -2)
            return exit_code;
        if (option == BREAK_OWNER)
            what->owner = optarg;
        what->yes = what->yes || option == BREAK_YES;
    }
    exit_code = cli_args_name_operand(cli, argc, argv, &what->name);
    if (exit_code >= 0)
        return exit_code;
    if (!what->yes && isatty(STDIN_FILENO) != 1)
        return cli_args_usage(cli, "break: needs --yes, or a terminal for its question");
    return -1;
}

static bool answer_is_yes(void)
{
    char line[16] = "";

    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

/* Shows the holder, asks, and limits the break to that holder: another program may take the lock
 * during the question. OK: go on; CANCELED: the answer is no. */
static enum dlock_status break_ask(struct dlock_client *client, struct breaking *what,
                                   struct info_list *list, struct dlock_error *err)
{
    enum dlock_status status =
        dlock_client_inspect(client, what->name.bytes, what->name.len, info_list_add, list, err);

    if (status != DLOCK_OK)
        return status;
    if (list->no_memory)
        return DLOCK_NOMEM;
    if (list->count == 0)
        return DLOCK_NOT_HELD;
    for (size_t i = 0; i < list->count; i++) {
        const struct info *info = &list->items[i];
        char remaining[24];

        info_duration(remaining, info->remaining_ms);
        (void)fprintf(stderr, "held by %s, owner %s, fence %" PRIu64 ", %s left\n",
                      cli_output_printable(info->label, strlen(info->label)),
                      cli_output_printable(info->owner, strlen(info->owner)), info->fence,
                      remaining);
    }
    (void)fprintf(stderr, "Break %s? [y/N] ",
                  cli_output_printable(what->name.bytes, what->name.len));
    if (!answer_is_yes())
        return DLOCK_CANCELED;
    if (what->owner == NULL && list->count == 1)
        what->owner = list->items[0].owner;
    return DLOCK_OK;
}

static int break_print(const struct cli *cli, const struct breaking *what, bool broken)
{
    json_t *root;

    if (!cli->json)
        return broken ? CLI_EXIT_OK : CLI_EXIT_NO;
    root = cli_output_json_name(what->name.bytes, what->name.len);
    (void)json_object_set_new(root, "broken", json_boolean(broken));
    return cli_output_json_print(cli, root, broken ? CLI_EXIT_OK : CLI_EXIT_NO);
}

/* Another library may write any text as owner: the text is not a usage error. */
static const char *owner_remark(const char *owner)
{
    if (owner == NULL)
        return "";
    if (!cli_args_is_token(owner))
        return " by that owner, which is not a token (32 hex digits, as inspect shows them)";
    return " by that owner";
}

static int break_report(const struct cli *cli, const struct breaking *what,
                        enum dlock_status status, struct dlock_error *err)
{
    const char *printable = cli_output_printable(what->name.bytes, what->name.len);

    switch (status) {
    case DLOCK_OK:
        return break_print(cli, what, true);
    case DLOCK_NOT_HELD:
        cli_output_fail(cli, "%s: not held%s", printable, owner_remark(what->owner));
        return break_print(cli, what, false);
    case DLOCK_CANCELED:
        cli_output_fail(cli, "%s: not broken", printable);
        return break_print(cli, what, false);
    default:
        err->status = status;
        return cli_output_fail_status(cli, NULL, err);
    }
}

int cli_break(struct cli *cli, int argc, char **argv)
{
    struct dlock_error err = CLI_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct info_list list = {0};
    struct breaking what = {0};
    enum dlock_status status;
    int exit_code = break_options_read(cli, argc, argv, &what);

    if (exit_code >= 0)
        return exit_code;
    status = cli_client_open(cli, CLI_TO_INSPECT, &client, &err);
    if (status == DLOCK_OK && !what.yes)
        status = break_ask(client, &what, &list, &err);
    if (status == DLOCK_OK)
        status = dlock_client_break(client, what.name.bytes, what.name.len, what.owner, &err);
    exit_code = break_report(cli, &what, status, &err);
    dlock_client_close(client);
    info_list_fini(&list);
    return exit_code;
}
