/* SPDX-License-Identifier: MIT */
/* pause_server PID stop|cont: SIGSTOP, or SIGCONT, to a server that with_server has started, and to
 * its processes. Ends when they stand still. */
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const long pid = argc == 3 ? strtol(argv[1], NULL, 10) : 0;

    if (pid <= 1 || (strcmp(argv[2], "stop") != 0 && strcmp(argv[2], "cont") != 0)) {
        (void)fputs("usage: pause_server PID stop|cont\n", stderr);
        return 64;
    }
    dlt_process_pause_family((pid_t)pid, strcmp(argv[2], "stop") == 0);
    return 0;
}
