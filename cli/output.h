/* SPDX-License-Identifier: MIT */
/*
 * output.h - what goes to the two output streams.
 *
 * Text of other programs (names, labels, owners) is escaped: a byte outside printable ASCII, and
 * the backslash, becomes \xHH, so that no lock name can control a terminal.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli.h"

#include <dlock/dlock.h>
#include <jansson.h>
#include <stdint.h>

/* Room for the longest data of a holder in escapes and a NUL; longer texts are cut with "...". */
#define CLI_PRINTABLE_SIZE (4 * DLOCK_DATA_MAX + 8)

/* Escaped. The result is valid until the eighth next call in this thread. */
const char *cli_output_printable(const void *bytes, size_t len);

/* One line "dlock: ..." on standard error, unless --quiet; with the time if --verbose is given
 * twice.
 */
__attribute__((format(printf, 2, 3))) void cli_output_fail(const struct cli *cli,
                                                           const char *format, ...);

/* The same with --verbose only. */
__attribute__((format(printf, 2, 3))) void cli_output_say(const struct cli *cli, const char *format,
                                                          ...);

/* Writes a whole line to fd. at_once: EAGAIN if there is no room now (a stopped terminal, a full
 * pipe). 0 or an errno. */
int cli_output_write(int fd, const char *line, size_t len, bool at_once);

/* An error with room for what each node says, which lasts as long as the block around it. */
#define CLI_ERROR_INIT                                                           \
    {                                                                            \
        .nodes = (struct dlock_node_error[DLOCK_NODE_ERRORS_MAX]){{.node = ""}}, \
        .node_room = DLOCK_NODE_ERRORS_MAX                                       \
    }

/* Prints "dlock: <what>: <the error's text>", and a line for each of its nodes. Returns the exit
 * code of the status. what may be NULL. */
int cli_output_fail_status(const struct cli *cli, const char *what, const struct dlock_error *err);

/* {"name": ... or null, "name_hex": ...}; caller frees. NULL: no memory. */
json_t *cli_output_json_name(const void *name, size_t len);

/* A string; null when it is NULL, empty or not UTF-8. */
json_t *cli_output_json_text(const char *text);

/* The number; null when `known` is false. */
json_t *cli_output_json_number(uint64_t value, bool known);

/* Prints the value, which it frees, and a newline. NULL: no memory. Returns exit_code, or the code
 * of its own failure. */
int cli_output_json_print(const struct cli *cli, json_t *value, int exit_code);

/* Flushes standard output. Returns exit_code; or the code of a failed write, with a message. */
int cli_output_close(const struct cli *cli, int exit_code);

/* Capabilities by their words: "fence-durable" is DLOCK_CAP_FENCE_DURABLE. */

/* An array of words; caller frees. NULL: no memory. */
json_t *cli_output_caps_json(uint64_t caps);

/* A space and a word for each, on standard output. */
void cli_output_caps(uint64_t caps);

/* Why a lock was lost, in words. */

/* For programs: one word. A reason of a newer library reads as "expired". */
const char *cli_output_loss_word(enum dlock_reason reason);

/* For people: the end of a sentence. */
const char *cli_output_loss(enum dlock_reason reason);

#endif
