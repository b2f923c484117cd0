/* SPDX-License-Identifier: MIT */
/* tap.h - counts and prints the lines of one test program, of whatever files it is made. */
#ifndef DLT_TAP_H
#define DLT_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

__attribute__((weak)) int dlt_tap_count, dlt_tap_failed; /* one of each in a program */

/* Of process.h, in programs that start servers. */
__attribute__((weak)) void dlt_process_logs_show(void);

__attribute__((format(printf, 2, 3))) static inline bool dlt_ok(bool good, const char *format, ...)
{
    va_list args;

    printf("%sok %d - ", good ? "" : "not ", ++dlt_tap_count);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
    if (!good && dlt_process_logs_show != NULL)
        dlt_process_logs_show();
    dlt_tap_failed += !good;
    return good;
}

static inline void dlt_skip(const char *name, const char *reason)
{
    printf("ok %d - %s # SKIP %s\n", ++dlt_tap_count, name, reason);
}

/* The plan, and the program's exit status. */
static inline int dlt_done(void)
{
    printf("1..%d\n", dlt_tap_count);
    return dlt_tap_failed != 0;
}

#endif
