/* SPDX-License-Identifier: MIT */
/* lock_options.h - the options that all commands have that acquire a lock: run, acquire, hold. */
#ifndef CLI_LOCK_OPTIONS_H
#define CLI_LOCK_OPTIONS_H

#include "acquire.h"

enum lock_option {
    LOCK_TTL = CLI_OPTION_OWN,
    LOCK_WAIT,
    LOCK_NOWAIT,
    LOCK_SHARED,
    LOCK_LABEL,
    LOCK_LIMIT,
    LOCK_DATA,
    LOCK_OPTION_OWN /* values of getopt's `val` from here on are a command's own */
};

/* The first entries of the command's table, in the order of the enum. */
/* clang-format off */
#define LOCK_OPTIONS                                \
    {"ttl", required_argument, NULL, LOCK_TTL},     \
    {"wait", required_argument, NULL, LOCK_WAIT},   \
    {"nowait", no_argument, NULL, LOCK_NOWAIT},     \
    {"shared", no_argument, NULL, LOCK_SHARED},     \
    {"label", required_argument, NULL, LOCK_LABEL}, \
    {"limit", required_argument, NULL, LOCK_LIMIT}, \
    {"data", required_argument, NULL, LOCK_DATA}
/* clang-format on */

/* The request without any option. */
void lock_options_init(struct acquire *acquire, struct cli *cli);

/* Takes an option of the enum, with getopt's optarg. False: why says what is wrong with optarg. */
bool lock_options_take(struct acquire *acquire, int option, char why[CLI_WHY]);

/* The usage error of an option that was refused. table: with LOCK_OPTIONS first. */
int lock_options_refuse(const struct cli *cli, const struct option *table, int option,
                        const char *why);

/* Options that exclude each other. -1: go on; else the exit code. */
int lock_options_check(const struct acquire *acquire);

/* Reads all options and the one operand NAME of a command that has no options of its own but
 * --until, whose text goes to *until; NULL: nor that. -1: go on; else the exit code. */
int lock_options_read(struct acquire *acquire, const char **until, int argc, char **argv,
                      struct cli_name *name);

#endif
