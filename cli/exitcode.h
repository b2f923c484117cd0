/* SPDX-License-Identifier: MIT */
/* exitcode.h - the exit codes of the command, and the code of each status. */
#ifndef CLI_EXITCODE_H
#define CLI_EXITCODE_H

#include <dlock/types.h>

enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_NO = 1,           /* inspect: free; break: nothing to break; doctor --strict: advice */
    CLI_EXIT_USAGE = 64,       /* command line, name, URI */
    CLI_EXIT_NO_STORE = 66,    /* the store does not exist, and is not created */
    CLI_EXIT_UNAVAILABLE = 69, /* store, quorum or plugin */
    CLI_EXIT_LOST = 70,        /* the lock was lost while the command ran */
    CLI_EXIT_INTERNAL = 71,    /* memory, descriptors, bugs */
    CLI_EXIT_BUSY = 75,        /* another owner holds it, timed out, outcome unknown */
    CLI_EXIT_PROTOCOL = 76,
    CLI_EXIT_AUTH = 77,
    CLI_EXIT_CONFIG = 78,
    CLI_EXIT_NOT_EXECUTABLE = 126,
    CLI_EXIT_NOT_FOUND = 127,
    CLI_EXIT_SIGNAL = 128 /* + the number of the signal */
};

int cli_exitcode_of(enum dlock_status status);

#endif
