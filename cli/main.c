/* SPDX-License-Identifier: MIT */
/*
 * dlock - locks for the command line, on every store that libdlock has a plugin for.
 *
 * main.c reads the global options and calls a command.
 */
#include "args.h"
#include "output.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    cli_command_fn *run;
} commands[] = {
    {"run", cli_run},
    {"acquire", cli_acquire},
    {"hold", cli_hold},
    {"renew", cli_token_renew},
    {"release", cli_token_release},
    {"inspect", cli_inspect},
    {"list", cli_inspect_list},
    {"top", cli_top},
    {"why", cli_why},
    {"observe", cli_observe},
    {"break", cli_break},
    {"backends", cli_backends},
    {"doctor", cli_doctor},
    {"new-plugin", cli_new_plugin},
};

static cli_command_fn *command_find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run;
    return NULL;
}

static int command_unknown(const struct cli *cli, const char *name)
{
    struct suggest suggest = {.typed = name, .len = strlen(name)};

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        suggest_try(&suggest, commands[i].name);
    return cli_args_usage(cli, "no command '%s'%s%s%s", cli_output_printable(name, strlen(name)),
                          suggest.best != NULL ? "; did you mean " : "",
                          suggest.best != NULL ? suggest.best : "",
                          suggest.best != NULL ? "?" : "");
}

static int command_run(struct cli *cli, int argc, char **argv)
{
    static const struct option no_options[] = {{NULL, 0, NULL, 0}};
    cli_command_fn *command;
    int exit_code;

    if (cli_args_next(cli, argc, argv, no_options, true, &exit_code) == -2)
        return exit_code;
    if (optind >= argc)
        return cli_args_usage(cli, "a command is missing");
    command = command_find(argv[optind]);
    if (command == NULL &&
        strstr(argv[optind], "://") != NULL) /* it may contain a password (C17) */
        return cli_args_usage(cli, "this is a URI, not a command; give a URI with -u");
    if (command == NULL)
        return command_unknown(cli, argv[optind]);
    argc -= optind;
    argv += optind;
    optind = 0; /* glibc: begin anew */
    return command(cli, argc, argv);
}

/*
 * A descriptor of ours must not get the number of a closed standard stream: messages would go into
 * a database. The descriptor that takes the number fails when it is used, and is not inherited.
 */
static void streams_fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            /* The lowest free number is this one. */
            (void)open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int main(int argc, char **argv)
{
    struct cli cli = {0};
    int exit_code;

    streams_fill();
    exit_code = command_run(&cli, argc, argv);
    cli_args_fini(&cli);
    return exit_code;
}
