/* SPDX-License-Identifier: MIT */
#include "exitcode.h"

/* No default: the compiler names the status that was forgotten here. */
int cli_exitcode_of(enum dlock_status status)
{
    switch (status) {
    case DLOCK_OK:
        return CLI_EXIT_OK;
    case DLOCK_NOT_HELD:
        return CLI_EXIT_NO;
    case DLOCK_BUSY:
    case DLOCK_TIMEOUT:
    case DLOCK_CANCELED:
    case DLOCK_UNKNOWN:
        return CLI_EXIT_BUSY;
    case DLOCK_LOST:
        return CLI_EXIT_LOST;
    case DLOCK_NO_STORE:
        return CLI_EXIT_NO_STORE;
    case DLOCK_UNAVAILABLE:
    case DLOCK_NO_QUORUM:
    case DLOCK_NO_PLUGIN:
    case DLOCK_PLUGIN_LOAD:
    case DLOCK_PLUGIN_ABI:
        return CLI_EXIT_UNAVAILABLE;
    case DLOCK_AUTH:
        return CLI_EXIT_AUTH;
    case DLOCK_PROTOCOL:
        return CLI_EXIT_PROTOCOL;
    case DLOCK_CONFIG:
    case DLOCK_UNSUPPORTED:
        return CLI_EXIT_CONFIG;
    case DLOCK_INVALID:
        return CLI_EXIT_USAGE;
    case DLOCK_ALREADY:
    case DLOCK_FORKED:
    case DLOCK_CLOSED:
    case DLOCK_NOMEM:
    case DLOCK_INTERNAL:
        return CLI_EXIT_INTERNAL;
    }
    return CLI_EXIT_INTERNAL;
}
