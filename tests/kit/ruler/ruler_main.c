/* SPDX-License-Identifier: MIT */
/*
 * ruler watch FILE
 * ruler judge FILE TOOK MOST
 *
 * The ruler for tests in shell and Python. "watch" starts a sampler that writes into a new FILE,
 * until the process that called this has ended. "judge" says whether what took TOOK ms, and has
 * ended just now, took at most MOST ms: status 0; 1: it was late; 79: the machine was too slow to
 * say that. It prints the numbers.
 */
#include "ruler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_LATE  1
#define EXIT_USAGE 64
#define EXIT_FILE  66
#define EXIT_VOID  79

static int judge(int64_t took_ms, int64_t most_ms)
{
    static const int codes[] = {[DLT_IN_TIME] = 0, [DLT_LATE] = EXIT_LATE, [DLT_VOID] = EXIT_VOID};
    int64_t end_ns = dlt_ruler_now_ns();
    struct dlt_measure measure;
    enum dlt_ruling ruling = dlt_ruler_judge(end_ns - took_ms * 1000000, end_ns, most_ms, &measure);

    (void)puts(measure.text);
    return codes[ruling];
}

int main(int argc, char **argv)
{
    int watches = argc == 3 && strcmp(argv[1], "watch") == 0;

    if (!watches && (argc != 5 || strcmp(argv[1], "judge") != 0)) {
        (void)fputs("usage: ruler watch FILE | judge FILE TOOK MOST\n", stderr);
        return EXIT_USAGE;
    }
    if (!dlt_ruler_open(argv[2], watches ? getppid() : 0)) {
        perror(argv[2]);
        return EXIT_FILE;
    }
    return watches ? 0 : judge(strtoll(argv[3], NULL, 10), strtoll(argv[4], NULL, 10));
}
