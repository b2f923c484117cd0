/* SPDX-License-Identifier: MIT */
/* dlock new-plugin: a tree to begin a plugin with. The program dlock-new-plugin, which comes with
 * the kit for authors and stands beside this one, makes it. */
#include "args.h"
#include "exitcode.h"
#include "output.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct option no_options[] = {{NULL, 0, NULL, 0}};

int cli_new_plugin(struct cli *cli, int argc, char **argv)
{
    char own[4096] = "", program[4200];
    char *words[4] = {program};
    int exit_code;

    if (cli_args_next(cli, argc, argv, no_options, false, &exit_code) == -2)
        return exit_code;
    if (optind >= argc || argc - optind > 2)
        return cli_args_usage(cli, "new-plugin wants NAME, and perhaps a directory");
    for (int i = 0; optind + i < argc; i++)
        words[1 + i] = argv[optind + i];
    if (readlink("/proc/self/exe", own, sizeof own - 1) < 0)
        own[0] = '\0';
    (void)snprintf(program, sizeof program, "%s/dlock-new-plugin", dirname(own));
    (void)execv(program, words);
    cli_output_fail(cli, "cannot execute %s: %s (it comes with dlock-testing)", program,
                    strerror(errno));
    return CLI_EXIT_NOT_FOUND;
}
