/* SPDX-License-Identifier: MIT */
/* args.h - command-line options: the global ones, and the types that several commands share. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "cli.h"

#include <stddef.h>
#include <stdint.h>

/* A lock name or prefix, as bytes. */
struct cli_name {
    const void *bytes; /* argv's own text, or buffer */
    size_t len;
    unsigned char buffer[DLOCK_NAME_MAX + 1]; /* of a name given in hex: room for one too many */
};

/* Values of getopt's `val` from here on are a command's own. */
#define CLI_OPTION_OWN 1000

/*
 * getopt_long over `own` (ends with a zeroed entry) and the global options, which it consumes.
 * An own option whose val is a character is a short one, too. Returns an own option's val, -1 at
 * the end of the options, or -2: *exit_code is what the program ends with (a usage error that has
 * been printed, or --help). stop_early: options end at the first operand.
 */
int cli_args_next(struct cli *cli, int argc, char **argv, const struct option *own, bool stop_early,
                  int *exit_code);

/* The URI in a word of argv. The arguments of a process are public: if it may have a password, it
 * is moved to *secret, which cli_args_uri_free frees, and starred out in argv. Else *secret is
 * NULL. */
const char *cli_args_uri(char *word, char **secret);
void cli_args_uri_free(char *secret);

/* Wipes and frees what the global options hold. */
void cli_args_fini(struct cli *cli);

/* What a duration may be: as the option of that name in a URI, if there is one. */
struct cli_duration {
    int64_t min_ms, max_ms;
    const char *range; /* for the message */
    bool forever;      /* is a duration, too: DLOCK_FOREVER */
};
extern const struct cli_duration cli_ttl, cli_wait, cli_max_hold, cli_keep, cli_kill_after;

#define CLI_WHY 64 /* size of a buffer for a reason */

/* "500ms", "30s", "5m", "2h", "7d", "0". False: why goes on after "<option>=<text> ". */
bool cli_args_duration(const char *text, const struct cli_duration *kind, int64_t *ms,
                       char why[CLI_WHY]);

/* A decimal number in min..max. */
bool cli_args_number(const char *text, long min, long max, long *out);

/* text as it is, or decoded from hex. False: not hex, or longer than any name. */
bool cli_args_name(const char *text, bool hex, struct cli_name *out);

/* The one operand NAME of a command whose options have been read. -1: go on; else the exit code. */
int cli_args_name_operand(const struct cli *cli, int argc, char **argv, struct cli_name *name);

/* True: the text can be an owner token. */
bool cli_args_is_token(const char *text);

/* Prints "dlock: ..." and returns the exit code for a usage error. */
__attribute__((format(printf, 2, 3))) int cli_args_usage(const struct cli *cli, const char *format,
                                                         ...);

/* The usage error of a word of `run` that stands after NAME and begins with a dash. own: the
 * options of the command. Returns the exit code. */
int cli_args_misplaced(const struct cli *cli, const struct option *own, const char *name,
                       const char *word);

/* "did you mean": the known word nearest to a mistyped one. */
struct suggest {
    const char *typed;
    size_t len;       /* of typed */
    const char *best; /* NULL: no word is near enough */
    size_t distance;
};

/* Compares one known word. It is near enough if at most one letter in three is wrong, missing or
 * additional. */
void suggest_try(struct suggest *suggest, const char *known);

#endif
