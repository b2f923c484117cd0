/* SPDX-License-Identifier: MIT */
/* dlock observe: one line of JSON for each change of the holder of a name. */
#include "args.h"
#include "client.h"
#include "exitcode.h"
#include "info.h"

#include <dlock/dlock.h>
#include <stdio.h>
#include <stdlib.h>

/* *fence: of the holder; 0: the name is free. CLI_EXIT_OK: the line was written. */
static int change_print(const struct cli *cli, const struct cli_name *name,
                        const struct info_list *list, uint64_t *fence)
{
    json_t *root = cli_output_json_name(name->bytes, name->len);
    json_t *holder = list->count > 0 ? info_json(&list->items[0]) : NULL;
    char *line = NULL;
    int exit_code = CLI_EXIT_OK;

    *fence = list->count > 0 ? list->items[0].fence : 0;
    if (json_object_set_new(root, "held", json_boolean(list->count > 0)) == 0 &&
        (holder == NULL || json_object_update(root, holder) == 0))
        line = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(holder);
    json_decref(root);
    if (line == NULL) {
        cli_output_fail(cli, "out of memory");
        return CLI_EXIT_INTERNAL;
    }
    if (printf("%s\n", line) < 0 || fflush(stdout) != 0)
        exit_code = cli_output_close(cli, CLI_EXIT_INTERNAL); /* prints why */
    free(line);
    return exit_code;
}

static int changes_print(struct cli *cli, struct dlock_client *client, const struct cli_name *name)
{
    struct dlock_error err = CLI_ERROR_INIT;
    uint64_t fence = 0;

    for (;;) {
        struct info_list list = {0};
        enum dlock_status status = dlock_client_observe(client, name->bytes, name->len, fence,
                                                        DLOCK_FOREVER, info_list_add, &list, &err);
        int exit_code = CLI_EXIT_OK;

        if (status == DLOCK_OK && list.no_memory)
            exit_code = CLI_EXIT_INTERNAL;
        else if (status == DLOCK_OK || status == DLOCK_NOT_HELD)
            exit_code = change_print(cli, name, &list, &fence);
        else
            exit_code = cli_output_fail_status(cli, NULL, &err);
        info_list_fini(&list);
        if (exit_code != CLI_EXIT_OK)
            return exit_code;
    }
}

int cli_observe(struct cli *cli, int argc, char **argv)
{
    static const struct option no_options[] = {{NULL, 0, NULL, 0}};
    struct dlock_error err = CLI_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct cli_name name;
    int exit_code;

    if (cli_args_next(cli, argc, argv, no_options, false, &exit_code) == -2)
        return exit_code;
    exit_code = cli_args_name_operand(cli, argc, argv, &name);
    if (exit_code >= 0)
        return exit_code;
    if (cli_client_open(cli, CLI_TO_INSPECT, &client, &err) != DLOCK_OK)
        return cli_output_fail_status(cli, NULL, &err);
    exit_code = changes_print(cli, client, &name);
    dlock_client_close(client);
    return exit_code;
}
