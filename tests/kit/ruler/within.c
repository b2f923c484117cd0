/* SPDX-License-Identifier: MIT */
/* within.c - a program that calls these is watched from its beginning. */
#include "ruler.h"

#include <stdio.h>

static _Thread_local struct dlt_measure last;

/* Before the program has a thread, or asks for the time. */
__attribute__((constructor)) static void ruler_begin(void)
{
    dlt_ruler_start();
}

int dlt_ended_within(int64_t begin_ns, int64_t end_ns, int64_t most_ms)
{
    enum dlt_ruling ruling = dlt_ruler_judge(begin_ns, end_ns, most_ms, &last);

    if (ruling != DLT_IN_TIME) {
        (void)printf("# %s: %s\n", ruling == DLT_VOID ? "void" : "late", last.text);
        (void)fflush(stdout);
    }
    return ruling != DLT_LATE;
}

int dlt_within(int64_t begin_ns, int64_t most_ms)
{
    return dlt_ended_within(begin_ns, dlt_ruler_now_ns(), most_ms);
}

int dlt_took_within(int64_t took_ms, int64_t most_ms)
{
    return dlt_within(dlt_ruler_now_ns() - took_ms * 1000000, most_ms);
}

const char *dlt_within_text(void)
{
    return last.text;
}
