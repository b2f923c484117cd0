/* SPDX-License-Identifier: MIT */
/* cli.h - what every command is given: the global options. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <dlock/dlock.h>
#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cli {
    const char *uri;  /* NULL: $DLOCK_URI, then the default of the library */
    char *secret_uri; /* uri, when it had to be hidden in argv */
    bool json;
    bool name_hex; /* NAME and PREFIX are given in hex */
    bool quiet;
    int verbose;
    bool untimed;      /* the acquire has no --wait: the line that says why it waits names it */
    atomic_bool holds; /* run has the lock and reports a loss itself */
};

/* One command. argv[0] is its name. Returns the exit code of the program. */
typedef int cli_command_fn(struct cli *cli, int argc, char **argv);

cli_command_fn cli_run, cli_acquire, cli_hold, cli_token_renew, cli_token_release, cli_inspect,
    cli_inspect_list, cli_why, cli_top, cli_observe, cli_break, cli_backends, cli_doctor,
    cli_new_plugin;

#endif
